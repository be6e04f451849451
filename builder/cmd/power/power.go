// Package power has the commands `spore reboot` and `spore shutdown`: nodes are restarted or switched off in order, one
// after the other.
package power

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/builder/comeback"
	"spore/cluster/facts"
	"spore/services"
	"spore/wire/nodeapi"
)

const (
	// startBound is what a start of a machine may take besides that of its roles: server firmware takes minutes.
	startBound = 10 * time.Minute
	// stopBound is how long its programs may take to stop.
	stopBound = 5 * time.Minute
	// askEvery is how often a node is asked meanwhile.
	askEvery = 2 * time.Second
)

// boot is the result of both verbs (agent/verbs/power).
type boot struct {
	BootID string `json:"bootID"`
}

// flags are those of both commands.
type flags struct {
	reach             reach.Flags
	all, dryRun, json bool
	wait              bool
	force             string
}

// Reboot returns the command `spore reboot`.
func Reboot() *cobra.Command {
	return command("reboot", &cobra.Command{
		Use:   "reboot [DIR] --node NODE",
		Short: "Restart nodes, one after the other",
		Long: `Reboot restarts nodes of the cluster in DIR (configs when left out) in order: systemd stops everything first. It waits
until a node is back and its roles are up before it goes on to the next one, and ends with the first that is not.

A node whose restart would take a quorum below its majority refuses; --force QUORUM names the quorum that may lose it.`,
		Example: "  spore reboot --node edge-01\n" +
			"  spore reboot configs --node master-1 --node master-2 --node master-3\n" +
			"  spore reboot configs --node master-1 --dry-run",
	}, "wait until each node is back and its roles are up", comesBack)
}

// Shutdown returns the command `spore shutdown`.
func Shutdown() *cobra.Command {
	return command("shutdown", &cobra.Command{
		Use:   "shutdown [DIR] --node NODE",
		Short: "Switch nodes off, one after the other",
		Long: `Shutdown switches nodes of the cluster in DIR (configs when left out) off in order: systemd stops everything first. It
waits until a node answers no more before it goes on to the next one. Somebody has to switch them on again.

A node without which a quorum is below its majority refuses; --force QUORUM names the quorum that may lose it.`,
		Example: "  spore shutdown --node edge-01\n  spore shutdown configs --node broker-1 --force kafka",
	}, "wait until each node answers no more", falls)
}

// then waits for what follows the order, and says how it was.
type then func(ctx context.Context, w comeback.Wait, before string) (string, error)

func comesBack(ctx context.Context, w comeback.Wait, before string) (string, error) {
	s, err := w.ForStart(ctx, before)
	if err != nil {
		return "", err
	}
	done := "restarted, and up"
	if s.System == "degraded" {
		done += "; but a unit failed (spore health)"
	}
	return done, nil
}

func falls(ctx context.Context, w comeback.Wait, _ string) (string, error) {
	if err := w.ForSilence(ctx); err != nil {
		return "", err
	}
	return "answers no more, and switches itself off", nil
}

func command(name string, cmd *cobra.Command, waits string, after then) *cobra.Command {
	f := flags{wait: true}
	cmd.Args = exit.Args(cobra.MaximumNArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := "configs"
		if len(args) == 1 {
			dir = args[0]
		}
		if len(f.reach.Nodes) == 0 && !f.all {
			return exit.Usage(errors.New("no node is named: give --node NODE, or --all"))
		}
		if len(f.reach.Nodes) > 0 && f.all {
			return exit.Usage(errors.New("give --node or --all, not both"))
		}
		return run(cmd, f, dir, verb.Row(name), after)
	}
	f.reach.Register(cmd, true)
	cmd.Flags().Lookup("node").Usage = "which node (may be given again; they come one after the other)"
	cmd.Flags().BoolVar(&f.all, "all", false, "all nodes, one after the other")
	cmd.Flags().BoolVar(&f.wait, "wait", true, waits)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "do nothing, and say whether a node would")
	cmd.Flags().StringVar(&f.force, "force", "", "name of a quorum that may lose its majority")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func run(cmd *cobra.Command, f flags, dir string, v nodeapi.Verb, after then) error {
	order := nodeapi.Order{DryRun: f.dryRun, Force: f.force}
	if err := v.Check(order); err != nil {
		return exit.Usage(err)
	}
	c, err := verb.Open(cmd, f.reach, dir, v)
	if err != nil {
		return err
	}
	if f.dryRun {
		return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(order), nil), f.json, nil)
	}
	var answers []reach.Answer[verb.Reply]
	for i, n := range c.Nodes {
		a := one(cmd, c, n, v, order, f.wait, after)
		answers = append(answers, a)
		if a.Err != nil {
			if left := len(c.Nodes) - i - 1; left > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d nodes after %s were left as they are\n", left, n.Name)
			}
			break
		}
	}
	return verb.Tell(cmd, answers, f.json, nil)
}

// one orders one node, and waits for what follows.
func one(cmd *cobra.Command, c *reach.Cluster, n facts.Node, v nodeapi.Verb, order nodeapi.Order, waits bool, after then) reach.Answer[verb.Reply] {
	alone := *c
	alone.Nodes = []facts.Node{n}
	a := verb.Ask(cmd, &alone, v, verb.Same(order), nil)[0]
	if a.Err != nil || !waits {
		return a
	}
	var before boot
	if len(a.Value.Results) > 0 {
		if err := json.Unmarshal(a.Value.Results[0], &before); err != nil {
			a.Err = fmt.Errorf("its answer is malformed: %w", err)
			return a
		}
	}
	a.Value.Done, a.Err = after(cmd.Context(), comeback.Wait{
		Ask: func(ctx context.Context) (nodeapi.Status, error) {
			ctx, cancel := context.WithTimeout(ctx, c.Timeout)
			defer cancel()
			data, err := c.Client.Read(ctx, n.Name, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
			if err != nil {
				return nodeapi.Status{}, err
			}
			return nodeapi.ParseStatus(data, c.Facts.Name, n.Name)
		},
		Say:   func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", n.Name, nodeapi.Harmless(text)) },
		Every: askEvery, Bound: services.TrialBound(&c.Facts) + startBound + stopBound,
	}, before.BootID)
	return a
}
