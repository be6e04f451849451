package accountcmd

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/tree"
)

// FuzzCommands runs calls, one a line, each with white space between its arguments.
func FuzzCommands(f *testing.F) {
	for _, s := range []string{
		"adduser --system --group --home /var/lib/a a\nadduser a adm\ndeluser --remove-home a",
		"useradd -rmd /x -G adm x\nusermod -v 1-2 -aG mail x\nuserdel -r x",
		"systemd-sysusers --inline u\ngetent passwd 0\nid -Gn root\nsu -c x - root",
		"gpasswd -M a,b mail\ngroupmod -U root mail\nchfn -o a root\npasswd -S",
	} {
		f.Add(s)
	}
	fixed, err := accounts.Fixed()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, script string) {
		db := accounts.New(fixed, nil)
		fs := files.New(tree.New())
		table := Commands(db)
		names := slices.Sorted(maps.Keys(table))
		for n, line := range strings.SplitN(script, "\n", 20) {
			args := strings.Fields(line)
			if len(args) == 0 {
				continue
			}
			fn := table[args[0]]
			if fn == nil {
				args[0] = names[n%len(names)]
				fn = table[args[0]]
			}
			var out bytes.Buffer
			status, err := fn(context.Background(), &command.Call{
				Name: args[0], Args: args[1:], Dir: "/", Env: func(string) string { return "" },
				Stdin: strings.NewReader(line), Stdout: &out, Stderr: io.Discard, Files: fs,
				Run: func(context.Context, []string, io.Reader, io.Writer) (int, error) { return 0, nil },
			})
			require.True(t, status >= 0 && status < 128)
			if err != nil {
				return
			}
		}
		passwd, _, _, _ := db.Render()
		for n, row := range strings.Split(strings.TrimSuffix(string(passwd), "\n"), "\n") {
			f := strings.Split(row, ":")
			require.Len(t, f, 7, row)
			require.Equal(t, n == 0, f[2] == "0", row)
			require.Equal(t, "x", f[1], row)
		}
	})
}
