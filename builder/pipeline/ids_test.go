package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	"spore/builder/apt"
	"spore/builder/deb/debtest"
	"spore/builder/lock"
	"spore/builder/progress"
	"spore/builder/store"
	"spore/cluster"
	"spore/cluster/spec"
)

// addWithScript adds a package that has a postinst.
func (a *debArchive) addWithScript(t *testing.T, name, postinst string) {
	t.Helper()
	a.addDeb(t, name, "1", debtest.Deb{
		Control: debtest.Control(name, "1"), Scripts: []debtest.Entry{{Name: "./postinst", Body: postinst, Mode: 0o755}},
		Data: []debtest.Entry{{Name: "./"}},
	})
}

// scriptBuild is a build that has chosen its packages, of which tcpdump makes a user and its group.
func scriptBuild(t *testing.T) (*build, *debArchive, *bytes.Buffer) {
	t.Helper()
	a := &debArchive{dir: t.TempDir()}
	a.add(t, "base", "1")
	a.addWithScript(t, "tcpdump", "adduser --system --group --quiet _tcpdump\n")
	b := isoBuild(t, a)
	b.Config, b.Tool = &cluster.Config{}, "a"
	b.packages.list = a.list
	var out bytes.Buffer
	b.Progress = progress.New(&out, time.Now)
	return b, a, &out
}

func planned(t *testing.T, b *build) *IDs {
	t.Helper()
	ids, err := b.planIDs(t.Context())
	require.NoError(t, err)
	return ids
}

func encoded(t *testing.T, l *accounts.Locked) string {
	t.Helper()
	data, err := l.Encode()
	require.NoError(t, err)
	return string(data)
}

func TestTheScriptsOfPackagesSayWhichIDsAreNew(t *testing.T) {
	b, _, out := scriptBuild(t)
	ids := planned(t, b)
	id := ids.New.Users["_tcpdump"]
	require.NotZero(t, id)
	both := map[string]uint32{"_tcpdump": id}
	require.Equal(t, &accounts.Locked{Users: both, Groups: both}, ids.New)
	require.Equal(t, ids.New, ids.All)
	number := fmt.Sprint(id)
	require.Equal(t, []lock.Change{
		{Change: lock.Added, Kind: "user", Name: "_tcpdump", New: number},
		{Change: lock.Added, Kind: "group", Name: "_tcpdump", New: number},
	}, ids.Changes())
	require.Contains(t, out.String(), "accounts\n")

	out.Reset()
	require.Equal(t, ids, planned(t, b))
	require.Empty(t, out.String(), "scripts are replayed once, and until then no package is opened")

	b.Accounts = ids.All
	locked := planned(t, b)
	require.True(t, locked.New.Empty())
	require.Empty(t, locked.Changes())
	require.Equal(t, encoded(t, ids.All), encoded(t, locked.All))
}

func TestAnImageWithoutAccountsOfItsOwnNeedsNoIDs(t *testing.T) {
	b, a, _ := scriptBuild(t)
	a.list = a.list[:1]
	a.addWithScript(t, "haproxy", "adduser --system --group haproxy\n") // which the table has
	b.packages.list = a.list
	ids := planned(t, b)
	require.True(t, ids.All.Empty())
	require.True(t, ids.New.Empty())
}

func TestIDsOfAccountsNeverMove(t *testing.T) {
	b, a, _ := scriptBuild(t)
	ids := planned(t, b)
	id := ids.New.Users["_tcpdump"]

	// A package whose name is before it and whose user has the same number by name.
	fixed, err := accounts.Fixed()
	require.NoError(t, err)
	rival := ""
	for i := 0; rival == ""; i++ {
		db, name := accounts.New(fixed, nil), fmt.Sprintf("rival%d", i)
		require.NoError(t, db.AddUser(accounts.User{Name: name}))
		if got, _ := db.UserID(name); got == id {
			rival = name
		}
	}
	a.addWithScript(t, "a-rival", "adduser --system --group "+rival+"\n")
	both := []apt.Package{a.list[2], a.list[0], a.list[1]}

	b.packages.list = both
	unlocked := planned(t, b)
	require.Equal(t, id, unlocked.New.Users[rival], "without the file, the order of packages decides")
	require.NotEqual(t, id, unlocked.New.Users["_tcpdump"])

	b.Accounts = ids.All
	kept := planned(t, b)
	require.Equal(t, id, kept.All.Users["_tcpdump"])
	require.Equal(t, []string{rival}, keys(kept.New.Users))

	b.Accounts, b.packages.list = kept.All, both[:2]
	gone := planned(t, b)
	require.True(t, gone.New.Empty())
	require.Equal(t, kept.All, gone.All, "files carry the number of a package that is gone")

	b.Accounts, b.packages.list = gone.All, both
	again := planned(t, b)
	require.True(t, again.New.Empty())
	require.Equal(t, id, again.All.Users["_tcpdump"])
}

func keys(m map[string]uint32) []string {
	var out []string
	for k := range maps.Keys(m) {
		out = append(out, k)
	}
	return out
}

func TestIDsFollowTheDecisionsOfTheConfiguration(t *testing.T) {
	b, _, _ := scriptBuild(t)
	require.Equal(t, []string{"_tcpdump"}, keys(planned(t, b).New.Users))
	b.Config.Image.Scripts = map[string]spec.ScriptDecision{
		"tcpdump": {Skip: []string{"postinst"}, Users: []spec.ScriptUser{{Name: "sniffer"}}},
	}
	require.Equal(t, []string{"sniffer"}, keys(planned(t, b).New.Users))
}

func TestIDsThatCannotBeFound(t *testing.T) {
	b, a, _ := scriptBuild(t)
	a.offline = true
	_, err := b.planIDs(t.Context())
	require.EqualError(t, err, "find the users and groups that packages make: offline")

	b, a, _ = scriptBuild(t)
	a.addWithScript(t, "bad", "exit 3\n")
	b.packages.list = a.list
	_, err = b.planIDs(t.Context())
	require.ErrorContains(t, err, "package bad: postinst: it exits with status 3")
}

var someIDs = &accounts.Locked{
	Users: map[string]uint32{"b": 202, "_a": 201}, Groups: map[string]uint32{"_a": 201},
}

func TestNewIDsAreToldAndALockedBuildTakesNone(t *testing.T) {
	for _, none := range []*accounts.Locked{nil, {}} {
		var out bytes.Buffer
		b := &build{Options: Options{Progress: progress.New(&out, time.Now), Locked: &lock.Lock{}}}
		require.NoError(t, b.tellNew(none))
		require.Empty(t, out.String())
	}
	var out bytes.Buffer
	b := &build{Options: Options{Progress: progress.New(&out, time.Now)}}
	require.NoError(t, b.tellNew(someIDs))
	require.Equal(t, "note: new ids: user _a 201, user b 202, group _a 201; run spore lock and commit accounts.yaml\n",
		out.String())

	out.Reset()
	b.Locked = &lock.Lock{}
	err := b.tellNew(someIDs)
	var mismatch *LockMismatch
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "\n  + user _a 201\n  + user b 202\n  + group _a 201\nrun spore lock --update")
	require.Empty(t, out.String())
}

func TestTheIDsOfAnImageLieBesideIt(t *testing.T) {
	b := &build{Options: Options{Out: t.TempDir()}, root: root{IDs: someIDs}}
	name := filepath.Join(b.Out, accounts.LockedFile)
	write := func(base string, fn func(io.Writer) error) error {
		f, err := os.Create(filepath.Join(b.Out, base))
		require.NoError(t, err)
		defer f.Close()
		return fn(f)
	}
	require.NoError(t, b.writeIDs(write))
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, encoded(t, someIDs), string(data))

	b.root.IDs = &accounts.Locked{}
	require.NoError(t, b.writeIDs(write))
	require.NoFileExists(t, name, "of an earlier image")
	require.NoError(t, b.writeIDs(write))
	require.NoFileExists(t, name)
}

func TestARootFromTheStoreTellsItsIDs(t *testing.T) {
	st := openTestStore(t)
	made := storedRoot(t, st, "a")
	made.root.IDs, made.root.NewIDs = someIDs, &accounts.Locked{Users: map[string]uint32{"b": 202}}
	require.NoError(t, st.Put(made.root.object(objMeta), func(w *os.File) error {
		return json.NewEncoder(w).Encode(made.root)
	}))
	again := &build{Options: Options{Store: st}, root: root{key: made.root.key}}
	stored, err := again.loadRoot()
	require.NoError(t, err)
	require.True(t, stored)
	require.Equal(t, made.root.IDs, again.root.IDs)
	require.Equal(t, map[string]uint32{"b": 202}, again.root.NewIDs.Users)
}

func TestAnUnchangedFolderTellsItsNewIDs(t *testing.T) {
	b := &build{Options: Options{Store: openTestStore(t), Out: t.TempDir()}}
	name := filepath.Join(b.Out, accounts.LockedFile)
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	require.NoError(t, b.remember("a", &Result{Accounts: name, NewIDs: someIDs}))
	r, err := b.unchanged("a")
	require.NoError(t, err)
	require.NotNil(t, r)
	require.Equal(t, someIDs, r.NewIDs)

	require.NoError(t, os.Remove(name))
	r, err = b.unchanged("a")
	require.NoError(t, err)
	require.Nil(t, r, "the file is one of those that the build left")
}

func TestOtherIDsMakeAnotherRootAndAreInTheProvenance(t *testing.T) {
	source := t.TempDir()
	for _, dir := range []string{"units", "overlay"} {
		require.NoError(t, os.Mkdir(filepath.Join(source, dir), 0o755))
	}
	key := func(l *accounts.Locked) store.Key {
		k, err := (&build{Options: Options{Config: &cluster.Config{}, Source: source, Accounts: l}}).rootKey()
		require.NoError(t, err)
		return k
	}
	require.NotEqual(t, key(nil), key(someIDs))
	require.NotEqual(t, key(someIDs), key(&accounts.Locked{Users: map[string]uint32{"b": 203}}))

	b := &build{Options: Options{Config: &cluster.Config{Accounts: []byte("users: {}\n")}, Folder: fstest.MapFS{}}}
	list, err := b.configuration()
	require.NoError(t, err)
	require.Contains(t, list, hashed("accounts.yaml", []byte("users: {}\n")))
}
