// Package push is the command `spore push`.
package push

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/folder"
	"spore/builder/cmd/inputs"
	keys "spore/builder/cmd/pki"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/signing"
	"spore/builder/customize"
	"spore/builder/progress"
	"spore/builder/push"
	"spore/cluster/facts"
	"spore/cluster/regular"
	"spore/fleet/duration"
	"spore/wire/nodeapi"
)

// valid is for how long nodes may take an update by themselves, unless --valid says something else.
const valid = "90d"

type flags struct {
	reach                reach.Flags
	signing              signing.Flags
	image, output, from  string
	root                 bool
	reboot, dryRun, back bool
	giveUpWayBack        bool
	was, valid           string
	force, strict, json  bool
	trustUnsigned        bool
	without              []string
	lifetime             time.Duration
}

// outside is what comes from outside of the command.
type outside struct {
	now func() time.Time
	// somebody tells whether there is a person to ask, in a terminal.
	somebody func() bool
	in       io.Reader
}

// Command returns the command.
func Command() *cobra.Command {
	return command(outside{now: time.Now, somebody: ask.Somebody, in: os.Stdin})
}

func command(world outside) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "push [DIR]",
		Short: "Update running nodes over the network: configuration, root and kernel",
		Long: `Push makes running nodes be what the configuration in DIR (configs when left out) and the image in out say. It makes the
cluster part and the UKI of the configuration, signs these and the root of the image with the cluster's key, and sends
each node what it lacks. A node checks every piece, and writes all of it beside what runs, for its next start. When the
running node can apply the whole change, it does so at once; otherwise it says what has to wait for the restart, and
why. A new root or kernel always waits.

The image must contain everything that the configuration needs. --image names another one than out. If it is signed for
Secure Boot, give its key; an image that the certificate of that key has not signed is refused (see --trust-unsigned).

With --dry-run nothing is written: each node says what would change and what it lacks. --was OLD names the image that
the nodes run, to list the packages and programs that differ.

With --reboot each node restarts, and the next one follows when it is up. A node restarts only while the other nodes
with the same role are up. A node whose roles do not start in time goes back to its previous system by itself, and push
ends there. With --back the nodes return to the system before, in the same way.

A transfer that was interrupted goes on where it stopped when the command is run again. A node refuses an update that
is older than its last one. When the keys were restored from an old copy, everything that they sign counts as older:
with --force nodes accept it, if it was signed later than their last one. With --output nothing is sent: the signed
update is written to a file or a folder, for a stick or a web server. With --from such a file or folder is sent, from a
machine that has neither the image nor the keys that sign: a certificate of an administrator (spore access) is enough.`,
		Example: "  spore push configs --dry-run\n  spore push configs --reboot\n  spore push configs --node edge-01\n" +
			"  spore push configs --back --node edge-01\n  spore push configs --output edge.update\n  spore push configs --output update/\n" +
			"  spore push configs --from /media/stick/update --access anna.access",
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return exit.Usage(err)
			}
			return run(cmd, world, filepath.Clean(inputs.Dir(args)), f)
		},
	}
	f.reach.Register(cmd, true)
	f.signing.Register(cmd)
	signing.TrustUnsigned(cmd, &f.trustUnsigned)
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", "out", "the image that the nodes are to run, or the output folder of spore build")
	flags.StringVarP(&f.output, "output", "o", "",
		"send nothing; write the signed update to this file, or into this folder (a name that ends in /, or a folder that is there)")
	flags.StringVar(&f.from, "from", "", "send what --output wrote before, a file or a folder, as it is")
	flags.BoolVar(&f.root, "root", false, "with --output FILE: include the whole root, for a node that runs another one")
	flags.BoolVar(&f.dryRun, "dry-run", false, "write nothing; show what would change on each node, and what it lacks")
	flags.StringVar(&f.was, "was", "",
		"with --dry-run: the image that the nodes run, or its output folder, to list the packages that differ")
	flags.BoolVar(&f.reboot, "reboot", false, "restart the nodes, one after the other")
	flags.BoolVar(&f.back, "back", false, "have the nodes return to the system before, one after the other")
	flags.BoolVar(&f.giveUpWayBack, "give-up-way-back", false,
		"let nodes take an update after which they cannot return to the root before")
	flags.StringSliceVar(&f.without, "without", nil,
		"restart nodes although these nodes, which share roles with them, are down: NODE,NODE")
	flags.StringVar(&f.valid, "valid", valid, "for how long nodes may take the update by themselves, such as 30d or 12h")
	flags.BoolVar(&f.force, "force", false, "have nodes accept it although their last one has a higher number")
	flags.BoolVar(&f.strict, "strict", false, "treat warnings of the configuration as errors")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

// check refuses flags that contradict each other, and reads what is text.
func (f *flags) check() (err error) {
	switch {
	case len(f.without) > 0 && !f.reboot && !f.back:
		return errors.New("--without is about restarts; give --reboot or --back too")
	case f.output != "" && (f.reboot || f.dryRun || f.back || f.giveUpWayBack):
		return errors.New("--output sends nothing; leave --reboot, --dry-run, --back and --give-up-way-back out")
	case f.from != "" && (f.output != "" || f.back || f.force || f.was != "" || f.signing.Key != "" ||
		f.signing.PCRKey != "" || f.trustUnsigned):
		return errors.New("--from sends what is signed already; leave --output, --back, --force, --was and keys of " +
			"Secure Boot out")
	case f.root && f.output == "":
		return errors.New("--root is about files; give --output FILE too")
	case f.was != "" && !f.dryRun:
		return errors.New("--was is for a list of differences; give --dry-run too")
	case f.back && (f.reboot || f.force || f.giveUpWayBack || f.was != ""):
		return errors.New("--back sends nothing and restarts in any case; leave --reboot, --force, --give-up-way-back and --was out")
	}
	if f.lifetime, err = duration.Parse(f.valid); err != nil {
		return fmt.Errorf("--valid: %w", err)
	}
	return nil
}

func run(cmd *cobra.Command, world outside, dir string, f flags) error {
	if f.back {
		return goBack(cmd, dir, f)
	}
	find := prepare
	if f.from != "" {
		find = stored
	}
	u, err := find(cmd, world, dir, f)
	if err != nil {
		return err
	}
	defer u.Close()
	for _, note := range u.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
	}
	if f.output != "" {
		return save(cmd, u, f)
	}
	n, err := openNodes(cmd, dir, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return n.preview(cmd, u)
	}
	return n.push(cmd, world, u)
}

// prepare makes the update, and keeps the folder of keys, which counts what it signs.
func prepare(cmd *cobra.Command, world outside, dir string, f flags) (*push.Update, error) {
	config, err := folder.Load(cmd.ErrOrStderr(), dir, f.reach.PKI, f.strict)
	if err != nil {
		return nil, err
	}
	signers, err := f.signing.Load()
	if err != nil {
		return nil, err
	}
	pki := f.reach.PKI
	if pki == "" {
		pki = dir + ".pki"
	}
	v, err := keys.Open(pki, f.reach.PassphraseFile, f.reach.Identity)
	if err != nil {
		return nil, fmt.Errorf("open the cluster's keys, which sign updates: %w", err)
	}
	defer v.Close()
	u, err := push.Make(push.Options{
		Image: f.image, Config: config, Folder: regular.Folder(dir), Keys: signers, TrustUnsigned: f.trustUnsigned, Force: f.force,
		Valid: f.lifetime, Tree: v.Tree, Now: world.now(), Progress: progress.New(cmd.ErrOrStderr(), time.Now),
	})
	var refused *customize.Refused
	if errors.As(err, &refused) {
		for _, p := range refused.Report.Under(dir) {
			fmt.Fprintln(cmd.ErrOrStderr(), p)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := v.Save(); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// stored opens an update that was written before.
func stored(cmd *cobra.Command, _ outside, dir string, f flags) (*push.Update, error) {
	config, err := folder.Load(cmd.ErrOrStderr(), dir, f.reach.PKI, f.strict)
	if err != nil {
		return nil, err
	}
	var keys []ed25519.PublicKey
	for _, text := range config.Public.SigningKeys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("internal error: %w", err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("nobody can say whether %s is the cluster's: copy public.json of the folder of keys "+
			"into %s.pki, or name its folder with --pki", f.from, dir)
	}
	return push.Open(f.from, keys)
}

// save writes the update to a file or a folder.
func save(cmd *cobra.Command, u *push.Update, f flags) error {
	what, err := f.output, error(nil)
	if isFolder(f.output) {
		what, err = filepath.Clean(f.output), u.WriteFolder(cmd.Context(), filepath.Clean(f.output))
	} else {
		err = u.WriteFile(f.output, f.root)
	}
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
			"file": what, "serial": u.Head.Serial, "rootHash": u.Head.RootHash, "clusterHash": u.Head.ClusterHash,
		})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: update %d, root %s, cluster hash %s\n",
		what, u.Head.Serial, nodeapi.Version(u.Head.RootHash, u.Head.Root.BuildTime), u.Head.ClusterHash)
	return err
}

// isFolder tells whether a name is that of a folder: one that is there, or one that says so.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir() || os.IsPathSeparator(name[len(name)-1])
}

// goBack has the nodes return to the system before.
func goBack(cmd *cobra.Command, dir string, f flags) error {
	n, err := openNodes(cmd, dir, f)
	if err != nil {
		return err
	}
	return n.back(cmd)
}

// checkWithout makes sure that the nodes exist which may be down.
func (f flags) checkWithout(everybody *reach.Cluster, dir string) error {
	for _, name := range f.without {
		if _, err := facts.Find(everybody.Nodes, name, filepath.Join(dir, "cluster.yaml")); err != nil {
			return exit.Usage(fmt.Errorf("--without %s: %w", name, err))
		}
	}
	return nil
}
