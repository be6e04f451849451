// Package origin keeps, in the directory of a member's data, how that data began: by which incarnation of the member
// (package formation), and with what etcd is to start that has no data yet. etcd makes its data by itself at its first start,
// so until there is some, the origin is what a member has.
//
// A directory with data and without an origin is that of an older release, or was restored: it is left as it is.
package origin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/formation"
	"spore/storage/atomicfile"
)

// Data is where a member's data lies; it is also what is put aside and made anew. Home is the directory that it lies in.
const (
	Home = "/var/lib/etcd"
	Data = Home + "/member"
)

// file is the origin's, in the directory of the data: who removes the data removes it too.
const file = "spore.json"

// maxOrigin bounds it in bytes.
const maxOrigin = 1 << 20

// Names of what is put aside, beside the data.
const (
	// GivenUp is what an operator gave up by force.
	GivenUp = "member.given-up"
	// Removed is that of a member that the others have removed.
	Removed = "member.removed"
)

// Origin is how the data of a member began.
type Origin struct {
	Kind formation.Kind `json:"kind"`
	// Nonce is the incarnation of the member.
	Nonce string `json:"nonce"`
	// Members holds, for Form, the members that form, by name; for Join, those that there were when this one was let in, with
	// itself. The values are where other members find them: URLs.
	Members map[string][]string `json:"members,omitempty"`
	// Token is that of what is formed (etcd, --initial-cluster-token).
	Token string `json:"token,omitempty"`
	// ID is, for Join, what the others know this member by; 0 before it was let in.
	ID uint64 `json:"id,omitempty"`
	// Ran is true when etcd is known to have had data: where there is none any more, it was lost.
	Ran bool `json:"ran,omitempty"`
	// Alone is true while no other master was ever in the configuration, so that there cannot be another member.
	Alone bool `json:"alone,omitempty"`
}

// InitialCluster is what etcd takes as --initial-cluster: NAME=URL,…
func (o *Origin) InitialCluster() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o.Members)) {
		for _, url := range o.Members[name] {
			out = append(out, name+"="+url)
		}
	}
	return strings.Join(out, ",")
}

// Token is that of a quorum that these incarnations form. etcd derives its cluster's and its members' ids from it, so that
// those of two quorums never take each other for one of theirs.
func Token(cluster string, nonces map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(nonces)) {
		fmt.Fprintf(h, "%s %s\n", name, nonces[name])
	}
	return cluster + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// Dir is the directory of a member's data. It lies in the folder of etcd's user, where root works as well: nothing in
// there is followed that leads out of that folder.
type Dir string

// home opens the folder that the directory lies in. An error that is fs.ErrNotExist says that there is none.
func (d Dir) home() (*os.Root, error) {
	root, err := os.OpenRoot(filepath.Dir(string(d)))
	if err != nil {
		return nil, err
	}
	st, err := root.Lstat(d.name())
	if err == nil && !st.IsDir() {
		root.Close()
		return nil, fmt.Errorf("%s is not a directory, and neither etcd nor spore-agent makes anything else there: remove it", d)
	}
	return root, nil
}

func (d Dir) name() string { return filepath.Base(string(d)) }

func (d Dir) file() string { return d.name() + "/" + file }

func (d Dir) wal() string { return d.name() + "/wal" }

// Read reads the origin; nil when there is none.
func (d Dir) Read() (*Origin, error) {
	home, err := d.home()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read how the data of etcd began: %w", err)
	}
	defer home.Close()
	return d.read(home)
}

func (d Dir) read(home *os.Root) (*Origin, error) {
	data, err := atomicfile.ReadLimitedIn(home, d.file(), maxOrigin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var o Origin
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("read how the data of etcd began: %w", err)
	}
	if o.Nonce == "" || o.Kind != formation.Form && o.Kind != formation.Join || o.Kind == formation.Form && len(o.Members) == 0 {
		return nil, fmt.Errorf("read how the data of etcd began: %s is damaged", filepath.Join(string(d), file))
	}
	return &o, nil
}

// Write keeps the origin such that it survives a power cut.
func (d Dir) Write(o Origin) error {
	home, err := d.home()
	if err != nil {
		return fmt.Errorf("keep how the data of etcd began: %w", err)
	}
	defer home.Close()
	return d.write(home, o)
}

func (d Dir) write(home *os.Root, o Origin) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("internal error: how the data of etcd began: %w", err)
	}
	return atomicfile.WriteDurableIn(home, d.file(), append(data, '\n'), 0o644)
}

// Settle makes of what a power cut left what the member can go on with, and tells whether it has no data. What etcd had only
// begun to write, it begins anew; nobody has heard of that yet.
func (d Dir) Settle() (empty bool, err error) {
	home, err := d.home()
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the data of etcd: %w", err)
	}
	defer home.Close()
	o, err := d.read(home)
	if err != nil {
		return false, err
	}
	began, err := d.hasEntries(home)
	if err != nil {
		return false, err
	}
	switch {
	case o == nil:
		_, err := home.Stat(d.wal())
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	case o.Ran:
		return !began, nil
	case began:
		o.Ran = true
		return false, d.write(home, *o)
	}
	return false, d.clear(home, file)
}

// Make has the directory hold nothing but an origin, unless it is that of this incarnation already. What another one left is
// put aside when it is data, and removed when it is none. uid and gid are etcd's.
func (d Dir) Make(o Origin, uid, gid int) error {
	if err := os.MkdirAll(filepath.Dir(string(d)), 0o700); err != nil {
		return fmt.Errorf("make the directory of etcd's data: %w", err)
	}
	home, err := d.home()
	if err != nil {
		return fmt.Errorf("make the directory of etcd's data: %w", err)
	}
	defer home.Close()
	before, err := d.read(home)
	if err == nil && before != nil && before.Nonce == o.Nonce && before.Kind == o.Kind {
		return nil
	}
	began, err := d.hasEntries(home)
	if err != nil || began {
		if err := d.putAside(home, GivenUp); err != nil {
			return err
		}
	}
	if err := home.Mkdir(d.name(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the directory of etcd's data: %w", err)
	}
	if err := d.clear(home, ""); err != nil {
		return err
	}
	if err := atomicfile.GiveIn(home, d.name(), uid, gid); err != nil {
		return fmt.Errorf("give etcd its directory: %w", err)
	}
	if err := d.write(home, o); err != nil {
		return err
	}
	return atomicfile.SyncIn(home, ".")
}

// PutAside renames the directory. What the others have removed they have; of what was given up, nothing is deleted.
func (d Dir) PutAside(name string) error {
	home, err := d.home()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("put the data of etcd aside: %w", err)
	}
	defer home.Close()
	return d.putAside(home, name)
}

func (d Dir) putAside(home *os.Root, name string) error {
	to := name
	if name == Removed {
		if err := home.RemoveAll(to); err != nil {
			return fmt.Errorf("put the data of etcd aside: %w", err)
		}
	}
	for i := 2; ; i++ {
		if _, err := home.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return fmt.Errorf("put the data of etcd aside: %w", err)
		}
		to = fmt.Sprintf("%s-%d", name, i)
	}
	if err := home.Rename(d.name(), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put the data of etcd aside: %w", err)
	}
	return atomicfile.SyncIn(home, ".")
}

// clear removes all that is in the directory but one file.
func (d Dir) clear(home *os.Root, but string) error {
	dir, err := atomicfile.DirIn(home, d.name())
	if err != nil {
		return fmt.Errorf("clear the directory of etcd's data: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("clear the directory of etcd's data: %w", err)
	}
	for _, name := range names {
		if name == but {
			continue
		}
		if err := home.RemoveAll(d.name() + "/" + name); err != nil {
			return fmt.Errorf("clear the directory of etcd's data: %w", err)
		}
	}
	return nil
}
