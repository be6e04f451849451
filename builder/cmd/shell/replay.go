package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

// maxPause is how long a replay stands still at most.
const maxPause = 3 * time.Second

// sessions asks the node for the sessions that it keeps.
func sessions(cmd *cobra.Command, c *reach.Cluster) ([]shell.Session, error) {
	answers := verb.Ask(cmd, c, verb.Row("shell-sessions"), verb.Same(nodeapi.Order{}), nil)
	a := answers[0]
	if a.Err != nil {
		return nil, fmt.Errorf("%s: %w", a.Node.Name, a.Err)
	}
	return parts[shell.Session](a.Value.Results)
}

// parts is a list that came in parts.
func parts[T any](results []json.RawMessage) (out []T, err error) {
	for _, part := range results {
		var some []T
		if err := json.Unmarshal(part, &some); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// list shows the sessions of a node.
func (o *options) list(cmd *cobra.Command, dir string) error {
	v := verb.Row("shell-sessions")
	c, err := verb.Open(cmd, o.reach, dir, v)
	if err != nil {
		return err
	}
	return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(nodeapi.Order{}), nil), o.asJSON,
		func(w io.Writer, _ string, results []json.RawMessage) error {
			all, err := parts[shell.Session](results)
			if err != nil {
				return err
			}
			return table(w, all)
		})
}

func table(w io.Writer, all []shell.Session) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION\tBEGUN\tLASTED\tUSER\tFROM\tREASON\tRESULT\tACKNOWLEDGED")
	for _, s := range all {
		lasted, seen, result := "-", "no", s.Result
		if !s.Ended.IsZero() {
			lasted = s.Ended.Sub(s.Begun).String()
		} else if result == "" {
			result = "open"
		}
		if !s.Acknowledged.IsZero() {
			seen = fmt.Sprintf("by %s at %s", s.AcknowledgedBy, s.Acknowledged.UTC().Format(time.RFC3339))
		}
		begun := "-"
		if !s.Begun.IsZero() {
			begun = s.Begun.UTC().Format(time.RFC3339)
		}
		for i, cell := range []string{s.ID, begun, lasted, s.User, s.From, s.Reason, result, seen} {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, nodeapi.Harmless(cell))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// show replays a session.
func (o *options) show(cmd *cobra.Command, dir string) error {
	answers, err := o.ask(cmd, dir, "shell-replay", o.replay)
	if err != nil {
		return err
	}
	return verb.Tell(cmd, answers, o.asJSON,
		func(w io.Writer, _ string, results []json.RawMessage) error {
			records, err := parts[shell.Record](results)
			if err != nil {
				return err
			}
			return o.play(cmd.Context(), w, records)
		})
}

// play shows records: raw, as they were shown, or line by line without what a terminal obeys.
func (o *options) play(ctx context.Context, w io.Writer, records []shell.Record) error {
	out := w
	if o.plain {
		p := &plain{w: w}
		defer p.end()
		out = p
	}
	var last int64
	for _, r := range records {
		if pause := min(time.Duration(r.At-last)*time.Millisecond, maxPause); !o.fast && pause > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
		last = r.At
		if _, err := out.Write(r.Data); err != nil {
			return fmt.Errorf("show the session: %w", err)
		}
	}
	return nil
}

// maxLine is how long a line of a plain replay is at most, in bytes.
const maxLine = 4 << 10

// plain shows lines without what a terminal obeys.
type plain struct {
	w    io.Writer
	line []byte
}

func (p *plain) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		at := bytes.IndexByte(rest, '\n')
		n := min(len(rest), maxLine-len(p.line))
		if at >= 0 && at < n {
			n = at + 1
		}
		p.line = append(p.line, rest[:n]...)
		rest = rest[n:]
		if p.line[len(p.line)-1] == '\n' || len(p.line) == maxLine {
			if err := p.end(); err != nil {
				return 0, err
			}
		}
	}
	return len(data), nil
}

// end shows what there is of a line. A terminal has a carriage return before the end of each.
func (p *plain) end() error {
	if len(p.line) == 0 {
		return nil
	}
	text := bytes.TrimSuffix(bytes.TrimSuffix(p.line, []byte("\n")), []byte("\r"))
	_, err := fmt.Fprintln(p.w, nodeapi.Harmless(string(text)))
	p.line = p.line[:0]
	return err
}
