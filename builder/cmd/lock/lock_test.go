package lock

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/lock"
)

func at(buildTime int64, kernel string) *lock.Lock {
	return &lock.Lock{Suite: "trixie", BuildTime: buildTime, Kernel: kernel}
}

func TestWhatBecomesOfALock(t *testing.T) {
	update, check := flags{update: true}, flags{check: true}
	for name, c := range map[string]struct {
		old, now   *lock.Lock
		timeWanted int64
		flags      flags
		want       string
	}{
		"none":                        {nil, at(1, "a"), 0, flags{}, made},
		"none, to update":             {nil, at(1, "a"), 0, update, made},
		"none, to check":              {nil, at(1, "a"), 0, check, missing},
		"the same":                    {at(1, "a"), at(1, "a"), 0, update, upToDate},
		"an archive signed anew":      {at(1, "a"), at(2, "a"), 0, update, upToDate},
		"a time that was asked for":   {at(1, "a"), at(2, "a"), 2, update, updated},
		"that time, and it is there":  {at(1, "a"), at(1, "a"), 1, check, upToDate},
		"another kernel":              {at(1, "a"), at(1, "b"), 0, flags{}, outdated},
		"another kernel, to check":    {at(1, "a"), at(1, "b"), 0, check, outdated},
		"another kernel, to update":   {at(1, "a"), at(1, "b"), 0, update, updated},
		"an asked-for time, to check": {at(1, "a"), at(2, "a"), 2, check, outdated},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, state(c.old, c.now, c.timeWanted, c.flags))
		})
	}
}

func TestWhatIsPrinted(t *testing.T) {
	change := lock.Change{Change: lock.Changed, Kind: "package", Name: "curl", Old: "1", New: "2"}
	r := Result{Lock: "configs/image.lock", State: updated, Changes: []lock.Change{change}, Packages: 2, Programs: 3, Kernel: "6.12"}
	var out bytes.Buffer
	require.NoError(t, show(&out, r, false))
	require.Equal(t, "~ package curl 1 -> 2\nupdated configs/image.lock: 2 packages, 3 programs, kernel 6.12\n", out.String())
	out.Reset()
	r.State = outdated
	require.NoError(t, show(&out, r, false))
	require.Contains(t, out.String(), "configs/image.lock was left as it is; spore lock --update writes these changes\n")
	out.Reset()
	require.NoError(t, show(&out, r, true))
	var again Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &again))
	require.Equal(t, r, again)
	out.Reset()
	require.NoError(t, show(&out, Result{Lock: "l", State: upToDate}, false))
	require.Equal(t, "l is up to date\n", out.String())
}

func TestWrongUse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"lock", "--update", "--check"}, exit.Misuse, "leave one of them out"},
		{[]string{"lock", "a", "b"}, exit.Misuse, "accepts at most 1 arg"},
		{[]string{"lock", t.TempDir(), "--cache", t.TempDir()}, exit.Failed, "nothing was locked"},
	} {
		root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
		root.AddCommand(Command("0"))
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(c.args)
		require.Equal(t, c.code, exit.Run(t.Context(), root))
		require.Contains(t, out.String(), c.text)
	}
}
