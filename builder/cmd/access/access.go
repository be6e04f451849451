// Package access is the command `spore access`: it gives a person the right to ask the nodes of a cluster, for a time.
package access

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	keys "spore/builder/cmd/pki"
	"spore/builder/cmd/reach"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/regular"
	tree "spore/pki"
	"spore/pki/vault"
	"spore/wire/nodeapi"
)

type options struct {
	out, p12, pki, passphraseFile, identity string
	person, role                            string
	nodes                                   []string
	lifetime                                time.Duration
	list, asJSON                            bool
}

// rows are the kinds of certificates, by the name of a role.
var rows = map[string]struct {
	row  string
	role nodeapi.Role
}{
	"admin":    {tree.NodeAdmin, nodeapi.Admin},
	"operator": {tree.NodeOperator, nodeapi.Operator},
	"reader":   {tree.NodeReader, nodeapi.Reader},
	"scraper":  {tree.NodeScraper, nodeapi.Scraper},
}

// Command returns the command.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "access [DIR] [-o FILE] [--p12 FILE]",
		Short: "Create a client certificate for a person who asks or updates nodes",
		Long: `Access makes a client certificate with a key of its own, for as long as you say, and writes it to a file with what the
commands that ask nodes need besides the configuration. The certificate comes from the operator's folder (see spore
pki); the nodes may be off.

A reader may look; an operator may also restart, drain and collect; an admin may do everything. A scraper is a program
that asks for metrics and for nothing else, and its file is not for the commands: give it a name. With --node, the
certificate holds for the nodes that you name and no others; the commands then ask these alone. Only you can read the
file. The commands find it by themselves when it is called DIR.access; without it, they ask for the passphrase of the
operator's folder each time.

With --p12, it is for a browser instead, which shows it to a node with the role dashboard: a file in the form PKCS #12.
The password for its import is printed, once. With --p12 and -o there are both files of one certificate.

The right lasts until the certificate expires, so choose a short lifetime. To take it back earlier, write its serial
number under withdrawn in cluster.yaml and push. --list shows the certificates that were made.`,
		Example: `  spore access configs
  spore access configs --role admin --lifetime 30m
  spore access configs --user anna --role operator --node edge-1 --node edge-2 --lifetime 720h -o anna.access
  spore access configs --user prometheus --role scraper --lifetime 8760h -o prometheus.access
  spore access configs --user anna --lifetime 720h --p12 anna.p12
  spore access configs --list`,
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			if o.list {
				return list(cmd, dir, o)
			}
			return run(cmd, dir, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.out, "output", "o", "", "file to write (default: DIR.access)")
	flags.StringVar(&o.p12, "p12", "", "write a file for a browser (PKCS #12), and print the password for its import")
	flags.StringVar(&o.pki, "pki", "", "the operator's folder (default: DIR.pki beside the configuration folder DIR)")
	flags.StringVar(&o.passphraseFile, "passphrase-file", "", "read the folder's passphrase from this file instead of the terminal")
	flags.StringVar(&o.identity, "identity", "", "age identity file, where the folder is encrypted for recipients")
	flags.StringVar(&o.person, "user", "", "name of the person, for the journals of nodes (default: yours)")
	flags.StringVar(&o.role, "role", "reader", "what the person may do: reader, operator or admin; scraper for a program")
	flags.StringArrayVar(&o.nodes, "node", nil, "limit the certificate to this node (may be given again)")
	flags.DurationVar(&o.lifetime, "lifetime", 8*time.Hour, "how long the certificate is valid")
	flags.BoolVar(&o.list, "list", false, "list the certificates that were made")
	flags.BoolVar(&o.asJSON, "json", false, "print the list as JSON")
	return cmd
}

// list shows the certificates that were made. It needs no passphrase.
func list(cmd *cobra.Command, dir string, o options) error {
	if o.pki == "" {
		o.pki = filepath.Clean(dir) + ".pki"
	}
	made, err := vault.ReadIssued(o.pki)
	if err != nil {
		return err
	}
	if o.asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(append([]vault.Issued{}, made...))
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERIAL\tUSER\tROLE\tNODES\tMADE\tENDS")
	for _, i := range made {
		nodes := "all"
		if len(i.Nodes) > 0 {
			nodes = strings.Join(i.Nodes, ", ")
		}
		ends := i.Ends.Format(time.RFC3339)
		if time.Now().After(i.Ends) {
			ends += " (ended)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", i.Serial, i.User, i.Role, nodes, i.Made.Format(time.RFC3339), ends)
	}
	return w.Flush()
}

func run(cmd *cobra.Command, dir string, o options) error {
	kind, ok := rows[o.role]
	if !ok {
		return exit.Usage(fmt.Errorf("there is no role %q; choose reader, operator, admin or scraper", o.role))
	}
	if kind.role == nodeapi.Scraper && o.out == "" {
		return exit.Usage(errors.New("a scraper's certificate is not for the commands; write with -o where to put it, such as -o prometheus.access"))
	}
	if kind.role == nodeapi.Scraper && o.p12 != "" {
		return exit.Usage(errors.New("a scraper is a program, and --p12 is for a browser; choose the role reader"))
	}
	if o.p12 != "" && o.out != "" && filepath.Clean(o.p12) == filepath.Clean(o.out) {
		return exit.Usage(fmt.Errorf("-o and --p12 are the same file, %s; name two", o.p12))
	}
	if o.p12 != "" && len(o.nodes) > 0 {
		return exit.Usage(errors.New("--p12 is for the pages of a node, which are about the whole cluster; leave --node out"))
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
	shared, nodes := cluster.Facts(config)
	for _, name := range o.nodes {
		if _, err := facts.Find(nodes, name, filepath.Join(dir, "cluster.yaml")); err != nil {
			return exit.Usage(err)
		}
	}
	if o.pki == "" {
		o.pki = filepath.Clean(dir) + ".pki"
	}
	if o.out == "" && o.p12 == "" {
		o.out = filepath.Clean(dir) + ".access"
	}
	v, err := keys.Open(o.pki, o.passphraseFile, o.identity)
	if err != nil {
		return err
	}
	defer v.Close()
	options := tree.Options{Now: time.Now(), Random: rand.Reader}
	var made *tree.Admin
	if len(o.nodes) == 0 {
		made, err = v.Tree.Access(&shared, kind.row, o.person, o.lifetime, options)
	} else {
		o.nodes = slices.Compact(slices.Sorted(slices.Values(o.nodes)))
		made, err = v.Tree.AccessTo(&shared, kind.row, o.person, o.nodes, o.lifetime, options)
	}
	if err != nil {
		return err
	}
	// Listed before it exists: a certificate that nobody knows of could not be withdrawn.
	issued := vault.Issued{
		Serial: made.Serial, User: o.person, Role: o.role, Nodes: o.nodes,
		Made: options.Now.UTC().Truncate(time.Second), Ends: made.Ends.UTC(),
	}
	if err := v.AddIssued(issued); err != nil {
		return err
	}
	where := ""
	if len(o.nodes) > 0 {
		where = " on " + strings.Join(o.nodes, ", ")
	}
	tell := func(file string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s as %s of cluster %s%s until %s, serial number %s\n",
			file, o.person, o.role, shared.Name, where, made.Ends.Format(time.RFC3339), made.Serial)
	}
	if o.out != "" {
		text, err := reach.Access{
			Cluster: shared.ID, Person: o.person, Role: kind.role, Ends: made.Ends, Nodes: o.nodes, Serial: made.Serial,
			Certificate: made.Certificate, Key: string(made.Key), Authorities: string(made.Authority),
		}.Encode()
		if err != nil {
			return err
		}
		if err := vault.WriteFile(o.out, text); err != nil {
			return err
		}
		tell(o.out)
	}
	if o.p12 == "" {
		return nil
	}
	data, password, err := forBrowser(made, rand.Reader)
	if err != nil {
		return err
	}
	if err := vault.WriteFile(o.p12, data); err != nil {
		return err
	}
	tell(o.p12)
	fmt.Fprintf(cmd.OutOrStdout(), "The password for its import, which nothing keeps: %s\n", password)
	return nil
}
