// Package disks has the verb disks: each disk of the machine, what a node's file can name it by, whose it is, and what
// is on it. It reads disks and writes none.
//
// Whose a disk is follows what the agent goes by when it takes disks (packages state and datadisk): the disk of the
// boot, PARTUUIDs made of the cluster's id, and the proof that a disk is empty (package blank). A disk that does not
// answer keeps back none of the others.
package disks

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/datadisk"
	agentdisks "spore/agent/disks"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/agent/verbs"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
	"spore/storage/disk"
	"spore/storage/flash"
	"spore/storage/gpt"
	"spore/wire/machine"
)

// diskBound is how long one disk may take to answer.
const diskBound = 20 * time.Second

// What is in an answer, so that it has room for it: the partitions of a disk, and of its names, and of the mounts and
// uses of a partition.
const (
	shownPartitions = 256
	shownNames      = 16
)

// Show answers with a machine.Disk for each disk.
func Show(ctx context.Context, r *verbs.Run) (string, error) {
	r.Machine.ReadBoot()
	r.Machine.FindDisks(ctx)
	l, err := look(r)
	if err != nil {
		return "", err
	}
	found := make([]chan machine.Disk, len(l.targets))
	for i, t := range l.targets {
		found[i] = make(chan machine.Disk, 1)
		go func() { found[i] <- l.examine(t) }()
	}
	bound := time.After(diskBound)
	out := make([]machine.Disk, 0, len(found))
	for i := range found {
		select {
		case d := <-found[i]:
			out = append(out, d)
			continue
		case <-bound:
			bound = closed() // All have had the time.
		case <-ctx.Done():
			return "", ctx.Err()
		}
		select {
		case d := <-found[i]: // It was ready all along.
			out = append(out, d)
		default:
			d := l.named(l.targets[i])
			d.Whose, d.About = machine.Unknown, fmt.Sprintf("it has not answered within %s", diskBound)
			out = append(out, d)
		}
	}
	for _, d := range out {
		if err := r.Result(d); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d disks", len(out)), nil
}

func closed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// looker is what all disks are held against.
type looker struct {
	r       *verbs.Run
	sys     fs.FS
	targets []flash.Target
	// all are the same, as a selector sees them.
	all    []disk.Disk
	mounts []mount
	// taken are the disks that the node's file gives to roles, and state is what became of /var.
	taken []datadisk.Info
	state state.Info
	// nodes are the names of the cluster's other nodes, and uses what its services and its own roles have disks for.
	nodes, uses []string
}

func look(r *verbs.Run) (*looker, error) {
	m := r.Machine
	l := &looker{r: r, sys: os.DirFS(m.Root.At("/sys")), taken: agentdisks.All(m)}
	var err error
	if l.targets, err = (flash.Host{Sys: l.sys, Udev: os.DirFS(m.Root.At("/run/udev"))}).Disks(); err != nil {
		return nil, err
	}
	for _, t := range l.targets {
		l.all = append(l.all, t.Disk)
	}
	// Those of process 1: this one has a name space of its own, with mounts that nobody else has.
	text, err := os.ReadFile(m.Root.At("/proc/1/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("ask what is mounted: %w", err)
	}
	l.mounts = parseMounts(string(text))
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &l.state); err != nil {
		m.Say(err.Error()) // It is shown what is on the disks all the same.
	}
	l.uses = agentdisks.Uses(r.Cluster)
	for _, names := range r.Cluster.Members {
		l.nodes = append(l.nodes, names...)
	}
	slices.Sort(l.nodes)
	l.nodes = slices.DeleteFunc(slices.Compact(l.nodes), func(n string) bool { return n == r.Node.Name })
	return l, nil
}

// named is what is known of a disk without reading it.
func (l *looker) named(t flash.Target) machine.Disk {
	dir := "block/" + t.Name
	return machine.Disk{
		Name: t.Name, Size: t.Size, Model: t.Model, Serials: few(t.Serials), WWNs: few(t.WWNs), ByID: few(t.ByID),
		Selectors: selectors(l.all, t.Disk), Transport: l.transport(t.Name), Rotational: blockdev.Text(l.sys, dir+"/queue/rotational") == "1",
		Removable: t.Removable, ReadOnly: t.ReadOnly, Sector: t.SectorSize,
	}
}

// examine says all of one disk.
func (l *looker) examine(t flash.Target) machine.Disk {
	d := l.named(t)
	if t.Optical {
		d.Whose, d.About = machine.Unknown, "it is a drive for discs"
		d.Partitions = l.partitions(t, nil)
		return d
	}
	f, err := os.Open(l.r.Machine.Root.At(t.Path()))
	if err != nil {
		d.Whose, d.About = machine.Unknown, "it cannot be read: "+err.Error()
		return d
	}
	defer f.Close()
	table, err := gpt.Read(f, t.Size, t.SectorSize)
	if err != nil {
		table = gpt.Table{}
	}
	d.Partitions = l.partitions(t, table.Partitions)
	d.Whose, d.About = l.whose(t, table, f)
	return d
}

// selectors are what a node's file can have for a disk: of each kind one that is valid and matches no other disk.
func selectors(all []disk.Disk, d disk.Disk) (out []machine.Selector) {
	alone := func(s spec.DiskSelector) bool {
		got, err := disk.Select(all, s)
		return err == nil && got.Name == d.Name
	}
	for _, s := range d.Serials {
		_, err := identity.Normalize(identity.Serial, s)
		if err == nil && strings.TrimSpace(s) == s && !strings.ContainsAny(s, "*?[]{}") && alone(spec.DiskSelector{Serial: s}) {
			out = append(out, machine.Selector{Key: "serial", Value: s})
			break
		}
	}
	for _, s := range d.WWNs {
		if spec.ValidWWN(s) && alone(spec.DiskSelector{WWN: s}) {
			out = append(out, machine.Selector{Key: "wwn", Value: s})
			break
		}
	}
	names := slices.Clone(d.ByID)
	// The one that a person recognizes is first: those of a bus with the model, and not those that are a number.
	slices.SortStableFunc(names, func(a, b string) int { return boolean(numeric(a)) - boolean(numeric(b)) })
	for _, s := range names {
		if spec.ValidByID(s) && spec.WithoutPart(s) == s && alone(spec.DiskSelector{ByID: s}) {
			out = append(out, machine.Selector{Key: "byID", Value: s})
			break
		}
	}
	return out
}

// numeric tells of a name that is made of a number (60-persistent-storage.rules of udev).
func numeric(name string) bool {
	for _, prefix := range []string{"wwn-", "nvme-eui.", "nvme-nvme.", "nvme-uuid.", "scsi-3"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// transports are parts of a disk's path in sysfs, the outermost first: a disk in a USB case is a SCSI disk, too.
var transports = []struct{ part, name string }{
	{"/usb", "usb"}, {"/nvme/", "nvme"}, {"/nvme-", "nvme"}, {"/mmc", "mmc"}, {"/virtio", "virtio"}, {"/ata", "sata"},
	{"/end_device-", "sas"}, {"/rport-", "fc"}, {"/session", "iscsi"}, {"/host", "scsi"},
}

func (l *looker) transport(name string) string {
	link, err := fs.ReadLink(l.sys, "block/"+name)
	if err != nil {
		return ""
	}
	for _, t := range transports {
		if strings.Contains(link, t.part) {
			return t.name
		}
	}
	return ""
}

// partitions are those of the table, and those that the kernel has made of something else. What is on the whole disk is
// number 0.
func (l *looker) partitions(t flash.Target, table []gpt.Partition) (out []machine.Partition) {
	whole := l.use(machine.Partition{Name: t.Name, Size: t.Size})
	if whole.FileSystem != "" || whole.Mounts != nil || whole.Uses != nil {
		out = append(out, whole)
	}
	known := map[string]bool{}
	for _, p := range table {
		q := machine.Partition{Number: p.Number, Size: p.Size, Label: p.Name, UUID: p.GUID.String()}
		if name := filepath.Base(t.Partition(p.Number)); l.exists("class/block/" + name) {
			q.Name, known[name] = name, true
			q = l.use(q)
		}
		out = append(out, q)
	}
	entries, _ := fs.ReadDir(l.sys, "block/"+t.Name)
	for _, e := range entries {
		dir := "block/" + t.Name + "/" + e.Name()
		if number := blockdev.Text(l.sys, dir+"/partition"); number != "" && !known[e.Name()] {
			out = append(out, l.use(machine.Partition{Number: atoi(number), Name: e.Name(), Size: sectors(blockdev.Text(l.sys, dir+"/size"))}))
		}
	}
	slices.SortStableFunc(out, func(a, b machine.Partition) int { return a.Number - b.Number })
	return out[:min(len(out), shownPartitions)]
}

func (l *looker) exists(name string) bool {
	_, err := fs.Stat(l.sys, name)
	return err == nil
}

// use adds what udev knows of a block device, and what uses it.
func (l *looker) use(p machine.Partition) machine.Partition {
	dir := "class/block/" + p.Name
	number := blockdev.Text(l.sys, dir+"/dev")
	udev, _ := os.ReadFile(l.r.Machine.Root.At("/run/udev/data/b" + number))
	properties := parseProperties(string(udev))
	p.FileSystem, p.FileSystemUUID, p.FileSystemLabel = properties["ID_FS_TYPE"], properties["ID_FS_UUID"], properties["ID_FS_LABEL"]
	p.Mounts, p.Uses = l.above(dir, 0)
	p.Mounts, p.Uses = few(p.Mounts), few(p.Uses)
	if len(p.Mounts) > 0 {
		p.Fill = fill(l.r.Machine.Root.At(p.Mounts[0]))
	}
	return p
}

// maxHolders is how deep devices lie on devices: partition, encryption, volume.
const maxHolders = 6

// above lists where a device, or what is made of it, is mounted, and what is made of it.
func (l *looker) above(dir string, depth int) (mounts, uses []string) {
	number := blockdev.Text(l.sys, dir+"/dev")
	for _, m := range l.mounts {
		if number != "" && m.device == number && m.root == "/" && !slices.Contains(mounts, m.at) {
			mounts = append(mounts, m.at)
		}
	}
	holders, _ := fs.ReadDir(l.sys, dir+"/holders")
	for _, e := range holders {
		inner := "class/block/" + e.Name()
		name := "/dev/" + e.Name()
		if mapped := blockdev.Text(l.sys, inner+"/dm/name"); mapped != "" {
			name = "/dev/mapper/" + mapped
		}
		uses = append(uses, name)
		if depth < maxHolders {
			m, u := l.above(inner, depth+1)
			mounts, uses = append(mounts, m...), append(uses, u...)
		}
	}
	return mounts, uses
}

// fill is how full a file system is; nil when it cannot be asked, and of an image, which is always full.
func fill(at string) *machine.Fill {
	var s unix.Statfs_t
	if err := unix.Statfs(at, &s); err != nil || int64(s.Type) == unix.SQUASHFS_MAGIC {
		return nil
	}
	unit := s.Frsize
	if unit == 0 {
		unit = s.Bsize
	}
	return &machine.Fill{
		Size: int64(s.Blocks) * unit, Used: int64(s.Blocks-s.Bfree) * unit, Free: int64(s.Bavail) * unit,
		Inodes: int64(s.Files), FreeInodes: int64(s.Ffree),
	}
}

// few bounds a list.
func few(list []string) []string { return list[:min(len(list), shownNames)] }
