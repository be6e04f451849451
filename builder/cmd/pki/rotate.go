package pki

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	tree "spore/pki"
)

func rotateCommand(world outside) *cobra.Command {
	c := common{world: world}
	var doSwitch, finish, withdraw, live bool
	var lf liveFlags
	cmd := &cobra.Command{
		Use:   "rotate-ca NAME [DIR]",
		Short: "Replace a certificate authority (CA) in three steps, without an interruption",
		Long: `Rotate-ca replaces the key of an authority (` + "`spore pki show`" + ` lists them; the root, the service account and signing keys
are among them):

  1. rotate-ca NAME            makes the next key. Both are trusted, the old one signs.
                               Build images and bring them to all nodes.
  2. rotate-ca NAME --switch   the new one signs, and every certificate under it is made again. Both are trusted.
                               Make the bundles of all nodes and bring them there.
  3. rotate-ca NAME --finish   the old one is no longer trusted. Refused while the last bundle of a node depends on it.
                               Build images and bring them to all nodes.

--withdraw takes step 1 back.

With --live all three are done over the running cluster, without images: each node is sent a bundle by its API, one node
after the other, and restarts the services that do not reload certificates by themselves; quorum services only while the
other members run. A step begins when every node has the previous one, and is refused while a node does not answer. You
can stop the command and run it again; it continues where it stopped.`,
		Example: "  spore pki rotate-ca mqtt --live\n  spore pki rotate-ca mqtt\n  spore pki rotate-ca mqtt --switch\n  spore pki rotate-ca mqtt --finish\n  spore pki rotate-ca root --root-certificate new.crt --root-key new.key",
		Args:    exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			steps := 0
			for _, set := range []bool{doSwitch, finish, withdraw, live} {
				if set {
					steps++
				}
			}
			if steps > 1 {
				return exit.Usage(errors.New("--switch, --finish and --withdraw are different steps, and --live does all; give one"))
			}
			if c.rootCert != "" && args[0] != tree.RootName {
				return exit.Usage(errors.New("--root-certificate is for `rotate-ca root`"))
			}
			c.args(args[1:])
			s, err := c.open(cmd)
			if err != nil {
				return err
			}
			defer s.vault.Close()
			w := cmd.OutOrStdout()
			switch name := args[0]; {
			case doSwitch:
				return s.switchOver(w, name)
			case finish:
				return s.finish(w, name)
			case withdraw:
				return s.withdraw(w, name)
			case live:
				return s.rotateLive(cmd.Context(), w, name, lf)
			default:
				return s.introduce(w, name)
			}
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.rootCert, "root-certificate", "", "PEM certificate of your own new root CA")
	f.StringVar(&c.rootKey, "root-key", "", "PEM key of your own new root CA")
	f.BoolVar(&doSwitch, "switch", false, "step 2: the new one signs")
	f.BoolVar(&finish, "finish", false, "step 3: the old one is no longer trusted")
	f.BoolVar(&live, "live", false, "do all steps over the running cluster")
	f.StringArrayVar(&lf.addresses, "address", nil, "with --live: ask a node at this address instead of the one in cluster.yaml, as NODE=HOST or NODE=HOST:PORT (may be given again)")
	f.DurationVar(&lf.settle, "settle", 0, "with --live: how long all nodes must be done before the next step (default 11m; 75m for service-account)")
	f.BoolVar(&withdraw, "withdraw", false, "take step 1 back")
	return cmd
}

func (s *session) introduce(w io.Writer, name string) error {
	moved, err := s.ownRoot(&s.vault.Settings)
	if err != nil {
		return err
	}
	o, err := s.options(false)
	if err != nil {
		return err
	}
	if err := s.vault.Tree.Introduce(name, s.cluster, o); err != nil {
		return err
	}
	if err := s.vault.Save(); err != nil {
		return err
	}
	if moved {
		if err := s.vault.SaveSettings(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%s: the next key is made and trusted; the old one signs\nnext: build images, bring them to all nodes, then: spore pki rotate-ca %s %s --switch\n", name, name, s.configs)
	return nil
}

func (s *session) withdraw(w io.Writer, name string) error {
	if err := s.vault.Tree.Withdraw(name); err != nil {
		return err
	}
	if err := s.vault.Save(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: the next key is removed; it had signed nothing\n", name)
	if name != tree.RootName || s.vault.Settings.Root == nil {
		return nil
	}
	// The settings may name the root that is withdrawn.
	s.vault.Settings.Root = nil
	fmt.Fprintln(w, "pki.yaml no longer names a root of your own; if the current root is yours, name it with `spore pki renew --root-certificate … --root-key …`")
	return s.vault.SaveSettings()
}

func (s *session) switchOver(w io.Writer, name string) error {
	if err := s.vault.Tree.Switch(name); err != nil {
		return err
	}
	changes, err := s.update(false)
	if err != nil {
		return err
	}
	if err := s.vault.Save(); err != nil {
		return err
	}
	printChanges(w, changes)
	fmt.Fprintf(w, "%s: the new key signs; both are trusted\n", name)
	if users := s.vault.Tree.StillUsing(name, s.nodes); len(users) > 0 {
		fmt.Fprintf(w, "next: make the bundles of %s, bring them there, then: spore pki rotate-ca %s %s --finish\n", strings.Join(users, ", "), name, s.configs)
	}
	return nil
}

func (s *session) finish(w io.Writer, name string) error {
	if err := s.vault.Tree.Finish(name, s.cluster, s.nodes); err != nil {
		return err
	}
	if err := s.vault.Save(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: the old key is gone; images that are built from now on do not trust it\nwhat you exported for people and programs outside the nodes is not tracked: export it again\n", name)
	return nil
}
