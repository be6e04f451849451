package fileutils

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/builder/tree"
)

// halfYear in seconds is how old a file may be for ls -l to show the hour and not the year.
const halfYear = 31556952 / 2

type lister struct {
	*job
	all, almostAll, dirs, long, numeric, noOwner, noGroup, recursive, reverse, classify, follow bool
	style                                                                                       string
	printed, versions                                                                           bool
}

type entry struct {
	name, path string
	n          *tree.Inode
}

func ls(j *job) error {
	o, err := j.options("1 v a|all A|almost-all d|directory l n|numeric-uid-gid g o G|no-group R|recursive "+
		"r|reverse F|classify? "+
		"L|dereference U N|literal color? time-style= full-time b|escape q|hide-control-chars", permuted)
	if err != nil {
		return err
	}
	l := &lister{job: j, all: o.lastOf("a", "A") == "a", almostAll: o.has("A"), dirs: o.has("d"), numeric: o.has("n"),
		long: o.has("l") || o.has("n") || o.has("g") || o.has("o") || o.has("full-time"), noOwner: o.has("g"),
		noGroup: o.has("o") || o.has("G"), recursive: o.has("R"), reverse: o.has("r"), classify: o.has("F"),
		follow: o.has("L"), versions: o.has("v")}
	if when, _ := o.last("color"); when == "always" || o.has("color") && when == "" {
		return j.unknown("--color=always")
	}
	l.style, _ = o.last("time-style")
	if o.has("full-time") {
		l.style = "full-iso"
	}
	if l.style != "" && !slices.Contains([]string{"+%s", "long-iso", "full-iso", "locale", "iso"}, l.style) ||
		l.style == "iso" {
		return j.unknown("--time-style=" + l.style)
	}
	operands := o.operands
	if len(operands) == 0 {
		operands = []string{"."}
	}
	return l.operands(operands)
}

// operands lists files first and then what is in directories, each part sorted.
func (l *lister) operands(names []string) error {
	var plain, dirs []entry
	for _, name := range names {
		// A link to a directory among the operands is followed, but not by -l, -d and -F.
		n, err := l.look(name, l.follow || !l.long && !l.dirs && !l.classify)
		if err != nil && !hard(err) && !l.follow {
			n, err = l.lstat(name)
		}
		if err != nil {
			err := l.soft(err, "cannot access '%s'", name)
			l.status = 2
			if err != nil {
				return err
			}
			continue
		}
		if n.Type == tree.Dir && !l.dirs {
			dirs = append(dirs, entry{name, l.abs(name), n})
			continue
		}
		if !l.follow {
			if link, err := l.lstat(name); err == nil {
				n = link
			}
		}
		plain = append(plain, entry{name, l.abs(name), n})
	}
	l.sort(plain)
	l.sort(dirs)
	l.entries(plain)
	heading := l.recursive || len(names) > 1
	for _, d := range dirs {
		if err := l.dir(d, heading); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) sort(entries []entry) {
	order := strings.Compare
	if l.versions {
		order = byVersion
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return order(a.name, b.name) })
	if l.reverse {
		slices.Reverse(entries)
	}
}

// byVersion compares names with their numbers as numbers, as -v does. Of names that differ in zeros before a number,
// the longer one is first.
func byVersion(a, b string) int {
	for x, y := a, b; x != "" && y != ""; {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return strings.Compare(a, b)
}

// digits is how many digits a text begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

func (l *lister) dir(d entry, heading bool) error {
	names, err := l.children(d.path)
	if err != nil {
		return l.soft(err, "cannot open directory '%s'", d.name)
	}
	if l.printed {
		l.print("\n")
	}
	if heading {
		l.print(d.name + ":\n")
		l.printed = true
	}
	if l.all {
		names = append([]string{".", ".."}, names...)
	}
	var entries []entry
	for _, name := range names {
		if strings.HasPrefix(name, ".") && !l.all && !l.almostAll {
			continue
		}
		p := path.Join(d.path, name)
		n, err := l.Files.Lstat(p)
		if err == nil && (l.follow || name == "." || name == "..") {
			if to, err := l.Files.Stat(p); err == nil {
				n = to
			}
		}
		if err == nil {
			entries = append(entries, entry{name, p, n})
		}
	}
	l.sort(entries)
	if l.long {
		var blocks int64
		for _, e := range entries {
			blocks += kilobytes(e.n)
		}
		l.printf("total %d\n", blocks)
	}
	l.entries(entries)
	if !l.recursive {
		return nil
	}
	for _, e := range entries {
		if e.n.Type == tree.Dir && e.name != "." && e.name != ".." {
			if err := l.dir(entry{join(d.name, e.name), e.path, e.n}, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lister) entries(entries []entry) {
	if len(entries) > 0 {
		l.printed = true
	}
	if !l.long {
		for _, e := range entries {
			l.print(e.name + l.mark(e.n) + "\n")
		}
		return
	}
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, l.row(e))
	}
	widths := make([]int, 5)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], len(row[i]))
		}
	}
	for i, row := range rows {
		line := fmt.Sprintf("%s %*s", row[0], widths[1], row[1])
		if !l.noOwner {
			line += fmt.Sprintf(" %s", pad(row[2], widths[2], l.numeric))
		}
		if !l.noGroup {
			line += fmt.Sprintf(" %s", pad(row[3], widths[3], l.numeric))
		}
		line += fmt.Sprintf(" %*s %s %s", widths[4], row[4], row[5], entries[i].name)
		if n := entries[i].n; n.Type == tree.Symlink {
			line += " -> " + n.Target
		} else {
			line += l.mark(n)
		}
		l.print(line + "\n")
	}
}

func pad(text string, width int, right bool) string {
	if right {
		return fmt.Sprintf("%*s", width, text)
	}
	return fmt.Sprintf("%-*s", width, text)
}

func (l *lister) row(e entry) []string {
	owner, group := l.userName(e.n.UID), l.groupName(e.n.GID)
	if l.numeric {
		owner, group = strconv.FormatUint(uint64(e.n.UID), 10), strconv.FormatUint(uint64(e.n.GID), 10)
	}
	length := strconv.FormatInt(size(e.n), 10)
	if e.n.Type == tree.CharDevice || e.n.Type == tree.BlockDevice {
		length = fmt.Sprintf("%d, %d", e.n.Major, e.n.Minor)
	}
	return []string{modeText(e.n), strconv.Itoa(l.linkCount(e.n)), owner, group, length, l.time(e.n.MTime)}
}

// time is the time stamp in the form that is asked for, in UTC; "now" is the time of the replay.
func (l *lister) time(mtime int64) string {
	t := time.Unix(mtime, 0).UTC()
	switch l.style {
	case "+%s":
		return strconv.FormatInt(mtime, 10)
	case "long-iso":
		return t.Format("2006-01-02 15:04")
	case "full-iso":
		return t.Format("2006-01-02 15:04:05.000000000 -0700")
	}
	if mtime > l.Files.MTime || l.Files.MTime-mtime >= halfYear {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}

func (l *lister) mark(n *tree.Inode) string {
	if !l.classify {
		return ""
	}
	switch {
	case n.Type == tree.Dir:
		return "/"
	case n.Type == tree.Symlink:
		return "@"
	case n.Type == tree.Fifo:
		return "|"
	case n.Type == tree.Regular && n.Mode&0o111 != 0:
		return "*"
	}
	return ""
}

// kilobytes is what a file takes on a filesystem with blocks of 4 KiB.
func kilobytes(n *tree.Inode) int64 {
	if n.Type == tree.Symlink {
		return 0
	}
	return (size(n) + 4095) / 4096 * 4
}
