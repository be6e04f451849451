package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"spore/agent/atomicfile"
	"spore/agent/paths"
	"spore/agent/status"
)

// statusCommand prints the last status line, for people or as JSON.
func statusCommand(_ context.Context, m *machine, args []string) error {
	asJSON := len(args) == 1 && args[0] == "--json"
	if len(args) > 0 && !asJSON {
		return usageError{"usage: spore-agent status [--json]"}
	}
	if asJSON {
		data, err := atomicfile.ReadLimited(m.root.At(paths.Status), 1<<20)
		if err != nil {
			return noStatus(err)
		}
		_, err = os.Stdout.Write(data)
		return err
	}
	var l status.Line
	if err := atomicfile.ReadJSON(m.root.At(paths.Status), &l); err != nil {
		return noStatus(err)
	}
	fmt.Print(text(l))
	return nil
}

func noStatus(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no status yet: spore-agent.service has not run in this boot")
	}
	return err
}

// text is a status line for people.
func text(l status.Line) string {
	var b strings.Builder
	row := func(name, format string, a ...any) { fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, a...)) }
	if l.Matched != nil {
		row("node", "%s of cluster %s, by %s %s", l.Node, l.Cluster, l.Matched.By, l.Matched.Value)
	} else {
		row("node", "none of cluster %s", l.Cluster)
	}
	row("system", "%s", l.System)
	row("roles", "%s", or(strings.Join(l.Roles, ", "), "none"))
	for _, h := range l.Held {
		row("held", "%s: %s", h.Role, h.Reason)
	}
	for _, f := range l.Failed {
		row("failed", "%s", f)
	}
	if l.State != nil {
		row("state", "%s %s", l.State.Kind, l.State.Device)
		if l.State.Warning != "" {
			row("", "%s", l.State.Warning)
		}
	}
	row("addresses", "%s", or(strings.Join(l.Addresses, ", "), "none"))
	for _, c := range l.Conflicts {
		row("conflict", "%s is used by %s", c.IP, c.MAC)
	}
	if l.Problem != "" {
		row("problem", "%s", l.Problem)
	}
	return b.String()
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
