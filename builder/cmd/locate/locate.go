// Package locate is the command `spore locate`: a machine shows where it stands.
package locate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// shown is where a machine can be seen, as a node answers (agent/verbs/locate).
type shown struct {
	Lamps    []string `json:"lamps"`
	Cards    []string `json:"cards"`
	Consoles []string `json:"consoles"`
}

// Command returns the command.
func Command() *cobra.Command {
	return verb.One{
		Use: "locate [DIR] NODE", Verb: "locate",
		Short: "Have a node show where its machine stands",
		Long: `Locate has the machine of a node of the cluster in DIR (configs when left out) blink the lamps that its kernel knows
and those of its network cards, light the locate lamps of its disk shelves, and say its name on its screen and its
serial console. After the time all is as it was before.`,
		Example: "  spore locate edge-01\n  spore locate configs storage-03 --for 10m",
		Options: map[string]string{"for": "how long, such as 90s or 10m, up to 1h (default 1m)"},
		Show:    show,
	}.Command()
}

func show(w io.Writer, _ string, results []json.RawMessage) error {
	for _, part := range results {
		var s shown
		if err := json.Unmarshal(part, &s); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, what := range slices.Concat(s.Lamps, s.Cards, s.Consoles) {
			if _, err := fmt.Fprintln(w, nodeapi.Harmless(what)); err != nil {
				return err
			}
		}
	}
	return nil
}
