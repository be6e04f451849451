// Package logs is the command `spore logs`: the journal of a unit on a node of a running cluster.
package logs

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

// silence is after how long without a sign of the node a follower gives up. The node gives one every 15 seconds.
const silence = time.Minute

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	q := nodeapi.Logs{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "logs [DIR] NODE UNIT",
		Short: "Show or follow the logs (journal) of a unit on a node",
		Long: `Logs shows the last lines that a unit has written on a node of the cluster in DIR (configs when left out) and, with
--follow, what it writes from then on. In the place of a unit, the name of a role of roles/ means the units of its logs.
Times are UTC. Bytes that are not text, and control sequences of terminals, are shown as \xHH.

With --json each line is an object as journalctl -o json prints it on the node.`,
		Example: "  spore logs edge-01 mosquitto\n  spore logs configs kafka-01 kafka --follow\n  spore logs configs edge-01 spore-agent --lines 1000 --json",
		Args:    exit.Args(cobra.RangeArgs(2, 3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 3 {
				dir, args = args[0], args[1:]
			}
			f.Nodes = args[:1]
			var err error
			name := args[1]
			if q.Unit, err = nodeapi.UnitName(name); err != nil {
				return exit.Usage(err)
			}
			if q.Lines < 0 || q.Lines > nodeapi.MaxLines {
				return exit.Usage(fmt.Errorf("%d lines cannot be asked for; choose 0 to %d", q.Lines, nodeapi.MaxLines))
			}
			c, err := f.Open(cmd, dir, nodeapi.Reader)
			if err != nil {
				return err
			}
			if units := roleUnits(c, name); len(units) > 0 {
				q.Unit, q.More = units[0], units[1:]
			}
			return run(cmd, c, q, asJSON)
		},
	}
	f.Register(cmd, false)
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "print new lines until you interrupt it")
	cmd.Flags().IntVarP(&q.Lines, "lines", "n", nodeapi.DefaultLines, "how many of the last lines to show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object a line")
	return cmd
}

// roleUnits are the units whose journal belongs to a role that the configuration has of its own.
func roleUnits(c *reach.Cluster, name string) []string {
	own, _ := services.Of(&c.Facts).Own(name)
	d, ok := own.(*role.Definition)
	if !ok {
		return nil
	}
	return d.LogUnits()
}

func run(cmd *cobra.Command, c *reach.Cluster, q nodeapi.Logs, asJSON bool) error {
	node := c.Nodes[0].Name
	err := c.Stream(cmd.Context(), node, nodeapi.Request{Path: nodeapi.LogsPath, Query: q.Values()}, max(c.Timeout, silence),
		func(r io.Reader) error { return print(cmd, r, node, q, asJSON) })
	switch {
	case cmd.Context().Err() != nil && q.Follow:
		return nil // That is how it ends.
	case err != nil:
		return fmt.Errorf("%s: %w", node, err)
	case q.Follow:
		return fmt.Errorf("%s has ended the answer; is it stopping, or has the certificate ended?", node)
	}
	return nil
}

func print(cmd *cobra.Command, r io.Reader, node string, q nodeapi.Logs, asJSON bool) error {
	shown := 0
	err := nodeapi.ReadEntries(r, func(line []byte, e nodeapi.Entry) error {
		shown++
		text := e.String()
		if asJSON {
			text = string(line)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	})
	if err == nil && shown == 0 && q.Lines > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "the journal of %s has no entry of %s\n", node, strings.Join(q.Units(), ", "))
	}
	return err
}
