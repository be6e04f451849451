// Package push is the command `spore push`.
package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	"spore/services"
	"spore/wire/nodeapi"
)

const (
	// sendBound is the longest that a node may take with an update.
	sendBound = time.Hour
	// restartBound is what two restarts of a machine may take besides the trial: server firmware takes minutes.
	restartBound = 20 * time.Minute
	// askEvery is how often a node that restarts is asked.
	askEvery = 5 * time.Second
	// maxAnswer bounds what a node answers, in bytes.
	maxAnswer = 1 << 20
)

type flags struct {
	reach                       reach.Flags
	signing                     signing.Flags
	image, output               string
	reboot, force, strict, json bool
	trustUnsigned               bool
	without                     []string
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "push [DIR]",
		Short: "Update the configuration of running nodes over the network",
		Long: `Push makes the cluster part and the UKI of the configuration in DIR (configs when left out), signs both with the
cluster's key, and sends them to the nodes, one after the other. Each node checks them and writes them beside the
running ones, for its next start. When the running node can apply the whole change, it does so at once; otherwise it
says what has to wait for the restart, and why.

The root stays as it is, so the image must already contain everything that the configuration needs: --image names the
image that the nodes were written from. If that image is signed for Secure Boot, give its key; an image that the
certificate of that key has not signed is refused (see --trust-unsigned).

With --reboot each node restarts, and the next one follows when it is up. A node restarts only while the other nodes
with the same role are up. A node whose roles do not start in time goes back to its previous configuration by itself,
and push ends there.

A node refuses a configuration that is older than its last one. When the keys were restored from an old copy, everything
that they sign counts as older: with --force nodes accept it, if it was signed later than their last one. With --output
nothing is sent: the file is for ` + "`spore-agent stage-config FILE`" + ` on a node.`,
		Example: "  spore push configs --reboot\n  spore push configs --node edge-01\n  spore push configs --output edge.update",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			if len(f.without) > 0 && !f.reboot {
				return exit.Usage(errors.New("--without is about restarts; give --reboot too"))
			}
			if f.output != "" && f.reboot {
				return exit.Usage(errors.New("--output sends nothing; leave --reboot out"))
			}
			return run(cmd, filepath.Clean(dir), f)
		},
	}
	f.reach.Register(cmd, true)
	f.signing.Register(cmd)
	signing.TrustUnsigned(cmd, &f.trustUnsigned)
	cmd.Flags().StringVar(&f.image, "image", "out", "the image that the nodes were written from, or the output folder of spore build")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write the signed update to this file, and send nothing")
	cmd.Flags().BoolVar(&f.reboot, "reboot", false, "restart the nodes, one after the other")
	cmd.Flags().StringSliceVar(&f.without, "without", nil, "restart nodes although these nodes, which share roles with them, are down: NODE,NODE")
	cmd.Flags().BoolVar(&f.force, "force", false, "have nodes accept it although their last one has a higher number")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "treat warnings of the configuration as errors")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

func run(cmd *cobra.Command, dir string, f flags) error {
	u, err := prepare(cmd, dir, f)
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
	c, err := f.reach.Open(cmd, dir, nodeapi.Admin)
	if err != nil {
		return err
	}
	all := f.reach
	all.Nodes = nil
	everybody, err := all.Open(cmd, dir, nodeapi.Admin)
	if err != nil {
		return err
	}
	for _, name := range f.without {
		if _, err := facts.Find(everybody.Nodes, name, filepath.Join(dir, "cluster.yaml")); err != nil {
			return exit.Usage(fmt.Errorf("--without %s: %w", name, err))
		}
	}
	answers, err := rollout(cmd, c, everybody, u, f).Run(cmd.Context())
	if f.json {
		return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(answers), err)
	}
	return err
}

// prepare makes the update, and keeps the folder of keys, which counts what it signs.
func prepare(cmd *cobra.Command, dir string, f flags) (*push.Update, error) {
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
		return nil, fmt.Errorf("open the cluster's keys, which sign configurations: %w", err)
	}
	defer v.Close()
	u, err := push.Make(push.Options{
		Image: f.image, Config: config, Folder: regular.Folder(dir), Keys: signers, TrustUnsigned: f.trustUnsigned, Force: f.force,
		Tree: v.Tree, Now: time.Now(),
		Progress: progress.New(cmd.ErrOrStderr(), time.Now),
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

// save writes the update to a file.
func save(cmd *cobra.Command, u *push.Update, f flags) error {
	out, err := os.Create(f.output)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, u.Content())
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"file": f.output, "serial": u.Head.Serial, "clusterHash": u.Head.ClusterHash})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: configuration %d, cluster hash %s\n", f.output, u.Head.Serial, u.Head.ClusterHash)
	return err
}

func rollout(cmd *cobra.Command, c, everybody *reach.Cluster, u *push.Update, f flags) push.Rollout {
	query := url.Values{}
	if f.reboot {
		query.Set("reboot", "true")
	}
	return push.Rollout{
		Nodes: targets(c.Nodes), All: targets(everybody.Nodes), ClusterHash: u.Head.ClusterHash, Reboot: f.reboot, Without: f.without, Every: askEvery,
		Bound: services.TrialBound(&c.Facts) + restartBound,
		Ask: func(ctx context.Context, node string) (s push.Status, err error) {
			ctx, cancel := context.WithTimeout(ctx, c.Timeout)
			defer cancel()
			data, err := c.Client.Read(ctx, node, nodeapi.Request{Path: nodeapi.StatusPath}, maxAnswer)
			if err == nil {
				err = json.Unmarshal(data, &s)
			}
			return s, err
		},
		Send: func(ctx context.Context, node string) (a push.Answer, err error) {
			ctx, cancel := context.WithTimeout(ctx, sendBound)
			defer cancel()
			data, err := c.Client.Read(ctx, node, nodeapi.Request{Method: "POST", Path: nodeapi.ConfigPath, Query: query, Body: u.Content()}, maxAnswer)
			if err == nil {
				err = json.Unmarshal(data, &a)
			}
			return a, err
		},
		Say: func(node, text string) {
			if !f.json {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", strings.TrimSpace(node), text)
			}
		},
	}
}

func targets(nodes []facts.Node) []push.Target {
	var out []push.Target
	for _, n := range nodes {
		out = append(out, push.Target{Name: n.Name, Roles: n.Roles})
	}
	return out
}
