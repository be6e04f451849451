package shell

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/regular"
	"spore/fleet"
	"spore/pki/vault"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

// signing are the options of `spore shell sign`.
type signing struct {
	out, key, passphraseFile, access, reason string
	minutes                                  int
	use                                      time.Duration
}

func signCommand() *cobra.Command {
	o := signing{minutes: shell.MaxMinutes, use: time.Hour}
	cmd := &cobra.Command{
		Use:   "sign [DIR] NODE --key FILE --reason WHY -o FILE",
		Short: "Sign a grant of one emergency shell on one node",
		Long: `Sign writes a grant: whoever has it and the certificate that it names may open one shell on this node, once. It
needs the key that spore shell make-key made, and no network, so that the key can stay on a machine that has none.

The certificate is one of an admin, in a file that spore access wrote; its key is not needed where the grant is signed.
The reason is shown by spore status until somebody has acknowledged the session.`,
		Example: `  spore shell sign edge-1 --key shell.key --reason 'the state does not mount' -o edge-1.grant
  spore shell sign configs edge-1 --key shell.key --access anna.access --reason 'ticket 4711' --for 8h --minutes 20`,
		Args: exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, words := folder(args)
			return sign(cmd, dir, words[0], o, time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "", "file to write (default: NODE.grant)")
	f.StringVar(&o.reason, "reason", "", "why it is needed, in one line")
	f.StringVar(&o.access, "access", "", "file of spore access whose certificate may use it (default: DIR.access)")
	f.IntVar(&o.minutes, "minutes", o.minutes, "how long the session may last, at most 60")
	f.DurationVar(&o.use, "for", o.use, "how long the grant may be used from now on, at most 24h")
	f.StringVar(&o.key, "key", "", "the key that signs, as spore shell make-key wrote it")
	f.StringVar(&o.passphraseFile, "passphrase-file", "", "read the key's passphrase from this file")
	return cmd
}

// folder is the configuration folder, and the words behind it.
func folder(args []string) (string, []string) {
	if len(args) > 1 {
		return args[0], args[1:]
	}
	return "configs", args
}

func sign(cmd *cobra.Command, dir, node string, o signing, now time.Time) error {
	switch {
	case o.reason == "":
		return exit.Usage(errors.New("--reason is missing; write in one line why a shell is needed"))
	case o.key == "":
		return exit.Usage(errors.New("--key is missing; name the file that `spore shell make-key` wrote"))
	}
	config, report := cluster.Check(regular.Folder(dir), cluster.Options{})
	if err := report.Under(dir).Err(); err != nil {
		return err
	}
	shared, nodes := cluster.Facts(config)
	if _, err := facts.Find(nodes, node, filepath.Join(dir, "cluster.yaml")); err != nil {
		return exit.Usage(err)
	}
	clean := filepath.Clean(dir)
	if o.access == "" {
		o.access = clean + ".access"
	}
	if o.out == "" {
		o.out = node + ".grant"
	}
	certificate, person, err := certificateOf(o.access, &shared, node, now)
	if err != nil {
		return err
	}
	now = now.UTC().Truncate(time.Second)
	g := shell.Grant{
		Cluster: strings.ToLower(shared.ID), Node: node, Issued: now, Until: now.Add(o.use.Truncate(time.Second)),
		Minutes: o.minutes, Certificate: certificate, Reason: o.reason,
	}
	if g.ID, err = shell.NewID(rand.Reader); err != nil {
		return err
	}
	key, err := readKey(o.key, o.passphraseFile)
	if err != nil {
		return err
	}
	data, err := shell.Sign(g, key)
	if err != nil {
		return fmt.Errorf("sign the grant: %w", err)
	}
	if err := vault.WriteFile(o.out, data); err != nil {
		return err
	}
	if public := shell.EncodeKey(key.Public().(ed25519.PublicKey)); !slices.Contains(config.Image.ShellKeys, public) {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"note: image.yaml does not name this key under shellKeys: a node with that image refuses the grant")
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s may open one shell of %d minutes on %s until %s, session %s\n",
		o.out, person, g.Minutes, node, g.Until.Format(time.RFC3339), g.ID)
	return nil
}

// certificateOf is the certificate of a file of spore access, which has to be of use for a shell on the node.
func certificateOf(file string, c *facts.Cluster, node string, now time.Time) (fingerprint, person string, err error) {
	data, err := ask.Small(file)
	if err != nil {
		return "", "", fmt.Errorf("read whose certificate may use the grant: %w; make one with "+
			"`spore access --role admin`", err)
	}
	a, err := reach.ParseAccess(data)
	switch {
	case err != nil:
	case !strings.EqualFold(a.Cluster, c.ID):
		err = fmt.Errorf("it is for the cluster with the id %.64s, and the configuration has %s", a.Cluster, c.ID)
	case a.Role != nodeapi.Admin:
		err = fmt.Errorf("it is for the role %s; make one with `spore access --role admin`", fleet.RoleName(a.Role))
	case now.After(a.Ends):
		err = fmt.Errorf("it expired at %s; make another one with `spore access --role admin`", a.Ends.Format(time.RFC3339))
	case len(a.Nodes) > 0 && !slices.Contains(a.Nodes, node):
		err = fmt.Errorf("it is limited to %s", strings.Join(a.Nodes, ", "))
	}
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", file, err)
	}
	block, _ := pem.Decode([]byte(a.Certificate))
	if block == nil {
		return "", "", fmt.Errorf("%s: it has no certificate", file)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", file, err)
	}
	return nodeapi.Fingerprint(leaf), a.Person, nil
}
