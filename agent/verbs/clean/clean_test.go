package clean

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/share"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/storage/pieces"
	"spore/wire/nodeapi"
)

// filled is a machine with files of half a MiB, by name, each a minute younger than the one before.
func filled(t *testing.T, names ...string) *node.Machine {
	t.Helper()
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	require.NoError(t, os.MkdirAll(m.Root.At("/var"), 0o755))
	for i, name := range names {
		path := m.Root.At(name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, make([]byte, mib/2), 0o600))
		at := time.Unix(1_790_000_000, 0).Add(time.Duration(i) * time.Minute)
		require.NoError(t, os.Chtimes(path, at, at))
	}
	return m
}

func call(t *testing.T, m *node.Machine, verb string, handle verbs.Handler, o nodeapi.Order) (Answer, verbstest.Answer) {
	t.Helper()
	a := verbstest.Call(t, m, verb, o, handle)
	var out Answer
	if len(a.Results) > 0 {
		require.NoError(t, json.Unmarshal(a.Results[0], &out))
	}
	return out, a
}

func listed(a Answer) (out []string) {
	for _, t := range a.Things {
		out = append(out, t.Path)
	}
	return out
}

const (
	journal = "/var/log/journal/0a1b/"
	oldest  = journal + "system@0006-01.journal"
	crashed = journal + "system@0006-02.journal~"
	younger = journal + "user-1000@0006-03.journal"
	written = journal + "system.journal"
)

func TestTheOldestOfTheClosedJournalsGo(t *testing.T) {
	for keep, want := range map[int64][]string{
		4: {}, 2: {}, 1: {oldest, crashed}, 0: {oldest, crashed, younger},
	} {
		m := filled(t, oldest, crashed, younger, written)
		var got []string
		for _, j := range journals(m, keep*mib) {
			got = append(got, j.Path)
		}
		require.ElementsMatch(t, want, got, "keep %d MiB", keep)
	}
}

func TestWhatTheNodeCanDoWithoutIsRemoved(t *testing.T) {
	const dump = "/var/lib/systemd/coredump/core.x"
	const kept, former = "/var/lib/kafka/metadata/log", "/var/lib/kafka/metadata.given-up/log"
	m := filled(t, dump, kept, former)
	shelf, piece := shelved(t, m)
	require.NoError(t, shelf.End())
	a, told := call(t, m, "clean", Clean, nodeapi.Order{DryRun: true})
	require.NoError(t, told.Err)
	require.Equal(t, []string{dump, filepath.Dir(piece)}, listed(a))
	require.Contains(t, told.Done, "would remove 2 files and folders with 1 MiB; /var has ")
	require.FileExists(t, m.Root.At(dump))
	require.Equal(t, "/var/lib/kafka", a.Folders[0].Path, "it takes most")
	require.GreaterOrEqual(t, a.Folders[0].Bytes, int64(mib))

	_, told = call(t, m, "clean", Clean, nodeapi.Order{})
	require.NoError(t, told.Err)
	require.Contains(t, told.Done, "removed 2 files and folders with 1 MiB; /var has ")
	require.NoFileExists(t, m.Root.At(dump))
	require.NoFileExists(t, m.Root.At(piece))
	require.FileExists(t, m.Root.At(kept))
	require.FileExists(t, m.Root.At(former))
}

// shelved is the shelf of a machine that fetches an update, with a piece of half a MiB, and where that lies.
func shelved(t *testing.T, m *node.Machine) (shelf *share.Shelf, piece string) {
	t.Helper()
	content := make([]byte, mib/2)
	shelf = &share.Shelf{Dir: m.Root.At(paths.FetchedPieces), Limit: mib, Free: func() int64 { return 1 << 40 }}
	require.NoError(t, shelf.Begin("head"))
	kept, err := shelf.Put(pieces.SumOf(content), content)
	require.NoError(t, err)
	require.True(t, kept)
	piece = paths.FetchedPieces + "/pieces/" + pieces.SumOf(content).String()
	require.FileExists(t, m.Root.At(piece))
	return shelf, piece
}

func TestPiecesOfAnUpdateThatIsStillFetchedStay(t *testing.T) {
	for name, ended := range map[string]string{"nothing has ended": "", "another one has": "before"} {
		t.Run(name, func(t *testing.T) {
			m := filled(t)
			_, piece := shelved(t, m)
			if ended != "" {
				require.NoError(t, os.WriteFile(m.Root.At(paths.FetchedPieces+"/ended"), []byte(ended), 0o600))
			}
			_, told := call(t, m, "clean", Clean, nodeapi.Order{})
			require.NoError(t, told.Err)
			require.FileExists(t, m.Root.At(piece))
		})
	}
}

func TestANodeFetchesAgainAfterItsPiecesWereRemoved(t *testing.T) {
	m := filled(t)
	shelf, piece := shelved(t, m)
	require.NoError(t, shelf.End())
	_, told := call(t, m, "clean", Clean, nodeapi.Order{})
	require.NoError(t, told.Err)
	require.NoFileExists(t, m.Root.At(piece))
	_, again := shelved(t, m)
	require.FileExists(t, m.Root.At(again))
}

func TestAnAnswerNamesSoManyAndNoneThatStayed(t *testing.T) {
	m := filled(t)
	dir := "/var/lib/systemd/coredump"
	require.NoError(t, os.MkdirAll(m.Root.At(dir), 0o755))
	for i := range maxThings + 2 {
		require.NoError(t, os.WriteFile(m.Root.At(fmt.Sprintf("%s/core.%04d", dir, i)), nil, 0o600))
	}
	a, told := call(t, m, "clean", Clean, nodeapi.Order{DryRun: true})
	require.NoError(t, told.Err)
	require.Len(t, a.Things, maxThings)
	require.Contains(t, told.Done, fmt.Sprintf("would remove %d files", maxThings+2))
	freeze(t, m.Root.At(dir))
	a, told = call(t, m, "clean", Clean, nodeapi.Order{})
	require.ErrorContains(t, told.Err, "remove "+dir+"/core.0000")
	require.ErrorContains(t, told.Err, fmt.Sprintf("\nand %d more", maxThings+2-maxFailed))
	require.Empty(t, a.Things)
}

// freeze has nobody remove what is in a directory until the test ends, root neither (ioctl_iflags(2), FS_IMMUTABLE_FL).
func freeze(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		require.NoError(t, os.Chmod(dir, 0o500))
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return
	}
	const immutable = 0x10
	f, err := os.Open(dir)
	require.NoError(t, err)
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	t.Cleanup(func() {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
		f.Close()
	})
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|immutable)
	}
	if err != nil {
		t.Skip("the file system of the test's folders keeps nothing from root: " + err.Error())
	}
}

func TestFormerDataGoesWhenTheNodeWasRepeated(t *testing.T) {
	const kept = "/var/lib/etcd/member/snap/db"
	m := filled(t, kept, "/var/lib/etcd/given-up-20261122T050441Z/db", "/var/lib/etcd/member.given-up/db",
		"/var/lib/kafka/metadata.given-up-2/log", "/var/lib/ceph/mon/ceph-a.given-up/store.db/x")
	_, told := call(t, m, "clean-given-up", GivenUp, nodeapi.Order{Confirm: "node-00001"})
	require.ErrorContains(t, told.Err, "nothing was deleted")
	a, told := call(t, m, "clean-given-up", GivenUp, nodeapi.Order{DryRun: true})
	require.NoError(t, told.Err)
	require.Equal(t, []string{
		"/var/lib/ceph/mon/ceph-a.given-up", "/var/lib/etcd/given-up-20261122T050441Z", "/var/lib/etcd/member.given-up",
		"/var/lib/kafka/metadata.given-up-2",
	}, listed(a))
	_, told = call(t, m, "clean-given-up", GivenUp, nodeapi.Order{Confirm: "node-00000"})
	require.NoError(t, told.Err)
	for _, path := range listed(a) {
		require.NoDirExists(t, m.Root.At(path))
	}
	require.FileExists(t, m.Root.At(kept))
}

func TestFormerDataStaysWhileAVerbMayPutItBack(t *testing.T) {
	const former = "/var/lib/kafka/metadata.given-up/log"
	for _, family := range []string{"etcd", "quorum"} {
		m := filled(t, former)
		end, err := verbs.For(m, nil, nil, nodeapi.Order{}, nil).Without(family)
		require.NoError(t, err)
		_, told := call(t, m, "clean-given-up", GivenUp, nodeapi.Order{Confirm: "node-00000"})
		require.ErrorContains(t, told.Err, family+" is under way already")
		require.FileExists(t, m.Root.At(former))
		end()
		_, told = call(t, m, "clean-given-up", GivenUp, nodeapi.Order{Confirm: "node-00000"})
		require.NoError(t, told.Err)
		require.NoFileExists(t, m.Root.At(former))
	}
}

func TestALinkIsRemovedAndNotFollowed(t *testing.T) {
	const outside = "/var/lib/mosquitto/data"
	m := filled(t, outside)
	require.NoError(t, os.MkdirAll(m.Root.At("/var/lib/kafka"), 0o755))
	require.NoError(t, os.Symlink(m.Root.At("/var/lib/mosquitto"), m.Root.At("/var/lib/kafka/x.given-up")))
	a, told := call(t, m, "clean-given-up", GivenUp, nodeapi.Order{Confirm: "node-00000"})
	require.NoError(t, told.Err)
	require.Equal(t, []string{"/var/lib/kafka/x.given-up"}, listed(a))
	require.FileExists(t, m.Root.At(outside))
	require.NoFileExists(t, m.Root.At("/var/lib/kafka/x.given-up"))
}
