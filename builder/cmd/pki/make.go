package pki

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	tree "spore/pki"
	"spore/pki/vault"
)

func initCommand(world outside) *cobra.Command {
	c := common{world: world}
	var plain bool
	var recipients []string
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make all keys, certificates and passwords of a cluster",
		Long: `Init makes the operator's folder of the cluster in DIR (configs when left out): authorities, certificates and passwords
of the services that are enabled. Without --recipient or --plain it asks for a passphrase that encrypts it.

Your own root CA may sign the authorities instead of a new one; its key is read where it is and never copied.`,
		Example: `  spore pki init
  spore pki init configs --recipient age1… --recipient age1…
  spore pki init configs --root-certificate ca.crt --root-key ca.key --secret mqtt-password-sensor=sensor.txt`,
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.args(args)
			settings := vault.Settings{Keep: vault.KeepPassphrase, Recipients: recipients}
			switch {
			case plain && len(recipients) > 0:
				return exit.Usage(errors.New("--plain and --recipient exclude each other"))
			case plain:
				settings.Keep = vault.KeepPlain
			case len(recipients) > 0:
				settings.Keep = vault.KeepRecipients
			}
			if _, err := c.ownRoot(&settings); err != nil {
				return err
			}
			return c.initialize(cmd, settings)
		},
	}
	c.flags(cmd)
	c.making(cmd)
	cmd.Flags().BoolVar(&plain, "plain", false, "do not encrypt the folder: everybody who can read it has every key")
	cmd.Flags().StringArrayVar(&recipients, "recipient", nil, "encrypt the folder for this age recipient instead of with a passphrase (may be given again)")
	return cmd
}

func (c *common) initialize(cmd *cobra.Command, settings vault.Settings) error {
	shared, nodes, err := c.load()
	if err != nil {
		return err
	}
	v, err := vault.Create(c.dir, settings, tree.New(shared), c.keys())
	if err != nil {
		return err
	}
	defer v.Close()
	s := &session{c, v, shared, nodes}
	if _, err = s.update(false); err == nil {
		err = v.Save()
	}
	if err != nil {
		v.Discard()
		return err
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s: %s, %s, %s\n", c.dir, plural(len(v.Tree.Authorities), "authority", "authorities"),
		plural(len(v.Tree.Leaves), "certificate", "certificates"), plural(len(v.Tree.Secrets), "secret", "secrets"))
	fmt.Fprintln(w, kept(settings))
	fmt.Fprintf(w, "next: spore build %s, and spore pki bundle %s --node %s\n", c.configs, c.configs, nodes[0].Name)
	return nil
}

// kept says what protects the folder.
func kept(s vault.Settings) string {
	switch s.Keep {
	case vault.KeepPlain:
		return "NOT encrypted: everybody who can read the folder has every key of the cluster"
	case vault.KeepRecipients:
		return "encrypted for " + plural(len(s.Recipients), "recipient", "recipients") + "; keep a copy of the folder and of an identity that opens it"
	}
	return "encrypted with the passphrase; keep a copy of the folder, and do not forget the passphrase: nothing else opens it"
}

func renewCommand(world outside) *cobra.Command {
	c := common{world: world}
	var all bool
	cmd := &cobra.Command{
		Use:   "renew [DIR]",
		Short: "Renew what expires soon, and make what the configuration needs now",
		Long: `Renew makes certificates again that have used up two thirds of their life or whose names and addresses changed in
cluster.yaml, renews authorities 30 days before their end, and makes what new nodes, users and services need. Existing
secrets stay as they are, unless --secret brings another value. Each change is printed.`,
		Example: "  spore pki renew\n  spore pki renew --all\n  spore pki renew --secret mqtt-password-sensor=sensor.txt",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.args(args)
			s, err := c.open(cmd)
			if err != nil {
				return err
			}
			defer s.vault.Close()
			moved, err := c.ownRoot(&s.vault.Settings)
			if err != nil {
				return err
			}
			changes, err := s.update(all)
			if err != nil {
				return err
			}
			printChanges(cmd.OutOrStdout(), changes)
			if moved {
				if err := s.vault.SaveSettings(); err != nil {
					return err
				}
			}
			if len(changes) == 0 && len(s.secrets) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing is due")
				return nil
			}
			return s.vault.Save()
		},
	}
	c.flags(cmd)
	c.making(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "make every certificate again, due or not (authorities stay)")
	return cmd
}

func printChanges(w io.Writer, changes []tree.Change) {
	for _, x := range changes {
		fmt.Fprintf(w, "%-9s%s: %s\n", x.Did, x.ID, x.Why)
	}
}
