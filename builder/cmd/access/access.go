// Package access is the command `spore access`: it gives a person the right to ask the nodes of a cluster, for a time.
package access

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	keys "spore/builder/cmd/pki"
	"spore/builder/cmd/reach"
	"spore/cluster"
	"spore/cluster/regular"
	tree "spore/pki"
	"spore/pki/vault"
	"spore/wire/nodeapi"
)

type options struct {
	out, pki, passphraseFile, identity string
	person, role                       string
	lifetime                           time.Duration
}

// rows are the kinds of certificates, by the name of a role.
var rows = map[string]struct {
	row  string
	role nodeapi.Role
}{
	"admin":  {tree.NodeAdmin, nodeapi.Admin},
	"reader": {tree.NodeReader, nodeapi.Reader},
}

// Command returns the command.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "access [DIR] [-o FILE]",
		Short: "Create a client certificate for a person who asks or updates nodes",
		Long: `Access makes a client certificate with a key of its own, for as long as you say, and writes it to a file with what the
commands status, logs, health and push need besides the configuration. The certificate comes from the operator's folder
(see spore pki); the nodes may be off.

A reader may look; an admin may also give nodes another configuration. The right lasts until the certificate expires. To
take it back earlier, replace the authority (spore pki rotate-ca). So choose a short lifetime. Only you can read the
file. The commands find it by themselves when it is called DIR.access; without it, they ask for the passphrase of the
operator's folder each time.`,
		Example: `  spore access configs
  spore access configs --role admin --lifetime 30m
  spore access configs --user anna --lifetime 720h -o anna.access`,
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			return run(cmd, dir, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.out, "output", "o", "", "file to write (default: DIR.access)")
	flags.StringVar(&o.pki, "pki", "", "the operator's folder (default: DIR.pki beside the configuration folder DIR)")
	flags.StringVar(&o.passphraseFile, "passphrase-file", "", "read the folder's passphrase from this file instead of the terminal")
	flags.StringVar(&o.identity, "identity", "", "age identity file, where the folder is encrypted for recipients")
	flags.StringVar(&o.person, "user", "", "name of the person, for the journals of nodes (default: yours)")
	flags.StringVar(&o.role, "role", "reader", "what the person may do: reader or admin")
	flags.DurationVar(&o.lifetime, "lifetime", 8*time.Hour, "how long the certificate is valid")
	return cmd
}

func run(cmd *cobra.Command, dir string, o options) error {
	kind, ok := rows[o.role]
	if !ok {
		return exit.Usage(fmt.Errorf("there is no role %q; choose reader or admin", o.role))
	}
	if o.person == "" {
		o.person = reach.Person()
	}
	if !reach.PersonForm.MatchString(o.person) {
		return exit.Usage(fmt.Errorf("the user %q is not a name; write 1 to 64 letters, digits, @, ., _ and -, with a letter or digit first", o.person))
	}
	config, report := cluster.Check(regular.Folder(dir), cluster.Options{})
	if err := report.Under(dir).Err(); err != nil {
		return err
	}
	shared, _ := cluster.Facts(config)
	if o.pki == "" {
		o.pki = filepath.Clean(dir) + ".pki"
	}
	if o.out == "" {
		o.out = filepath.Clean(dir) + ".access"
	}
	v, err := keys.Open(o.pki, o.passphraseFile, o.identity)
	if err != nil {
		return err
	}
	defer v.Close()
	made, err := v.Tree.Access(&shared, kind.row, o.person, o.lifetime, tree.Options{Now: time.Now(), Random: rand.Reader})
	if err != nil {
		return err
	}
	text, err := reach.Access{
		Cluster: shared.ID, Person: o.person, Role: kind.role, Ends: made.Ends,
		Certificate: made.Certificate, Key: string(made.Key), Authorities: string(made.Authority),
	}.Encode()
	if err != nil {
		return err
	}
	if err := vault.WriteFile(o.out, text); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s as %s of cluster %s until %s\n", o.out, o.person, o.role, shared.Name, made.Ends.Format(time.RFC3339))
	return nil
}
