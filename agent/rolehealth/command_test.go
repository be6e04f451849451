package rolehealth

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/cluster/role"
)

// asks is a role whose health is a command.
func asks(words ...string) *role.Definition {
	return &role.Definition{Name: "x", User: &role.User{Name: "x"}, Health: &role.Health{Command: words}}
}

func at(seconds float64) func() float64 { return func() float64 { return seconds } }

func TestACommandSaysWhetherARoleIsWell(t *testing.T) {
	for name, tc := range map[string]struct {
		words     []string
		now       float64
		want, err string
	}{
		"well":                 {[]string{"true"}, 20, "is well by true", ""},
		"not well":             {[]string{"sh", "-c", "echo NOAUTH; echo more; exit 3"}, 20, "", "sh: exit status 3: NOAUTH"},
		"not well and silent":  {[]string{"false"}, 20, "", "false: exit status 1"},
		"letters of terminals": {[]string{"sh", "-c", "printf '\\033[31mred'; exit 1"}, 20, "", "sh: exit status 1:  [31mred"},
		"no such program":      {[]string{"spore-no-such-program"}, 20, "", `spore-no-such-program: exec: "spore-no-such-program": executable file not found in $PATH`},
		"long ago":             {[]string{"true"}, 200, "", "its command was not run within 150 s"},
		"in the future":        {[]string{"true"}, 1, "", "its command was not run within 150 s"},
	} {
		t.Run(name, func(t *testing.T) {
			d, run := asks(tc.words...), t.TempDir()
			dir := filepath.Join(run, d.HealthName())
			require.NoError(t, os.Mkdir(dir, 0o755))
			require.NoError(t, Run(t.Context(), d, dir, at(10)))
			got, err := Asker{Results: run, SinceBoot: at(tc.now)}.Ask(t.Context(), d)
			require.Equal(t, tc.want, got)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
	require.EqualError(t, Run(t.Context(), &role.Definition{Name: "x"}, t.TempDir(), at(1)), "ask the role x for its health: it has no command for that")
}

func TestWhatTheUserOfARoleLeavesIsReadWithCare(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, file string)
		err     string
	}{
		"nothing": {func(*testing.T, string) {}, "its command was not run yet"},
		"a pipe":  {func(t *testing.T, file string) { require.NoError(t, unix.Mkfifo(file, 0o644)) }, "it is not a file"},
		"a link":  {func(t *testing.T, file string) { require.NoError(t, os.Symlink("/dev/zero", file)) }, "read what its command says"},
		"a large file": {func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, make([]byte, maxResult+1), 0o644))
		}, "read what its command says"},
		"no JSON": {func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, []byte("x"), 0o644)) }, "what its command says cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			d, run := asks("true"), t.TempDir()
			ask := Asker{Results: run, SinceBoot: at(1)}
			_, err := ask.Ask(t.Context(), d)
			require.EqualError(t, err, "its command was not run yet", "there is no directory")
			dir := filepath.Join(run, d.HealthName())
			require.NoError(t, os.Mkdir(dir, 0o755))
			tc.prepare(t, filepath.Join(dir, resultFile))
			_, err = ask.Ask(t.Context(), d)
			require.ErrorContains(t, err, tc.err)
		})
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte(`{"at":1,"problem":"x"}`))
	f.Add([]byte(`{"at":1e308}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := judge(data, 10, "x")
		if err != nil {
			require.Empty(t, text)
			require.NotRegexp(t, "[\\x00-\\x1f]", err.Error())
		}
	})
}
