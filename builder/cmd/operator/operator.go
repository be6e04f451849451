// Package operator is how commands that give nodes their secrets find and open the folder that the operator keeps the
// cluster's keys in, and make bundles with them.
package operator

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	keys "spore/builder/cmd/pki"
	"spore/cluster/facts"
	"spore/pki/vault"
)

// Credential is the systemd credential that a node takes its bundle from.
const Credential = "spore.bundle"

// Folder says where the operator's folder is and how it is opened.
type Folder struct {
	// Dir is the folder; it is looked for when empty.
	Dir string
	// PassphraseFile has the folder's passphrase, which is asked for otherwise; Identity is an age identity file.
	PassphraseFile, Identity string
}

// Register adds the flags to a command.
func (f *Folder) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Dir, "pki", "", "the operator's folder, from which bundles are made (default: that of this cluster, in this folder or beside OUT)")
	flags.StringVar(&f.PassphraseFile, "passphrase-file", "", "read that folder's passphrase from this file instead of the terminal")
	flags.StringVar(&f.Identity, "identity", "", "age identity file, where that folder is encrypted for recipients")
}

// Options are those of bundles.
type Options struct {
	// Now is the time that they are made at.
	Now time.Time
	// Record keeps them as what the nodes have, on which the rotation of an authority relies. A rehearsal takes serials
	// of its own, so that the next bundle of the real node is newer, and records nothing.
	Record bool
	// Near are the folders in which the operator's may lie.
	Near []string
}

// Bundle is the bundle of a node.
type Bundle struct {
	Node   string
	Serial uint64
	Data   []byte
	// Folder is what it was made from.
	Folder string
}

// Bundles makes the bundles of nodes with the keys that their image was built with, in the order of the nodes. It
// returns none, and why, when there are no keys.
func (f Folder) Bundles(c *facts.Cluster, nodes []*facts.Node, o Options) (bundles []Bundle, none string, err error) {
	keys, none, err := f.Open(c, o.Near)
	if keys == nil || err != nil {
		return nil, none, err
	}
	defer keys.Close()
	bundles, err = keys.Bundles(nodes, o)
	return bundles, "", err
}

// Keys is the operator's folder while it is open.
type Keys struct {
	*vault.Vault
	cluster *facts.Cluster
	dir     string
}

// Open opens the folder with the keys that an image of the cluster was built with; near are the folders in which it may
// lie. It returns nil, and why, when there are no keys.
func (f Folder) Open(c *facts.Cluster, near []string) (opened *Keys, none string, err error) {
	dir, none, err := f.find(c, near)
	if dir == "" || err != nil {
		return nil, none, err
	}
	v, err := keys.Open(dir, f.PassphraseFile, f.Identity)
	if err != nil {
		return nil, "", err
	}
	return &Keys{v, c, dir}, "", nil
}

// Bundles makes the bundles of nodes, in the order of the nodes.
func (k *Keys) Bundles(nodes []*facts.Node, o Options) ([]Bundle, error) {
	records := maps.Clone(k.Tree.Issued)
	var bundles []Bundle
	for _, n := range nodes {
		data, err := k.Tree.BundleFor(k.cluster, n, o.Now)
		if err != nil {
			return nil, err
		}
		bundles = append(bundles, Bundle{n.Name, k.Tree.Serial, data, k.dir})
	}
	if !o.Record {
		k.Tree.Issued = records
	}
	return bundles, k.Save()
}

// find is the folder, or why there is none.
func (f Folder) find(c *facts.Cluster, near []string) (dir, none string, err error) {
	if len(c.SigningKeys) == 0 {
		if f.Dir != "" {
			return "", "", errors.New("the image was built without keys and takes no bundle; build it again with `spore build --pki " + f.Dir + "`")
		}
		return "", "no bundle: the image was built without keys; run `spore pki init`, and build again", nil
	}
	dir = f.Dir
	if dir == "" {
		if dir, err = findFolder(c, near); err != nil {
			return "", "", err
		}
		if dir == "" {
			return "", "no bundle: no folder with the keys of cluster " + c.Name + " is here or beside the image; name it with --pki", nil
		}
	}
	return dir, "", signsFor(dir, c)
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
