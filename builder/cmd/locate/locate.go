// Package locate is the command `spore locate`: a machine shows where it stands.
package locate

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// shown is where a machine can be seen, as a node answers (agent/verbs/locate).
type shown struct {
	Lamps    []string `json:"lamps"`
	Consoles []string `json:"consoles"`
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	var order nodeapi.Order
	span := time.Minute
	cmd := &cobra.Command{
		Use:   "locate [DIR] NODE",
		Short: "Have a node show where its machine stands",
		Long: `Locate has the machine of a node of the cluster in DIR (configs when left out) blink the lamps that its kernel knows,
light the locate lamps of its disk shelves, and say its name on its screen and its serial console. After the time all
is as it was before.`,
		Example: "  spore locate edge-01\n  spore locate configs storage-03 --for 10m",
		Args:    exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 2 {
				dir, args = args[0], args[1:]
			}
			f.Nodes = args[:1]
			v := verb.Row("locate")
			order.Arguments = map[string]string{"for": span.String()}
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
	cmd.Flags().DurationVar(&span, "for", span, "how long, up to 1h")
	cmd.Flags().BoolVar(&order.DryRun, "dry-run", false, "do nothing, and say what the machine would use")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func show(w io.Writer, _ string, results []json.RawMessage) error {
	for _, part := range results {
		var s shown
		if err := json.Unmarshal(part, &s); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, what := range append(s.Lamps, s.Consoles...) {
			if _, err := fmt.Fprintln(w, nodeapi.Harmless(what)); err != nil {
				return err
			}
		}
	}
	return nil
}
