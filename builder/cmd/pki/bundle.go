package pki

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/cluster/facts"
	"spore/pki/seal"
	"spore/pki/vault"
)

type bundleFlags struct {
	node, out, passphraseFile string
	all, encrypt              bool
}

func bundleCommand(world outside) *cobra.Command {
	c := common{world: world}
	var f bundleFlags
	cmd := &cobra.Command{
		Use:   "bundle [DIR] --node NAME",
		Short: "Make the bundle of secrets for a node",
		Long: `Bundle writes the secrets of a node's roles, and only those, signed by the cluster's key. What is due is renewed first.
The file is the systemd credential spore.bundle of the machine. With --encrypt it is encrypted with a passphrase, which
the node asks for on its console; age -d opens it too.

Without --encrypt, everybody who can read the file has the node's secrets.`,
		Example: `  spore pki bundle --node edge-01
  spore boot out --node edge-01 --credential spore.bundle=edge-01.bundle
  spore pki bundle --node edge-01 --encrypt -o edge-01.bundle.age
  spore pki bundle --all -o bundles`,
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.node == "") == !f.all {
				return exit.Usage(errors.New("name one node with --node, or all with --all"))
			}
			if f.passphraseFile != "" && !f.encrypt {
				return exit.Usage(errors.New("--bundle-passphrase-file goes with --encrypt"))
			}
			c.args(args)
			s, err := c.open(cmd)
			if err != nil {
				return err
			}
			defer s.vault.Close()
			return s.bundles(cmd, f)
		},
	}
	c.flags(cmd)
	c.making(cmd)
	cmd.Flags().StringVar(&f.node, "node", "", "name of the node")
	cmd.Flags().BoolVar(&f.all, "all", false, "make the bundles of all nodes")
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "file to write (default NAME.bundle); with --all a folder (default bundles)")
	cmd.Flags().BoolVar(&f.encrypt, "encrypt", false, "encrypt the bundle with a passphrase of its own")
	cmd.Flags().StringVar(&f.passphraseFile, "bundle-passphrase-file", "", "read that passphrase from this file instead of the terminal")
	return cmd
}

func (s *session) bundles(cmd *cobra.Command, f bundleFlags) error {
	nodes := s.nodes
	if !f.all {
		n, err := s.node(f.node)
		if err != nil {
			return err
		}
		nodes = []facts.Node{*n}
	}
	passphrase, err := s.bundlePassphrase(f)
	if err != nil {
		return err
	}
	data, err := s.make(cmd, nodes)
	if err != nil {
		return err
	}
	for i := range data {
		if f.encrypt {
			if data[i], err = seal.WithPassphrase(data[i], passphrase, cmp.Or(s.world.workFactor, seal.NodeWorkFactor)); err != nil {
				return err
			}
		}
	}
	for i, n := range nodes {
		name := f.file(n.Name)
		if err := writeBundle(name, data[i], f.all); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: bundle %d of node %s\n", name, s.vault.Tree.Issued[n.Name].Serial, n.Name)
	}
	if !f.encrypt {
		fmt.Fprintln(cmd.OutOrStdout(), "not encrypted: everybody who has this file has the node's secrets; remove it when the node has them")
	}
	return nil
}

// make makes the bundles of nodes, after what is due was renewed.
func (s *session) make(cmd *cobra.Command, nodes []facts.Node) ([][]byte, error) {
	changes, err := s.update(false)
	if err != nil {
		return nil, err
	}
	data := make([][]byte, len(nodes))
	for i := range nodes {
		if data[i], err = s.vault.Tree.BundleFor(s.cluster, &nodes[i], s.world.now()); err != nil {
			return nil, err
		}
	}
	// The record is there before the bundle is, so that no bundle is in use without one.
	if err := s.vault.Save(); err != nil {
		return nil, err
	}
	printChanges(cmd.ErrOrStderr(), changes)
	return data, nil
}

func (s *session) bundlePassphrase(f bundleFlags) (string, error) {
	if !f.encrypt {
		return "", nil
	}
	var p string
	var err error
	if f.passphraseFile != "" {
		p, err = ask.Passphrase(f.passphraseFile)
	} else {
		p, err = s.world.ask("passphrase of the bundle", true)
	}
	if err != nil {
		return "", err
	}
	return p, seal.CheckPassphrase(p)
}

func (f *bundleFlags) file(node string) string {
	name := node + ".bundle"
	if f.encrypt {
		name += ".age"
	}
	switch {
	case f.all && f.out == "":
		return filepath.Join("bundles", name)
	case f.all:
		return filepath.Join(f.out, name)
	case f.out == "":
		return name
	}
	return f.out
}

func writeBundle(name string, data []byte, mkdir bool) error {
	if mkdir {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
	}
	return vault.WriteFile(name, data)
}
