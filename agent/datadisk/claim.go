package datadisk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spore/storage/atomicfile"
)

// Names at the top of a file system: whose it is, and the directory that Kafka uses. The top itself has lost+found,
// which Kafka would take for a broken log.
const (
	bindingFile = "spore.json"
	LogDir      = "log"
)

// maxBinding bounds the file; what is on a disk is outside data.
const maxBinding = 4096

// binding says whose a file system is.
type binding struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

// claim checks whose the mounted file system is, makes one that is new this node's, and the directories in it those of
// the services. A disk comes from anywhere: nothing on it is followed that leads out of it.
func (o Options) claim(dir string) error {
	above, err := os.OpenRoot(filepath.Dir(o.Mounts))
	if err != nil {
		return err
	}
	defer above.Close()
	name, err := filepath.Rel(above.Name(), dir)
	if err != nil {
		return fmt.Errorf("internal error: mount point: %w", err)
	}
	top, err := above.OpenRoot(name)
	if err != nil {
		return err
	}
	defer top.Close()
	want := binding{o.ClusterID, o.Node}
	data, err := atomicfile.ReadLimitedIn(top, bindingFile, maxBinding)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := onlyNew(top); err != nil {
			return err
		}
		data, err := json.Marshal(want)
		if err != nil {
			return fmt.Errorf("internal error: binding: %w", err)
		}
		if err := atomicfile.WriteDurableIn(top, bindingFile, append(data, '\n'), 0o644); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		var got binding
		if err := json.Unmarshal(data, &got); err != nil {
			return fmt.Errorf("its %s cannot be read: %w", bindingFile, err)
		}
		if got != want {
			return fmt.Errorf("it belongs to node %.64q of cluster %.64q, and this is node %q of cluster %q; nothing was changed", got.Node, got.Cluster, o.Node, o.ClusterID)
		}
	}
	for _, d := range o.Dirs {
		if err := top.Mkdir(d.Name, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := atomicfile.GiveIn(top, d.Name, d.UID, d.GID); err != nil {
			return err
		}
	}
	return nil
}

// onlyNew tells a file system that was never used from one whose binding is lost: the binding is written first.
func onlyNew(top *os.Root) error {
	dir, err := atomicfile.DirIn(top, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "lost+found" && !strings.HasPrefix(name, "."+bindingFile+"-") { // What a cut leaves of the write.
			return fmt.Errorf("it holds %s but no %s, so it is not known whose it is; nothing was changed", name, bindingFile)
		}
	}
	return nil
}
