package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/agent/luks"
	"spore/storage/atomicfile"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// Candidate is a state partition that is not this node's, and whose it is.
type Candidate struct {
	// Disk is the device, such as /dev/sda, and Serial names it for good.
	Disk   string `json:"disk"`
	Serial string `json:"serial"`
	// Partition is the PARTUUID, and Size is in bytes.
	Partition string `json:"partition"`
	Size      int64  `json:"size"`
	// Cluster is the id of the cluster and Node the name of the node that it says it belongs to.
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	// Problem is why it cannot be adopted, or why it is not known whose it is.
	Problem string `json:"problem,omitempty"`
}

// Ownerless is the problem of a partition that can be adopted, and does not say whose it was.
const Ownerless = "it does not say whose it is"

// Candidates lists the state partitions of the machine's disks that are not this node's. A disk that cannot be read has
// none. It needs the rights to mount, and changes nothing.
func Candidates(o Options) ([]Candidate, error) {
	disks, err := o.List()
	if err != nil {
		return nil, err
	}
	want := PartUUID(o.ClusterID, o.Node)
	var out []Candidate
	for _, d := range disks {
		for _, p := range notOurs(d, want) {
			c := Candidate{Disk: d.Path(), Serial: d.Serial(), Partition: p.GUID.String(), Size: p.Size}
			b, err := o.whose(d.Partition(p.Number))
			c.Cluster, c.Node = b.Cluster, b.Node
			if err != nil {
				c.Problem = err.Error()
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// notOurs lists the state partitions of a disk that are not this node's.
func notOurs(d disk.Disk, want gpt.GUID) (out []gpt.Partition) {
	f, err := os.Open(d.Path())
	if err != nil {
		return nil
	}
	defer f.Close()
	t, err := gpt.Read(f, d.Size, d.SectorSize)
	if err != nil {
		return nil
	}
	for _, p := range t.Partitions {
		if p.Type == typeVar && p.GUID != want {
			out = append(out, p)
		}
	}
	return out
}

// whose reads the binding on a partition, which is mounted for that without a change: not even its journal is replayed.
func (o Options) whose(device string) (Binding, error) {
	switch _, err := encryption(device); {
	case err == nil:
		return Binding{}, errors.New("it is encrypted, and belongs to the node whose keys open it")
	case !errors.Is(err, luks.ErrNone):
		return Binding{}, err
	case o.Lock.Wanted():
		return Binding{}, errors.New("it is not encrypted, and the configuration asks for encrypted state")
	}
	dir, err := os.MkdirTemp("", "spore-adopt-*")
	if err != nil {
		return Binding{}, err
	}
	defer os.Remove(dir)
	flags := uintptr(unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC)
	if err := unix.Mount(device, dir, "ext4", flags, "noload"); err != nil {
		return Binding{}, fmt.Errorf("mount %s: %w", device, err)
	}
	b, err := readBinding(dir)
	if uerr := unix.Unmount(dir, 0); err == nil {
		err = uerr
	}
	return b, err
}

// readBinding says whose the file system at dir is. What is on a disk is outside data: links are not followed.
func readBinding(dir string) (Binding, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Binding{}, err
	}
	defer root.Close()
	data, err := atomicfile.ReadLimitedIn(root, filepath.FromSlash(bindingFile), maxBinding)
	if errors.Is(err, fs.ErrNotExist) {
		return Binding{}, errors.New(Ownerless)
	}
	if err != nil {
		return Binding{}, fmt.Errorf("its binding: %w", err)
	}
	var b Binding
	if err := json.Unmarshal(data, &b); err != nil {
		return Binding{}, fmt.Errorf("its binding %s cannot be read: %w", bindingFile, err)
	}
	return b, nil
}
