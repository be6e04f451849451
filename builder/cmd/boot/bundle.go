package boot

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/builder/cmd/exit"
	keys "spore/builder/cmd/pki"
	"spore/cluster/facts"
	"spore/pki/vault"
)

// bundleCredential is the systemd credential that a node takes its bundle from.
const bundleCredential = "spore.bundle"

// operator says where the operator's folder is and how it is opened.
type operator struct {
	// dir is the folder; it is looked for when empty.
	dir, passphraseFile, identity string
}

// bundle makes the bundle of a node with the keys that its image was built with. It returns nothing, and why, when there
// are none. near are the folders in which the operator's may lie.
func (o operator) bundle(c *facts.Cluster, n *facts.Node, now time.Time, near ...string) (data []byte, said string, err error) {
	if len(c.SigningKeys) == 0 {
		if o.dir != "" {
			return nil, "", errors.New("the image was built without keys and takes no bundle; build it again with `spore build --pki " + o.dir + "`")
		}
		return nil, "no bundle: the image was built without keys; run `spore pki init`, and build again", nil
	}
	dir := o.dir
	if dir == "" {
		if dir, err = findFolder(c, near); err != nil {
			return nil, "", err
		}
		if dir == "" {
			return nil, "no bundle: no folder with the keys of cluster " + c.Name + " is here or beside the image; name it with --pki", nil
		}
	}
	if err := signsFor(dir, c); err != nil {
		return nil, "", err
	}
	v, err := keys.Open(dir, o.passphraseFile, o.identity)
	if err != nil {
		return nil, "", err
	}
	defer v.Close()
	// A rehearsal takes a serial of its own, so that the next bundle of the real node is newer; but it is no record of what
	// that node has, on which the rotation of an authority relies.
	record, had := v.Tree.Issued[n.Name]
	if data, err = v.Tree.BundleFor(c, n, now); err != nil {
		return nil, "", err
	}
	serial := v.Tree.Serial
	if had {
		v.Tree.Issued[n.Name] = record
	} else {
		delete(v.Tree.Issued, n.Name)
	}
	if err := v.Save(); err != nil {
		return nil, "", err
	}
	return data, fmt.Sprintf("bundle %d from %s", serial, dir), nil
}

// findFolder looks for the one operator's folder of the cluster. It is empty when there is none.
func findFolder(c *facts.Cluster, near []string) (string, error) {
	found := map[string]string{}
	for _, dir := range near {
		candidates, err := filepath.Glob(filepath.Join(dir, "*.pki"))
		if err != nil {
			return "", err
		}
		for _, name := range candidates {
			public, err := vault.ReadPublic(name)
			if err != nil || !strings.EqualFold(public.Cluster, c.ID) {
				continue
			}
			abs, err := filepath.Abs(name)
			if err != nil {
				return "", err
			}
			if _, twice := found[abs]; !twice {
				found[abs] = name
			}
		}
	}
	names := slices.Sorted(maps.Values(found))
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	}
	return "", exit.Usage(fmt.Errorf("%s hold keys of the cluster %s; name one with --pki", strings.Join(names, " and "), c.Name))
}

// signsFor makes sure that the image takes what the folder signs.
func signsFor(dir string, c *facts.Cluster) error {
	public, err := vault.ReadPublic(dir)
	if err != nil {
		return fmt.Errorf("read the cluster's keys: %w", err)
	}
	if !strings.EqualFold(public.Cluster, c.ID) {
		return fmt.Errorf("the keys in %s are of the cluster with the id %s, and the image is of %s", dir, public.Cluster, c.ID)
	}
	own, err := public.SigningKeys()
	if err != nil {
		return err
	}
	for _, k := range own {
		if slices.Contains(c.SigningKeys, base64.StdEncoding.EncodeToString(k)) {
			return nil
		}
	}
	return fmt.Errorf("the image was built with other keys than those in %s; build it again, or name the folder with --pki", dir)
}
