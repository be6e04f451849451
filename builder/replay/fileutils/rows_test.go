package fileutils

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/tree"
)

var update = flag.Bool("update", false, "write what the rows of testdata/ give into them, to be read before a commit")

// A row of testdata/*.rows is a command line and what it does to a tree. Its lines are told apart by their first
// letter:
//
//	# name
//	< type mode uid:gid path [data or target]   what is there before, in the working directory /w
//	$ command line
//	= status
//	1 a line of standard output
//	2 a line of standard error
//	! an error that ends the replay
//	> what is there after it and was not before, or "> - path" for what is gone
//	~ why the host's own command is not asked
//
// The lines before the first row are for all rows of the file that have no "<" of their own.
type row struct {
	name, line, host string
	before           []string
	result           []string
}

func readRows(t *testing.T, file string) (common []string, rows []*row) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, line := range strings.Split(string(data), "\n") {
		if line == "" {
			continue
		}
		if line[0] == '#' {
			rows = append(rows, &row{name: strings.TrimSpace(line[1:])})
			continue
		}
		if len(rows) == 0 {
			common = append(common, line[2:])
			continue
		}
		r := rows[len(rows)-1]
		switch line[0] {
		case '<':
			r.before = append(r.before, line[2:])
		case '$':
			r.line = line[2:]
		case '~':
			r.host = line[2:]
		default:
			r.result = append(r.result, line)
		}
	}
	return common, rows
}

func writeRows(t *testing.T, file string, common []string, rows []*row) {
	t.Helper()
	var out strings.Builder
	for _, line := range common {
		fmt.Fprintf(&out, "< %s\n", line)
	}
	for _, r := range rows {
		fmt.Fprintf(&out, "\n# %s\n", r.name)
		for _, line := range r.before {
			fmt.Fprintf(&out, "< %s\n", line)
		}
		if r.host != "" {
			fmt.Fprintf(&out, "~ %s\n", r.host)
		}
		fmt.Fprintf(&out, "$ %s\n", r.line)
		for _, line := range r.result {
			fmt.Fprintln(&out, line)
		}
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.TrimPrefix(out.String(), "\n")), 0o644))
}

// hostNames are accounts that every Debian has under these numbers.
type hostNames struct{}

func accounts() map[string]uint32 {
	return map[string]uint32{"root": 0, "daemon": 1, "bin": 2, "mail": 8, "www-data": 33}
}

func (hostNames) UserID(name string) (uint32, bool) {
	id, ok := accounts()[name]
	return id, ok
}

func (n hostNames) GroupID(name string) (uint32, bool) { return n.UserID(name) }

func (hostNames) UserName(id uint32) string {
	for name, have := range accounts() {
		if have == id {
			return name
		}
	}
	return ""
}

func (n hostNames) GroupName(id uint32) string { return n.UserName(id) }

func (n hostNames) PrimaryGroup(user string) (uint32, bool) { return n.UserID(user) }

const now = 1_700_000_000

// filesOf makes the filesystem of a row: /w with what is there before, and /tmp.
func filesOf(t *testing.T, lines []string) *files.Files {
	t.Helper()
	tr := tree.New()
	require.NoError(t, tr.Mkdir("/w", 0o755))
	require.NoError(t, tr.Add("/tmp", &tree.Inode{Type: tree.Dir, Mode: 0o1777}))
	for i, line := range lines {
		f := strings.SplitN(line, " ", 5)
		require.GreaterOrEqual(t, len(f), 4, line)
		p, data := path.Join("/w", f[3]), ""
		if len(f) == 5 {
			data = f[4]
		}
		mode, err := strconv.ParseUint(f[1], 8, 32)
		require.NoError(t, err)
		uid, gid, _ := strings.Cut(f[2], ":")
		n := &tree.Inode{Mode: uint32(mode), UID: id(t, uid), GID: id(t, gid), MTime: 1_600_000_000 + int64(i)}
		switch f[0] {
		case "d":
			n.Type = tree.Dir
		case "f":
			n.Type, n.Content = tree.Regular, tree.Bytes(strings.ReplaceAll(data, `\n`, "\n"))
		case "l":
			n.Type, n.Target = tree.Symlink, data
		case "p":
			n.Type = tree.Fifo
		case "h": // another name of data
			n, err = tr.Lstat(path.Join("/w", data))
			require.NoError(t, err)
		}
		require.NoError(t, tr.Add(p, n))
	}
	f := files.New(tr)
	f.MTime = now
	return f
}

func id(t *testing.T, text string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err)
	return uint32(n)
}

// list is a tree below /w in the form of the rows; later names of an inode are "h" with the first.
func list(t *testing.T, f *files.Files) []string {
	t.Helper()
	var out []string
	first := map[*tree.Inode]string{}
	require.NoError(t, f.Tree().Walk(func(p string, n *tree.Inode) error {
		name, below := strings.CutPrefix(p, "/w/")
		if p == "/w" || p == "/" || p == "/tmp" {
			return nil
		}
		if !below {
			name = p
		}
		line := fmt.Sprintf("%s %04o %d:%d %s", strings.Replace(typeLetter(n.Type), "-", "f", 1), n.Mode, n.UID,
			n.GID, name)
		if have, ok := first[n]; ok {
			out = append(out, "h"+line[1:]+" "+have)
			return nil
		}
		first[n] = name
		switch n.Type {
		case tree.Regular:
			data, err := f.ReadFile(p)
			require.NoError(t, err)
			if len(data) > 0 {
				line += " " + strings.ReplaceAll(string(data), "\n", `\n`)
			}
			for _, x := range n.Xattrs {
				line += fmt.Sprintf(" %s=%x", x.Name, x.Value)
			}
		case tree.Symlink:
			line += " " + n.Target
		}
		out = append(out, line)
		return nil
	}))
	return out
}

func nameIn(line string) string { return strings.SplitN(line, " ", 5)[3] }

// changes are the lines of a tree that are new, and the names that are gone.
func changes(before, after []string) []string {
	var out []string
	left := map[string]bool{}
	for _, line := range after {
		left[nameIn(line)] = true
		if !slices.Contains(before, line) {
			out = append(out, "> "+line)
		}
	}
	for _, line := range before {
		if !left[nameIn(line)] {
			out = append(out, "> - "+nameIn(line))
		}
	}
	return out
}

// words splits a command line as a shell does, with quotes and backslashes; "< text" at its end is standard input.
func words(line string) (args []string, stdin string) {
	line, stdin, _ = strings.Cut(line, " <<< ")
	var word []byte
	in := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ':
			if in {
				args = append(args, string(word))
			}
			word, in = nil, false
		case c == '\'':
			end := i + 1 + strings.IndexByte(line[i+1:], '\'')
			word, in = append(word, line[i+1:end]...), true
			i = end
		case c == '\\' && i+1 < len(line):
			i++
			word, in = append(word, line[i]), true
		default:
			word, in = append(word, c), true
		}
	}
	if in {
		args = append(args, string(word))
	}
	return args, strings.NewReplacer(`\n`, "\n", `\0`, "\x00").Replace(stdin)
}

// outcome is what a run gives, in the lines of a row.
func outcome(status int, stdout, stderr string, err error, before, after []string) []string {
	if err != nil {
		return append([]string{"! " + err.Error()}, changes(before, after)...)
	}
	out := []string{fmt.Sprintf("= %d", status)}
	for _, part := range []struct{ mark, text string }{{"1", stdout}, {"2", stderr}} {
		if part.text == "" {
			continue
		}
		text := strings.NewReplacer("\x00", `\0`).Replace(part.text)
		cut, ended := strings.CutSuffix(text, "\n")
		for _, line := range strings.Split(cut, "\n") {
			out = append(out, strings.TrimRight(part.mark+" "+line, " "))
		}
		if !ended {
			out[len(out)-1] += `\c`
		}
	}
	return append(out, changes(before, after)...)
}

// runLine runs a command line on a filesystem.
func runLine(f *files.Files, line string) (status int, stdout, stderr string, err error) {
	args, stdin := words(line)
	return run(context.Background(), f, args, stdin)
}

func runFind(f *files.Files, args []string) (status int, stdout, stderr string, err error) {
	return run(context.Background(), f, append([]string{"find", "."}, args...), "")
}

// runEnded runs a command line whose time is over.
func runEnded(f *files.Files, line string) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	args, stdin := words(line)
	_, _, _, err := run(ctx, f, args, stdin)
	return err
}

func run(ctx context.Context, f *files.Files, args []string, stdin string) (status int, stdout, stderr string,
	err error) {
	table := Commands(hostNames{})
	table["echo"] = func(_ context.Context, c *command.Call) (int, error) {
		fmt.Fprintln(c.Stdout, strings.Join(c.Args, " "))
		return 0, nil
	}
	table["false"] = func(context.Context, *command.Call) (int, error) { return 1, nil }
	var out, errs bytes.Buffer
	c := &command.Call{Name: args[0], Args: args[1:], Dir: "/w", Umask: 0o022, Env: func(string) string { return "" },
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Files: f}
	c.Run = func(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
		run, ok := table[args[0]]
		if !ok {
			return 127, nil
		}
		inner := *c
		inner.Name, inner.Args, inner.Stdin, inner.Stdout = args[0], args[1:], stdin, stdout
		return run(ctx, &inner)
	}
	status, err = table[args[0]](ctx, c)
	return status, out.String(), errs.String(), err
}

func rowFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("testdata/*.rows")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func TestCommandsDoToATreeWhatTheRowsSay(t *testing.T) {
	for _, file := range rowFiles(t) {
		common, rows := readRows(t, file)
		for _, r := range rows {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".rows")+"/"+r.name, func(t *testing.T) {
				before := r.before
				if len(before) == 0 {
					before = common
				}
				f := filesOf(t, before)
				old := list(t, f)
				status, stdout, stderr, err := runLine(f, r.line)
				got := outcome(status, stdout, stderr, err, old, list(t, f))
				if *update {
					r.result = got
					return
				}
				require.Equal(t, r.result, got, r.line)
			})
		}
		if *update {
			writeRows(t, file, common, rows)
		}
	}
}
