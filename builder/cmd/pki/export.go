package pki

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	tree "spore/pki"
	"spore/pki/vault"
	"spore/services"
	"spore/services/service"
)

func exportCommand(world outside) *cobra.Command {
	c := common{world: world}
	var out string
	var names []string
	cmd := &cobra.Command{
		Use:   "export [DIR] [--name NAME …]",
		Short: "Write CA certificates, or a named certificate or secret, to files",
		Long: `Export writes the certificates and public keys of all authorities to a folder, for programs outside the cluster. That
needs no passphrase. With --name it writes only what is named: an authority; a certificate and its key, as NAME or
NAME/NODE; or a secret, as the configuration or ` + "`spore pki show`" + ` names it. Only you can read the files; nothing is
printed to the terminal.`,
		Example: "  spore pki export -o certificates\n  spore pki export --name mqtt -o .\n  spore pki export --name mqtt-password-sensor --name mqtt-server/edge-01 -o private",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.args(args)
			files, err := c.export(cmd, names)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o700); err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(files)) {
				path := filepath.Join(out, name)
				if err := vault.WriteFile(path, files[name]); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	}
	c.flags(cmd)
	cmd.Flags().StringArrayVar(&names, "name", nil, "what to write (may be given again); all authorities when left out")
	cmd.Flags().StringVarP(&out, "output", "o", "export", "folder to write to")
	return cmd
}

// export returns the wanted files by name. The private half is opened only when something of it is wanted.
func (c *common) export(cmd *cobra.Command, names []string) (map[string][]byte, error) {
	public, err := vault.ReadPublic(c.dir)
	if err != nil {
		return nil, err
	}
	out, rest := map[string][]byte{}, slices.Clone(names)
	for file, text := range public.Trust() {
		authority := strings.TrimSuffix(file, filepath.Ext(file))
		if i := slices.Index(rest, authority); len(names) == 0 || i >= 0 {
			out[file] = []byte(text)
			if i >= 0 {
				rest = slices.Delete(rest, i, i+1)
			}
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	s, err := c.open(cmd)
	if err != nil {
		return nil, err
	}
	defer s.vault.Close()
	for _, name := range rest {
		files, err := private(services.Of(s.cluster), s.vault.Tree, name)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, files)
	}
	return out, nil
}

// private returns the files of one certificate or secret.
func private(l *services.List, t *tree.Tree, name string) (map[string][]byte, error) {
	if leaf := t.Leaves[name]; leaf != nil {
		row, _, _ := strings.Cut(name, "/")
		base := strings.ReplaceAll(name, "/", "-")
		for _, r := range tree.Leaves(l) {
			if r.Name == row {
				return map[string][]byte{base + ".crt": []byte(t.Chain(r.Authority, leaf)), base + ".key": []byte(leaf.Key)}, nil
			}
		}
	}
	if s := t.Secrets[name]; s != nil {
		base := name
		if row, user, of := strings.Cut(name, "/"); of && givenByUsers(l, row) {
			base = user
		}
		return map[string][]byte{strings.ReplaceAll(base, "/", "-"): []byte(s.Value)}, nil
	}
	for _, row := range tree.Secrets(l) { // those of users are known by what the configuration calls them
		if s := t.Secrets[row.Name+"/"+name]; s != nil && givenByUsers(l, row.Name) {
			return map[string][]byte{strings.ReplaceAll(name, "/", "-"): []byte(s.Value)}, nil
		}
	}
	for _, r := range tree.Leaves(l) {
		if r.Name == name && r.Made == service.ForPerson {
			return nil, fmt.Errorf("%s is not kept: nobody can take it back; `spore kubeconfig` makes one for a person, for at most "+
				"%s and with the rights of --group view, edit, admin or cluster-admin", name, tree.KubernetesLife)
		}
	}
	return nil, fmt.Errorf("there is no certificate or secret %q; `spore pki show` lists them (a node's is NAME/NODE)", name)
}

// givenByUsers tells whether a row of secrets makes one for each user of a service, with a value that the user may have
// brought.
func givenByUsers(l *services.List, name string) bool {
	return slices.ContainsFunc(tree.Secrets(l), func(r service.SecretRow) bool {
		return r.Name == name && r.Each == service.OneUser && r.Given
	})
}
