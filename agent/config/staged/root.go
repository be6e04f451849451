package staged

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"spore/agent/drivers"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verified"
	"spore/services"
	"spore/services/dataversion"
)

// versions are those of the services that keep data, in the root that runs. Where they are not known, nothing is held
// back: a node has to be able to leave a root whose manifest is damaged.
func versions(m *node.Machine, l *services.List) map[string]string {
	f, err := os.Open(m.Root.At(dataversion.ManifestPath))
	if err == nil {
		defer f.Close()
		var out map[string]string
		if out, err = l.DataVersions(f); err == nil {
			return out
		}
	}
	m.Say("it is not known whether another root reads this node's data: " + err.Error())
	return nil
}

// unsafeBack says which data of nodes with the roles older programs do not read once newer ones wrote it.
func unsafeBack(l *services.List, newer, older map[string]string, roles []string) string {
	var out []string
	for _, w := range dataversion.Only(l.WayBack(newer, older, roles), dataversion.Unsafe) {
		out = append(out, w.String())
	}
	return strings.Join(out, "; ")
}

// lookAt compares what drives the devices of this machine with the drivers in a root that it may be started with.
func lookAt(m *node.Machine, root, tree, rootHash string) (refused, said []string) {
	losses, err := lossesWith(m, root, tree, rootHash)
	if err != nil {
		return nil, []string{"it is not known whether the new root has a driver for each device: " + err.Error()}
	}
	worse, rest := drivers.Refusing(losses)
	return texts(worse), texts(rest)
}

func texts(losses []drivers.Loss) (out []string) {
	for _, l := range losses {
		out = append(out, l.String())
	}
	return out
}

func lossesWith(m *node.Machine, root, tree, rootHash string) (losses []drivers.Loss, err error) {
	target, err := verified.Separate(root, tree, rootHash)
	if err != nil {
		return nil, err
	}
	dir := m.Root.At(paths.UpdateRoot)
	unmount, err := verified.Mount(target, fmt.Sprintf("spore-update-%d", os.Getpid()), rootHash, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unmount()) }()
	return drivers.Against(m, dir)
}
