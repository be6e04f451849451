package disks

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/agent/datadisk"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
)

// Check fails while a disk that the node's file gives to a use cannot be used: what is kept on it must not go to the
// state instead. It is nil where the file gives none.
func Check(m *node.Machine, use string) error {
	_, _, n, err := m.Node()
	if err != nil || n == nil {
		return err
	}
	return check(m.Root, n, use)
}

func check(root paths.Root, n *facts.Node, use string) error {
	wanted := len(datadisk.Of(n.Disks, use))
	if wanted == 0 {
		return nil
	}
	infos, err := datadisk.Read(root, use)
	if err == nil {
		err = datadisk.Problems(infos)
	}
	if err == nil && len(infos) != wanted {
		err = errors.New("they were prepared for another configuration; restart the machine")
	}
	for _, i := range infos {
		if err == nil && i.Mount != "" && !mounted(i.Mount) {
			err = fmt.Errorf("nothing is mounted at %s any more; restart the machine when its disk is there", i.Mount)
		}
	}
	if err != nil {
		return fmt.Errorf("the file of node %s gives it a disk (use: %s), and it keeps nothing elsewhere. It waits for the "+
			"disk, and starts when %s has it; attach it, or correct the file: %w", n.Name, use, datadisk.Unit(use), err)
	}
	return nil
}

// mounted tells whether a directory has another file system than the one above it. A disk that is pulled out while the
// node runs is unmounted.
func mounted(dir string) bool {
	var at, above unix.Stat_t
	return unix.Stat(dir, &at) == nil && unix.Stat(filepath.Dir(dir), &above) == nil && at.Dev != above.Dev
}
