// Package top is the command `spore top`: what nodes do now, once or live in a terminal.
package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/cluster/facts"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// Live, a node is looked at every so many seconds, for an hour.
const (
	liveSeconds = 2
	liveCount   = 3600 / liveSeconds
)

// options are the command's flags.
type options struct {
	once, asJSON  bool
	seconds, rows int
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	o := options{seconds: 1, rows: 20}
	cmd := &cobra.Command{
		Use:   "top [DIR]",
		Short: "Show what nodes do now: processors, memory, disks, network, units, processes",
		Long: `Top shows what the nodes of the cluster in DIR (configs when left out) do now. Of one node it shows processors, memory,
pressure (the share of the last ten seconds in which something waited), disks and network, and the units and processes
that use most; of several nodes a line each. Arguments of processes are never shown: they can hold secrets.

In a terminal it goes on every two seconds, for an hour at most, until you press q or Ctrl-C. With --once, with --json,
and where the output is not a terminal, it looks for --seconds and ends.`,
		Example: "  spore top --node kafka-01\n  spore top configs --once\n  spore top --node kafka-01 --once --seconds 10 --rows 50 --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := verb.Row("top")
			for _, summary := range []bool{true, false} {
				if err := v.Check(o.order(summary, false)); err != nil {
					return exit.Usage(err)
				}
			}
			c, err := verb.Open(cmd, f, inputs.Dir(args), v)
			if err != nil {
				return err
			}
			out, ok := cmd.OutOrStdout().(*os.File)
			if o.once || o.asJSON || !ok || !term.IsTerminal(int(out.Fd())) {
				return once(cmd, c, v, o)
			}
			return live(cmd, c, v, o, out)
		},
	}
	f.Register(cmd, true)
	flags := cmd.Flags()
	flags.BoolVar(&o.once, "once", false, "look once and end")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	flags.IntVar(&o.seconds, "seconds", o.seconds, "how many seconds to look, with --once")
	flags.IntVar(&o.rows, "rows", o.rows, "how many units and how many processes of one node to show")
	return cmd
}

func (o options) order(summary, live bool) nodeapi.Order {
	order := nodeapi.Order{Arguments: map[string]string{"seconds": strconv.Itoa(o.seconds), "count": "1", "rows": strconv.Itoa(o.rows), "summary": "no"}}
	if live {
		order.Arguments["seconds"], order.Arguments["count"] = strconv.Itoa(liveSeconds), strconv.Itoa(liveCount)
	}
	if summary {
		order.Arguments["summary"] = "yes"
	}
	return order
}

func parse(part json.RawMessage) (l machine.Load, err error) {
	if err = json.Unmarshal(part, &l); err != nil {
		err = fmt.Errorf("the answer is malformed: %w", err)
	}
	return l, err
}

// ask asks all nodes at the same time, however many there are: one that is looked at has its place until it has ended.
// see is called with each part, and ended when a node gives no more; for one node at a time.
func ask(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb, o nodeapi.Order, see func(string, json.RawMessage) error,
	ended func(string, error)) []reach.Answer[verb.Reply] {
	var mu sync.Mutex
	one := see
	if see != nil {
		one = func(node string, part json.RawMessage) error {
			mu.Lock()
			defer mu.Unlock()
			return see(node, part)
		}
	}
	answers := make([]reach.Answer[verb.Reply], len(c.Nodes))
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		all.Go(func() {
			alone := *c
			alone.Nodes = []facts.Node{n}
			answers[i] = verb.Ask(cmd, &alone, v, verb.Same(o), one)[0]
			mu.Lock()
			defer mu.Unlock()
			if ended != nil {
				ended(n.Name, answers[i].Err)
			}
		})
	}
	all.Wait()
	return answers
}

func once(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb, o options) error {
	several := len(c.Nodes) > 1
	answers := ask(cmd, c, v, o.order(several, false), nil, nil)
	if several && !o.asJSON {
		if err := printSummary(cmd.OutOrStdout(), answers); err != nil {
			return err
		}
		return failed(cmd, answers)
	}
	return verb.Tell(cmd, answers, o.asJSON, func(w io.Writer, node string, results []json.RawMessage) error {
		for _, part := range results {
			l, err := parse(part)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, strings.Join(detail(node, l, o.rows, o.rows), "\n")); err != nil {
				return err
			}
		}
		return nil
	})
}

// failed says why nodes did not answer.
func failed(cmd *cobra.Command, answers []reach.Answer[verb.Reply]) (err error) {
	for _, a := range answers {
		if a.Err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", a.Node.Name, verb.Words(a.Err.Error()))
			err = verb.ErrSome
		}
	}
	return err
}

func printSummary(w io.Writer, answers []reach.Answer[verb.Reply]) error {
	var rows []row
	for _, a := range answers {
		r := row{node: a.Node.Name, silent: "it does not answer"}
		if a.Err == nil && len(a.Value.Results) > 0 {
			l, err := parse(a.Value.Results[len(a.Value.Results)-1])
			if err != nil {
				return err
			}
			r = row{node: a.Node.Name, load: &l}
		}
		rows = append(rows, r)
	}
	_, err := fmt.Fprintln(w, strings.Join(summary(rows), "\n"))
	return err
}

// live draws what the nodes say until somebody presses q, or all have ended.
func live(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb, o options, out *os.File) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	cmd.SetContext(ctx)
	s, err := openScreen(out, os.Stdin, cancel)
	if err != nil {
		return err
	}
	several := len(c.Nodes) > 1
	rows := make([]row, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		rows = append(rows, row{node: n.Name, silent: "it is asked"})
	}
	s.draw(summary(rows))
	answers := ask(cmd, c, v, o.order(several, true), func(node string, part json.RawMessage) error {
		l, err := parse(part)
		if err != nil {
			return err
		}
		if !several {
			_, height := s.size()
			s.draw(detail(node, l, max(3, (height-16)/3), height)) // A third of what the rest leaves is for units.
			return nil
		}
		rows[slices.IndexFunc(rows, func(r row) bool { return r.node == node })].load = &l
		s.draw(summary(rows))
		return nil
	}, func(node string, err error) {
		if several && err != nil {
			rows[slices.IndexFunc(rows, func(r row) bool { return r.node == node })] = row{node: node, silent: err.Error()}
			s.draw(summary(rows))
		}
	})
	stopped := ctx.Err() != nil
	s.close()
	if stopped {
		return nil // That is how it ends.
	}
	return failed(cmd, answers)
}
