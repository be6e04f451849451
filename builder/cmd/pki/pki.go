// Package pki is the command `spore pki`: the cluster's keys and certificates in the operator's folder.
package pki

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/regular"
	tree "spore/pki"
	"spore/pki/vault"
)

// outside is what the commands take from the world; tests bring their own.
type outside struct {
	now    func() time.Time
	random io.Reader
	// ask asks the person at the terminal for a passphrase; what it says stands before the question.
	ask func(what string, twice bool) (string, error)
	// workFactor is scrypt's; 0 for the usual one.
	workFactor int
}

// Command returns the command.
func Command() *cobra.Command {
	return command(outside{now: time.Now, random: rand.Reader, ask: ask.Terminal})
}

func command(world outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "Make, show, renew, rotate and export the keys, certificates and secrets of a cluster",
		Long: `Pki keeps all keys, certificates and other secrets of a cluster in one folder, the operator's folder. It lies beside the
configuration and is named after it (configs.pki for configs). It is encrypted by default, and no command prints a
secret.

Each node gets a bundle with the secrets that it needs, and only those, signed by the cluster's key.`,
		Example: "  spore pki init configs\n  spore pki show\n  spore pki bundle --node edge-01 -o edge-01.bundle",
		Args:    exit.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(initCommand(world), showCommand(world), renewCommand(world), rotateCommand(world), exportCommand(world), bundleCommand(world))
	return cmd
}

// common holds the flags that all commands have, and the way to the folder.
type common struct {
	world          outside
	configs        string
	dir            string
	passphraseFile string
	identity       string
	rootCert       string
	rootKey        string
	secrets        []string
}

func (c *common) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.dir, "dir", "", "the operator's folder (default: DIR.pki beside the configuration folder DIR)")
	f.StringVar(&c.passphraseFile, "passphrase-file", "", "read the folder's passphrase from this file instead of the terminal")
	f.StringVar(&c.identity, "identity", "", "age identity file, where the folder is encrypted for recipients")
}

// making adds the flags of commands that make keys.
func (c *common) making(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.rootCert, "root-certificate", "", "PEM certificate of your own root CA")
	f.StringVar(&c.rootKey, "root-key", "", "PEM key of your own root CA; read when an authority is signed, never copied")
	f.StringArrayVar(&c.secrets, "secret", nil, "use your own value for a password, as NAME=FILE (may be given again)")
}

// args takes the configuration folder from the command line.
func (c *common) args(args []string) {
	c.configs = "configs"
	if len(args) > 0 {
		c.configs = args[0]
	}
	if c.dir == "" {
		c.dir = filepath.Clean(c.configs) + ".pki"
	}
}

func (c *common) keys() vault.Keys {
	return vault.Keys{
		WorkFactor: c.world.workFactor,
		Passphrase: func(isNew bool) (string, error) {
			if c.passphraseFile != "" {
				return ask.Passphrase(c.passphraseFile)
			}
			return c.world.ask("passphrase of "+c.dir, isNew)
		},
		Identities: func() ([]byte, error) {
			if c.identity == "" {
				return nil, exit.Usage(errors.New("the folder is encrypted for recipients; name your age identity file with --identity"))
			}
			return ask.Small(c.identity)
		},
	}
}

// load reads the configuration.
func (c *common) load() (*facts.Cluster, []facts.Node, error) {
	config, report := cluster.Check(regular.Folder(c.configs), cluster.Options{})
	if err := report.Under(c.configs).Err(); err != nil {
		return nil, nil, err
	}
	shared, nodes := cluster.Facts(config)
	return &shared, nodes, nil
}

// session is an open folder with the configuration that it is for.
type session struct {
	*common
	vault   *vault.Vault
	cluster *facts.Cluster
	nodes   []facts.Node
}

func (c *common) open(cmd *cobra.Command) (*session, error) {
	shared, nodes, err := c.load()
	if err != nil {
		return nil, err
	}
	v, err := vault.Open(c.dir, c.keys())
	if err != nil {
		return nil, err
	}
	mended, err := v.MendPublic()
	if err != nil {
		v.Close()
		return nil, err
	}
	if mended {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s did not match the keys, and was written again; build the images again\n", filepath.Join(c.dir, vault.PublicFile))
	}
	return &session{c, v, shared, nodes}, nil
}

// options is what making keys needs.
func (s *session) options(all bool) (tree.Options, error) {
	o := tree.Options{Now: s.world.now(), Random: s.world.random, All: all, Given: map[string]tree.Hidden{}}
	var err error
	if o.Root, err = s.vault.OwnRoot(); err != nil {
		return o, err
	}
	for _, text := range s.secrets {
		name, value, err := readGiven(text)
		if err != nil {
			return o, err
		}
		o.Given[name] = value
	}
	return o, nil
}

// ownRoot puts the flags of the user's own root into the settings, and tells whether there were any.
func (c *common) ownRoot(s *vault.Settings) (bool, error) {
	if c.rootCert == "" && c.rootKey == "" {
		return false, nil
	}
	if c.rootCert == "" {
		return false, exit.Usage(errors.New("--root-key needs --root-certificate"))
	}
	root := &vault.Root{}
	var err error
	if root.Certificate, err = filepath.Abs(c.rootCert); err != nil {
		return false, err
	}
	if c.rootKey != "" {
		if root.Key, err = filepath.Abs(c.rootKey); err != nil {
			return false, err
		}
	}
	s.Root = root
	return true, nil
}

// update makes the tree what the configuration wants.
func (s *session) update(all bool) ([]tree.Change, error) {
	o, err := s.options(all)
	if err != nil {
		return nil, err
	}
	return s.vault.Tree.Update(s.cluster, s.nodes, o)
}

// node finds a node by its name.
func (s *session) node(name string) (*facts.Node, error) {
	return facts.Find(s.nodes, name, filepath.Join(s.configs, "cluster.yaml"))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
