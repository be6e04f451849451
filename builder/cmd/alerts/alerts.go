// Package alerts is the command `spore alerts`: what fires now, and the silences of alerts.
package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/fleet/alerts"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// errBlind is the error where the alert that always fires does not.
var errBlind = errors.New("the alert " + metrics.Watchdog + " does not fire: rules are not evaluated, or alerts do not " +
	"arrive, so alerts may be missing; see spore logs DIR NODE vmalert. Right after a start it takes some minutes")

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "alerts [DIR]",
		Short: "Show the alerts that fire now, and silence them",
		Long: `Alerts asks the nodes with the role ` + metrics.AlertsRole + ` of the cluster in DIR (configs when left out) which alerts fire now.
What two nodes know is shown once, and an alert as fires where one of them tells people. The worst come first; those
that are silenced, or held back because another alert explains them, come last.

It exits with 0 when nothing fires, and with 1 when an alert fires that is neither silenced nor held back, or when
nobody can tell: no node answers, or the alert ` + metrics.Watchdog + `, which always fires, does not. That one is shown only then.`,
		Example: "  spore alerts\n  spore alerts configs --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := verb.Row("alerts")
			c, err := verb.Open(cmd, f, inputs.Dir(args), v)
			if err != nil {
				return err
			}
			answers, err := look(cmd, c, v)
			if err != nil {
				return err
			}
			if err := verb.Tell(cmd, answers, asJSON, shown(time.Now())); err != nil {
				return err
			}
			return judge(answers[0].Value.Results)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with all labels")
	cmd.AddCommand(silenceCommand(), silencesCommand(), unsilenceCommand())
	return cmd
}

// look asks the nodes with the role, of which one may run while its Alertmanager does not, and puts together what they
// say. Without an answer, it returns why.
func look(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb) ([]reach.Answer[verb.Reply], error) {
	if err := verb.AllAnswering(cmd, c, metrics.AlertsRole); err != nil {
		return nil, err
	}
	all := verb.Ask(cmd, c, v, verb.Same(nodeapi.Order{}), nil)
	told := slices.DeleteFunc(slices.Clone(all), func(a reach.Answer[verb.Reply]) bool { return a.Err != nil })
	if len(told) == 0 {
		return all, nil
	}
	for _, a := range all {
		if a.Err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", a.Node.Name, verb.Words(a.Err.Error()))
		}
	}
	if len(told) == 1 {
		return told, nil
	}
	one, err := alerts.Merged(told)
	return []reach.Answer[verb.Reply]{one}, err
}

// judge is an error when an alert fires, or when nobody can tell.
func judge(results []json.RawMessage) error {
	all, err := alerts.Read[machine.Alert](results)
	if err != nil {
		return err
	}
	firing, seen := 0, false
	for _, a := range all {
		switch {
		case a.Labels[machine.AlertName] == metrics.Watchdog:
			seen = true
		case a.State == machine.Fires:
			firing++
		}
	}
	switch {
	case !seen:
		return errBlind
	case firing == 1:
		return errors.New("1 alert fires")
	case firing > 1:
		return fmt.Errorf("%d alerts fire", firing)
	}
	return nil
}

// shown prints a row for each alert.
func shown(now time.Time) func(w io.Writer, node string, results []json.RawMessage) error {
	return func(w io.Writer, _ string, results []json.RawMessage) error {
		all, err := alerts.Read[machine.Alert](results)
		if err != nil {
			return err
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		rows := 0
		for _, a := range all {
			if a.Labels[machine.AlertName] == metrics.Watchdog && a.State == machine.Fires {
				continue
			}
			if rows++; rows == 1 {
				fmt.Fprintln(t, "SEVERITY\tALERT\tNODE\tSINCE\tSTATE\tSUMMARY\tWHAT TO DO")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cell(a.Labels[machine.Severity]), cell(a.Labels[machine.AlertName]),
				cell(a.Labels[machine.AlertNode]), age(now.Sub(a.Since)), state(a), cell(a.Summary), cell(a.Page()))
		}
		return t.Flush()
	}
}

// cell is a text of outside in a cell of a table: without what a terminal obeys, and without what ends the cell.
func cell(text string) string {
	if text = strings.ReplaceAll(nodeapi.Harmless(text), "\t", " "); text == "" {
		return "-"
	}
	return text
}

// state is what an alert does, and who had it silenced.
func state(a machine.Alert) string {
	if a.State != machine.Silenced {
		return cell(a.State)
	}
	var by []string
	for _, s := range a.Silences {
		if s.Ends.IsZero() {
			by = append(by, "by "+cell(s.ID))
			continue
		}
		by = append(by, fmt.Sprintf("by %s until %s", cell(s.By), s.Ends.UTC().Format(time.RFC3339)))
	}
	return strings.TrimSpace(machine.Silenced + " " + strings.Join(by, ", "))
}

// age is how long ago something began, in two units at most.
func age(d time.Duration) string {
	day := 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
