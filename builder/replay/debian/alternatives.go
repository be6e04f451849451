package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/tree"
)

// alternativesDir holds the second link of each alternative (update-alternatives(1)).
const alternativesDir = "/etc/alternatives"

// alternative is a name that several programs can stand behind.
type alternative struct {
	link    string
	choices map[string]choice // by the path of the program
	slaves  map[string]string // link by name
	set     string            // the choice that a script has set, instead of the one with the highest priority
	shown   []string          // links that were made
}

type choice struct {
	priority int
	slaves   map[string]string // path by name
}

// updateAlternatives is update-alternatives(1).
func (t *Tools) updateAlternatives(_ context.Context, c *command.Call) (int, error) {
	args := slices.Clone(c.Args)
	for len(args) > 0 {
		switch a := args[0]; {
		case a == "--quiet" || a == "--force" || a == "--skip-auto" || a == "--verbose" || a == "--debug":
			args = args[1:]
			continue
		case (a == "--altdir" || a == "--admindir" || a == "--log" || a == "--instdir" || a == "--root") && len(args) > 1:
			args = args[2:]
			continue
		}
		break
	}
	if len(args) == 0 {
		return c.Fail(2, "need --display, --query, --list, --install, --remove, --set, --auto")
	}
	action, words := args[0], args[1:]
	switch {
	case action == "--install":
		return t.installAlternative(c, words)
	case action == "--slave" || len(words) == 0:
		return c.Fail(2, "%s needs arguments", action)
	}
	name := words[0]
	a := t.alternatives[name]
	switch action {
	case "--remove":
		if a == nil || len(words) < 2 {
			return 0, nil
		}
		delete(a.choices, words[1])
		return 0, t.linkAlternative(name)
	case "--remove-all":
		if a == nil {
			return 0, nil
		}
		clear(a.choices)
		return 0, t.linkAlternative(name)
	case "--set":
		if a == nil || len(words) < 2 || a.choices[words[1]].slaves == nil {
			return c.Fail(2, "alternative for %s not registered", name)
		}
		a.set = words[1]
		return 0, t.linkAlternative(name)
	case "--auto":
		if a == nil {
			return c.Fail(2, "no alternatives for %s", name)
		}
		a.set = ""
		return 0, t.linkAlternative(name)
	case "--list", "--query", "--display":
		if a == nil {
			return c.Fail(2, "no alternatives for %s", name)
		}
		if action == "--query" {
			fmt.Fprintf(c.Stdout, "Name: %s\nLink: %s\nStatus: auto\nBest: %s\nValue: %[3]s\n", name, a.link, a.best())
			return 0, nil
		}
		for _, p := range slices.Sorted(maps.Keys(a.choices)) {
			fmt.Fprintln(c.Stdout, p)
		}
		return 0, nil
	}
	return c.Unknown(action)
}

// installAlternative reads LINK NAME PATH PRIORITY [--slave LINK NAME PATH]…
func (t *Tools) installAlternative(c *command.Call, words []string) (int, error) {
	if len(words) < 4 {
		return c.Fail(2, "--install needs <link> <name> <path> <priority>")
	}
	link, name, target := words[0], words[1], words[2]
	priority, err := strconv.Atoi(words[3])
	if err != nil {
		return c.Fail(2, "priority must be an integer")
	}
	if !path.IsAbs(link) || !path.IsAbs(target) || strings.Contains(name, "/") || name == "" || ours(link) {
		return c.Fail(2, "%s %s %s is not an alternative", link, name, target)
	}
	if !t.files.Exists(target) {
		return c.Fail(2, "alternative path %s doesn't exist", target)
	}
	a := t.alternatives[name]
	if a == nil {
		a = &alternative{choices: map[string]choice{}, slaves: map[string]string{}}
		t.alternatives[name] = a
	}
	a.link = link
	one := choice{priority, map[string]string{}}
	for rest := words[4:]; len(rest) > 0; {
		switch {
		case rest[0] == "--slave" && len(rest) >= 4:
			a.slaves[rest[2]] = rest[1]
			one.slaves[rest[2]] = rest[3]
			rest = rest[4:]
		case rest[0] == "--quiet" || rest[0] == "--force":
			rest = rest[1:]
		default:
			return c.Fail(2, "unknown argument '%s'", rest[0])
		}
	}
	a.choices[target] = one
	return 0, t.linkAlternative(name)
}

// best is the choice that was set, or the one with the highest priority; of equals the first installed wins at Debian,
// and the first by path here, so that no order of scripts shows.
func (a *alternative) best() string {
	if _, ok := a.choices[a.set]; ok {
		return a.set
	}
	best := ""
	for _, p := range slices.Sorted(maps.Keys(a.choices)) {
		if best == "" || a.choices[p].priority > a.choices[best].priority {
			best = p
		}
	}
	return best
}

// linkAlternative makes the links of an alternative anew.
func (t *Tools) linkAlternative(name string) error {
	a := t.alternatives[name]
	for _, p := range a.shown {
		if n, err := t.files.Lstat(p); err == nil && n.Type == tree.Symlink {
			if err := t.files.Remove(p); err != nil {
				return err
			}
		}
	}
	a.shown = nil
	best := a.best()
	if best == "" {
		delete(t.alternatives, name)
		return nil
	}
	if err := t.show(a, a.link, name, best); err != nil {
		return err
	}
	slaves := a.choices[best].slaves
	for _, slave := range slices.Sorted(maps.Keys(slaves)) {
		if t.files.Exists(slaves[slave]) {
			if err := t.show(a, a.slaves[slave], slave, slaves[slave]); err != nil {
				return err
			}
		}
	}
	return nil
}

// show makes both links. A file in the place of the first stays, as at Debian without --force.
func (t *Tools) show(a *alternative, link, name, target string) error {
	group := path.Join(alternativesDir, name)
	if err := t.files.MkdirAll(alternativesDir, 0o755); err != nil {
		return err
	}
	if err := t.relink(group, target); err != nil {
		return err
	}
	a.shown = append(a.shown, group)
	if n, err := t.files.Lstat(link); err == nil && n.Type != tree.Symlink {
		return nil
	}
	if err := t.files.MkdirAll(path.Dir(link), 0o755); err != nil {
		return err
	}
	a.shown = append(a.shown, link)
	return t.relink(link, group)
}

func (t *Tools) relink(p, target string) error {
	if err := t.files.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.files.Symlink(target, p)
}
