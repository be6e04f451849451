package accountcmd

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/tree"
)

// image is an image in which commands run.
type image struct {
	t     *testing.T
	db    *accounts.DB
	files *files.Files
	table command.Table
	// ran are the commands that su and the like ran, stdin what they are given.
	ran   []string
	stdin string
}

func newImage(t *testing.T) *image {
	t.Helper()
	fixed, err := accounts.Fixed()
	require.NoError(t, err)
	f := files.New(tree.New())
	for _, dir := range []string{"/etc", "/home", "/run", "/var/lib", "/etc/skel/dir", "/usr/lib/sysusers.d"} {
		require.NoError(t, f.MkdirAll(dir, 0o755))
	}
	require.NoError(t, f.WriteFile("/etc/skel/.profile", []byte("x"), 0o644))
	require.NoError(t, f.WriteFile("/etc/skel/dir/file", []byte("x"), 0o600))
	require.NoError(t, f.Symlink("x", "/etc/skel/link"))
	db := accounts.New(fixed, nil)
	return &image{t: t, db: db, files: f, table: Commands(db)}
}

// do runs a command line, which is split at white space outside of single quotes.
func (i *image) do(line string) (status int, stdout, stderr string, err error) {
	i.t.Helper()
	var args []string
	for n, part := range strings.Split(line, "'") {
		if n%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	var out, errs bytes.Buffer
	fn := i.table[args[0]]
	require.NotNil(i.t, fn, args[0])
	status, err = fn(context.Background(), &command.Call{
		Name: args[0], Args: args[1:], Dir: "/", Env: func(string) string { return "" },
		Stdin: strings.NewReader(i.stdin), Stdout: &out, Stderr: &errs, Files: i.files,
		Run: func(_ context.Context, args []string, _ io.Reader, _ io.Writer) (int, error) {
			i.ran = append(i.ran, strings.Join(args, "|"))
			return 7, nil
		},
	})
	return status, out.String(), errs.String(), err
}

// ok runs command lines that succeed.
func (i *image) ok(lines ...string) {
	i.t.Helper()
	for _, line := range lines {
		status, _, stderr, err := i.do(line)
		require.NoError(i.t, err, line)
		require.Zero(i.t, status, "%s: %s", line, stderr)
	}
}

func (i *image) user(name string) accounts.User {
	i.t.Helper()
	u, ok := i.db.User(name)
	require.True(i.t, ok, name)
	return u
}

func (i *image) group(name string) accounts.Group {
	i.t.Helper()
	g, ok := i.db.Group(name)
	require.True(i.t, ok, name)
	return g
}

func (i *image) text(file string) string {
	i.t.Helper()
	data, err := i.files.ReadFile(file)
	require.NoError(i.t, err)
	return string(data)
}
