// Package dmesg is the command `spore dmesg`: the kernel's log of a node.
package dmesg

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// record is a record of the log, as a node answers (agent/verbs/dmesg).
type record struct {
	After    int64  `json:"afterMicroseconds"`
	Priority int    `json:"priority"`
	Message  string `json:"message"`
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	lines := 1000
	cmd := &cobra.Command{
		Use:   "dmesg [DIR] NODE",
		Short: "Show the kernel's log of a node",
		Long: `Dmesg shows the last records of the kernel's log of a node of the cluster in DIR (configs when left out), with the
seconds since the node was started. It has what came before the journal, and what a full disk kept out of it.`,
		Example: "  spore dmesg edge-01\n  spore dmesg configs edge-01 --lines 50 --json",
		Args:    exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 2 {
				dir, args = args[0], args[1:]
			}
			f.Nodes = args[:1]
			v := verb.Row("dmesg")
			order := nodeapi.Order{Arguments: map[string]string{"lines": strconv.Itoa(lines)}}
			if err := v.Check(order); err != nil {
				return exit.Usage(err)
			}
			c, err := verb.Open(cmd, f, dir, v)
			if err != nil {
				return err
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(order), nil), asJSON, show)
		},
	}
	f.Register(cmd, false)
	cmd.Flags().IntVarP(&lines, "lines", "n", lines, "how many of the last records to show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func show(w io.Writer, _ string, results []json.RawMessage) error {
	for _, part := range results {
		var records []record
		if err := json.Unmarshal(part, &records); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, r := range records {
			after := (time.Duration(r.After) * time.Microsecond).Seconds()
			if _, err := fmt.Fprintf(w, "[%12.6f] %s\n", after, nodeapi.Harmless(r.Message)); err != nil {
				return err
			}
		}
	}
	return nil
}
