package lock

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	"spore/builder/cmd/exit"
	"spore/builder/lock"
	"spore/builder/pipeline"
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

func TestWhatBecomesOfTheIDsOfAccounts(t *testing.T) {
	update, check := flags{update: true}, flags{check: true}
	for name, c := range map[string]struct {
		lockState    string
		there, fresh bool
		flags        flags
		want         string
	}{
		"no new id":                               {outdated, true, false, update, upToDate},
		"no file":                                 {upToDate, false, true, flags{}, made},
		"no file beside a lock that is left":      {outdated, false, true, flags{}, made},
		"no file, to check":                       {upToDate, false, true, check, missing},
		"a new id":                                {upToDate, true, true, flags{}, outdated},
		"a new id, to check":                      {outdated, true, true, check, outdated},
		"a new id, to check, and no lock":         {missing, true, true, check, outdated},
		"a new id, to update":                     {updated, true, true, update, updated},
		"a new id, to update, and nothing else":   {upToDate, true, true, update, updated},
		"a new id beside a lock that is made now": {made, true, true, flags{}, updated},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, accountsState(c.lockState, c.there, c.fresh, c.flags))
		})
	}
}

// newIDs are those of a package that is new, beside the one that accounts.yaml has.
func newIDs() *pipeline.IDs {
	group := map[string]uint32{"_tcpdump": 512}
	return &pipeline.IDs{
		All: &accounts.Locked{Users: map[string]uint32{"_old": 300, "_tcpdump": 512}, Groups: group},
		New: &accounts.Locked{Users: map[string]uint32{"_tcpdump": 512}, Groups: group},
	}
}

func TestNewIDsAreChangesAndAreWrittenBeforeTheLock(t *testing.T) {
	dir := t.TempDir()
	r := Result{Lock: filepath.Join(dir, lock.Name), State: made, Changes: []lock.Change{}}
	r.addAccounts(dir, newIDs(), false, flags{})
	require.Equal(t, made, r.AccountsState)
	require.Equal(t, "+ user _tcpdump 512", r.Changes[0].String())
	require.Equal(t, "+ group _tcpdump 512", r.Changes[1].String())
	require.NoError(t, write(r, at(1, "a"), newIDs()))
	data, err := os.ReadFile(filepath.Join(dir, "accounts.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(data), "users:\n  _old: 300\n  _tcpdump: 512\ngroups:\n  _tcpdump: 512\n")
	require.FileExists(t, r.Lock)
	var out bytes.Buffer
	require.NoError(t, show(&out, r, false))
	require.Equal(t, "+ user _tcpdump 512\n+ group _tcpdump 512\nmade "+dir+"/accounts.yaml; commit it\n"+
		"made "+dir+"/image.lock: 0 packages, 0 programs, kernel \n", out.String())

	gone := filepath.Join(dir, "gone")
	r = Result{
		Lock: filepath.Join(dir, "other.lock"), State: made,
		Accounts: filepath.Join(gone, "accounts.yaml"), AccountsState: made,
	}
	require.Error(t, write(r, at(1, "a"), newIDs()))
	require.NoFileExists(t, r.Lock, "a lock without its ids would fail a later build")
}

func TestIDsAreLeftAsTheyAreWithoutUpdate(t *testing.T) {
	dir := t.TempDir()
	r := Result{Lock: filepath.Join(dir, lock.Name), State: upToDate, Changes: []lock.Change{}}
	r.addAccounts(dir, newIDs(), true, flags{})
	require.Equal(t, outdated, r.AccountsState)
	require.NoError(t, write(r, at(1, "a"), newIDs()))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, list)
	var out bytes.Buffer
	require.NoError(t, show(&out, r, false))
	require.Contains(t, out.String(), dir+"/accounts.yaml was left as it is; spore lock --update writes these changes\n")
	require.NoError(t, r.checked(flags{}))
	require.EqualError(t, r.checked(flags{check: true}), dir+"/accounts.yaml is out of date")
}

func TestAnImageWithoutAccountsOfItsOwnHasNoFileOfThem(t *testing.T) {
	r := Result{State: upToDate, Changes: []lock.Change{}}
	r.addAccounts("configs", &pipeline.IDs{All: &accounts.Locked{}, New: &accounts.Locked{}}, false, flags{update: true})
	require.Equal(t, Result{State: upToDate, Changes: []lock.Change{}}, r)
	require.NoError(t, r.checked(flags{check: true}))
	var out bytes.Buffer
	require.NoError(t, show(&out, r, true))
	require.NotContains(t, out.String(), "accounts")
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
