package recipe

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// commandSettings are the settings that hold command lines (systemd.service(5), systemd.socket(5)).
var commandSettings = map[string]bool{
	"ExecCondition": true, "ExecStartPre": true, "ExecStart": true, "ExecStartPost": true, "ExecReload": true,
	"ExecReloadPost": true, "ExecStop": true, "ExecStopPre": true, "ExecStopPost": true,
}

// searchPath is where systemd looks for a program that is named without a directory (systemd.exec(5), ExecSearchPath=).
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"}

// unitCommand is one program that a unit runs.
type unitCommand struct {
	setting, program string
	// optional tells that systemd goes on without it: the prefix "-".
	optional bool
	// file is the unit or drop-in that says so, origin where that came from.
	file, origin string
}

// checkCommands refuses a root in which a unit runs a program that is not there. It holds units of Debian packages to
// the same as ours, but for what they mark as optional with "-", and for what they do when they end: they ask for
// packages that are only suggested, and the daemon starts all the same. The report has a note of those.
func checkCommands(b *build) error {
	var problems []string
	var own ownProblems
	for _, name := range b.unitNames() {
		commands, err := b.commands(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, c := range commands {
			if c.optional && strings.HasPrefix(c.origin, "deb:") {
				continue
			}
			why := b.runnable(c.program)
			if why != "" && strings.HasPrefix(c.setting, "ExecStop") && strings.HasPrefix(c.origin, "deb:") {
				b.note("note", c.file, fmt.Sprintf("%s=%s does nothing: the program %s", c.setting, c.program, why))
				continue
			}
			switch {
			case why == "":
			case strings.HasPrefix(c.origin, configuration):
				own.add("%s:%d: %s=%s %s; add its package to packages of image.yaml, or the program to overlay/",
					strings.TrimPrefix(c.origin, configuration), b.ownLine(c), c.setting, c.program, why)
			default:
				problems = append(problems, fmt.Sprintf("%s has %s=%s, which %s", c.file, c.setting, c.program, why))
			}
		}
	}
	if err := own.err(); err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s; add its package or payload to the row in services, or take the line out", strings.Join(problems, "; "))
	}
	return nil
}

// unitNames are the units of the root, and the names that have nothing but drop-ins.
func (b *build) unitNames() []string {
	seen := map[string]bool{}
	for _, dir := range unitDirs {
		for _, name := range b.tree.Children(dir) {
			if owner, ok := strings.CutSuffix(name, ".d"); ok {
				seen[owner] = true
			} else if isUnitName(name) {
				seen[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// commands are the programs that a unit runs with all its drop-ins. A masked unit runs none; those of a unit with a
// second name are counted by its first.
func (b *build) commands(unit string) ([]unitCommand, error) {
	var files []string
	for _, dir := range unitDirs {
		p := path.Join(dir, unit)
		n, err := b.tree.Lstat(p)
		if err != nil {
			continue
		}
		if n.Type == tree.Symlink && n.Target == "/dev/null" {
			return nil, nil
		}
		if n.Type == tree.Regular {
			files = append(files, p)
		}
		break
	}
	var out []unitCommand
	for _, p := range append(files, b.dropIns(unit)...) {
		n, err := b.tree.Stat(p)
		if err != nil {
			return nil, err
		}
		data, err := b.tree.ReadFile(p)
		if err != nil {
			return nil, err
		}
		eachSetting(string(data), func(_, key, value string) {
			if !commandSettings[key] || err != nil {
				return
			}
			if value == "" { // clears the list
				kept := out[:0]
				for _, c := range out {
					if c.setting != key {
						kept = append(kept, c)
					}
				}
				out = kept
				return
			}
			var commands []unitCommand
			if commands, err = parseCommands(value); err != nil {
				err = fmt.Errorf("%s: %s=%s: %w", p, key, value, err)
				return
			}
			for _, c := range commands {
				c.setting, c.file, c.origin = key, p, n.Origin
				out = append(out, c)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// runnable says what is wrong with a program; empty when it can run. A name with specifiers is known on the node alone.
func (b *build) runnable(program string) string {
	if strings.Contains(strings.ReplaceAll(program, "%%", ""), "%") {
		return ""
	}
	places := []string{program}
	if !strings.Contains(program, "/") {
		places = nil
		for _, dir := range searchPath {
			places = append(places, path.Join(dir, program))
		}
	}
	why := "is not in the image"
	for _, p := range places {
		n, err := b.tree.Stat(strings.ReplaceAll(p, "%%", "%"))
		switch {
		case err != nil:
		case n.Type != tree.Regular || n.Mode&0o111 == 0:
			why = "is not a program"
		default:
			return ""
		}
	}
	return why
}

// parseCommands reads the programs of a command line; those after the first are separated by ";" (systemd.service(5),
// "Command lines").
func parseCommands(line string) ([]unitCommand, error) {
	words, err := commandWords(line)
	if err != nil {
		return nil, err
	}
	var out []unitCommand
	for first := true; len(words) > 0; words = words[1:] {
		switch {
		case words[0] == ";":
			first = true
		case !first && words[0] == "--" && path.Base(out[len(out)-1].program) == "spore-agent":
			first = true // spore-agent becomes what comes here: the program of "render NAME -- PROGRAM".
		case first:
			program := strings.TrimLeft(words[0], "@-:+!|")
			if program == "" {
				return nil, errors.New("a prefix without a program")
			}
			prefix := strings.TrimSuffix(words[0], program)
			out = append(out, unitCommand{program: program, optional: strings.Contains(prefix, "-")})
			first = false
		}
	}
	return out, nil
}

// commandWords splits a command line at blanks outside of quotes. Of escapes, it reads those that keep a character what
// it is, since no path of a program needs another.
func commandWords(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	var quote byte
	inWord, escaped := false, false
	for i := range len(line) {
		c := line[i]
		switch {
		case escaped:
			word.WriteByte(c)
			escaped = false
		case c == '\\':
			inWord, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			inWord, quote = true, c
		case quote == 0 && (c == ' ' || c == '\t'):
			if inWord {
				out = append(out, word.String())
			}
			word.Reset()
			inWord = false
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%c has no end", quote)
	}
	if escaped {
		return nil, errors.New(`\ at the end`)
	}
	if inWord {
		out = append(out, word.String())
	}
	return out, nil
}
