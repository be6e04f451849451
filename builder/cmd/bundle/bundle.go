// Package bundle is the command `spore bundle`: which bundle of secrets nodes have, and a newer one for them.
package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// flags are the command's.
type flags struct {
	reach        reach.Flags
	send         string
	make, all    bool
	dryRun, json bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "bundle [DIR]",
		Short: "Show which bundle of secrets nodes have, or send them a newer one",
		Long: `Bundle shows which bundle of secrets each node of the cluster in DIR (configs when left out) has: its serial number,
when it was made, where it came from, how the node keeps it, and when the first of its certificates ends. Of one node
it shows all certificates.

With --send it sends a bundle that spore pki bundle wrote to its node, and with --make it makes a new one for each node
from the operator's folder first. Nodes come one after the other: the next one follows when a node has kept its bundle
and all its programs run with it. A node takes no bundle that is older than its own. The node has to have a bundle
already: without one it answers nobody, and gets its first one in another way (spore flash, boot, serve).`,
		Example: "  spore bundle\n" +
			"  spore bundle configs --node edge-01\n" +
			"  spore bundle configs --node edge-01 --send edge-01.bundle --dry-run\n" +
			"  spore bundle configs --all --send bundles\n" +
			"  spore bundle configs --node edge-01 --node edge-02 --make",
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return exit.Usage(err)
			}
			if f.send != "" || f.make {
				return deliver(cmd, f, inputs.Dir(args))
			}
			v := verb.Row("bundle")
			c, err := verb.Open(cmd, f.reach, inputs.Dir(args), v)
			if err != nil {
				return err
			}
			one := len(c.Nodes) == 1
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(nodeapi.Order{}), nil), f.json,
				func(w io.Writer, node string, results []json.RawMessage) error { return show(w, node, results, one) })
		},
	}
	f.reach.Register(cmd, true)
	cmd.Flags().Lookup("node").Usage = "this node alone (may be given again)"
	cmd.Flags().StringVar(&f.send, "send", "", "send this file of spore pki bundle, or NODE.bundle of this folder")
	cmd.Flags().BoolVar(&f.make, "make", false, "make a new bundle for each node from the operator's folder, and send it")
	cmd.Flags().BoolVar(&f.all, "all", false, "send to all nodes")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "send nothing, and say what would be sent")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// check says what does not go together.
func (f flags) check() error {
	sends, named := f.send != "" || f.make, len(f.reach.Nodes) > 0
	switch {
	case f.send != "" && f.make:
		return errors.New("give --send or --make, not both")
	case f.make && f.reach.Access != "":
		return errors.New("--make opens the operator's folder, and takes no --access; that goes with --send")
	case !sends && (f.all || f.dryRun):
		return errors.New("--all and --dry-run go with --send or --make")
	case sends && !named && !f.all:
		return errors.New("no node is named: give --node NODE, or --all")
	case named && f.all:
		return errors.New("give --node or --all, not both")
	}
	return nil
}

// parse reads the result of the verb.
func parse(results []json.RawMessage) (b machine.Bundle, err error) {
	if len(results) != 1 {
		return b, errors.New("the answer is malformed: it is not one bundle")
	}
	if err = json.Unmarshal(results[0], &b); err != nil {
		err = fmt.Errorf("the answer is malformed: %w", err)
	}
	return b, err
}

// show prints a line for a node, and its certificates where it is the only one.
func show(w io.Writer, node string, results []json.RawMessage, certificates bool) error {
	b, err := parse(results)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s\n", node, nodeapi.Harmless(say(b)))
	for _, text := range notes(b) {
		fmt.Fprintf(w, "  %s\n", nodeapi.Harmless(text))
	}
	if !certificates || len(b.Certificates) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  CERTIFICATE\tMADE\tENDS")
	for _, c := range b.Certificates {
		if c.Problem != "" {
			fmt.Fprintf(t, "  %s\t-\t%s\n", nodeapi.Harmless(c.Name), nodeapi.Harmless(c.Problem))
			continue
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", nodeapi.Harmless(c.Name), date(c.Made), date(c.Ends))
	}
	return t.Flush()
}

// froms and seals are the words of a node for people.
var (
	froms = map[string]string{
		"state": "from the state partition", "firmware": "from the firmware",
		"medium": "from the boot medium", "network": "from the network",
	}
	seals = map[string]string{"tpm2": "sealed to the TPM", "host": "sealed to the host key", "": "in memory only"}
)

// say is what a node has, in a line.
func say(b machine.Bundle) string {
	if b.Serial == 0 {
		return "no bundle"
	}
	text := []string{fmt.Sprintf("bundle %d", b.Serial)}
	if !b.Made.IsZero() {
		text = append(text, "made "+b.Made.UTC().Format(time.RFC3339))
	}
	if from := froms[b.From]; from != "" {
		text = append(text, from)
	}
	if sealed := seals[b.Sealed]; sealed != "" {
		text = append(text, sealed)
	}
	line := strings.Join(text, ", ")
	if first := ends(b.Certificates); !first.IsZero() {
		line += "; the first certificate ends " + date(first)
	}
	return line
}

// notes are what is not as it should be.
func notes(b machine.Bundle) (out []string) {
	if b.Problem != "" {
		out = append(out, b.Problem)
	}
	if b.Forgets != "" {
		out = append(out, "the next boot would take an older bundle: "+b.Forgets)
	}
	if len(b.Pending) > 0 {
		out = append(out, "has yet to restart "+strings.Join(b.Pending, ", "))
	}
	if b.Waits != "" {
		out = append(out, b.Waits)
	}
	return out
}

// ends is when the first certificate does; zero where there is none.
func ends(certificates []machine.Certificate) (first time.Time) {
	for _, c := range certificates {
		if c.Problem == "" && (first.IsZero() || c.Ends.Before(first)) {
			first = c.Ends
		}
	}
	return first
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }
