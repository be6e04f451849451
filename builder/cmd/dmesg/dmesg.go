// Package dmesg is the command `spore dmesg`: the kernel's log of a node.
package dmesg

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

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
	return verb.One{
		Use: "dmesg [DIR] NODE", Verb: "dmesg",
		Short: "Show the kernel's log of a node",
		Long: `Dmesg shows the last records of the kernel's log of a node of the cluster in DIR (configs when left out), with the
seconds since the node was started. It has what came before the journal, and what a full disk kept out of it.`,
		Example: "  spore dmesg edge-01\n  spore dmesg configs edge-01 --lines 50 --json",
		Options: map[string]string{"lines": "how many of the last records to show (default 1000)"},
		Letters: map[string]string{"lines": "n"},
		Show:    show,
	}.Command()
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
