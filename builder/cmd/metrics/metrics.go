// Package metrics is the command `spore metrics`: a query to the cluster's store of metrics.
package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	query "spore/fleet/metrics"
	"spore/fleet/moment"
	"spore/services/metrics"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var at moments
	var asJSON, asPage bool
	cmd := &cobra.Command{
		Use:   "metrics [DIR] QUERY | metrics [DIR] --page",
		Short: "Ask the store of metrics",
		Long: `Metrics asks the first node with the role ` + metrics.Role + ` that answers, of the cluster in DIR (configs when left
out). QUERY is PromQL. Without --since the answer is of now, or of the time of --until; with it, of all the time from
there.

With --page it serves the store's own page, with graphs, on this machine alone, until it is stopped. It prints the
address. The page can read metrics and cannot change anything.`,
		Example: "  spore metrics up\n" +
			"  spore metrics configs 'node_filesystem_avail_bytes{mountpoint=\"/var\"}' --until 2026-11-24T12:00:00Z\n" +
			"  spore metrics 'rate(node_disk_written_bytes_total[5m])' --since 1h --step 1m --json\n" +
			"  spore metrics configs --page",
		Args: exit.Args(func(cmd *cobra.Command, args []string) error {
			if asPage {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.RangeArgs(1, 2)(cmd, args)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if asPage {
				if len(args) == 1 {
					dir = args[0]
				}
				if at != (moments{}) || asJSON {
					return exit.Usage(errors.New("--page stands alone; choose the time on the page"))
				}
				return page(cmd, f, dir)
			}
			if len(args) == 2 {
				dir, args = args[0], args[1:]
			}
			v := verb.Row("metrics-query")
			order, err := at.order(args[0], time.Now())
			if err == nil {
				err = v.Check(order)
			}
			if err != nil {
				return exit.Usage(err)
			}
			c, err := verb.Open(cmd, f, dir, v)
			if err != nil {
				return err
			}
			if err := verb.Answering(cmd, c, metrics.Role); err != nil {
				return err
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(order), nil), asJSON, show)
		},
	}
	f.Register(cmd, true)
	flags := cmd.Flags()
	flags.StringVar(&at.since, "since", "", "the begin: a time such as 2026-11-24T12:00:00Z, or how long ago, such as 90m or 3d")
	flags.StringVar(&at.until, "until", "", "the end, in the same form; now when left out")
	flags.DurationVar(&at.step, "step", 0, "what lies between two samples; about 500 samples when left out")
	flags.BoolVar(&asPage, "page", false, "serve the store's own page on this machine, until stopped")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// moments are the times of a query as a person gives them.
type moments struct {
	since, until string
	step         time.Duration
}

// order is the order to the node.
func (m moments) order(query string, now time.Time) (nodeapi.Order, error) {
	o := nodeapi.Order{Arguments: map[string]string{"query": query}}
	for name, text := range map[string]string{"from": m.since, "until": m.until} {
		if text == "" {
			continue
		}
		t, err := moment.Parse(text, now)
		if err != nil {
			return o, err
		}
		o.Arguments[name] = strconv.FormatInt(t.Unix(), 10)
	}
	if m.step != 0 {
		if m.since == "" {
			return o, errors.New("--step is for a time with a begin; give --since, too")
		}
		if m.step < time.Second || m.step%time.Second != 0 {
			return o, fmt.Errorf("--step %s is not whole seconds", m.step)
		}
		o.Arguments["step"] = strconv.Itoa(int(m.step / time.Second))
	}
	return o, nil
}

// show prints each series: of one sample in a line, of several with a line for each sample below it.
func show(w io.Writer, _ string, results []json.RawMessage) error {
	all, err := query.Read(results)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range all {
		if len(s.Samples) == 1 {
			fmt.Fprintf(t, "%s\t%s\n", query.Name(s.Labels), nodeapi.Harmless(s.Samples[0].Value))
			continue
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w, query.Name(s.Labels))
		for _, p := range s.Samples {
			fmt.Fprintf(t, "  %s\t%s\n", time.UnixMilli(int64(p.At*1000)).UTC().Format(time.RFC3339), nodeapi.Harmless(p.Value))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return t.Flush()
}
