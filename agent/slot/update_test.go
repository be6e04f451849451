package slot

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
	"spore/storage/pieces"
	"spore/wire/update"
)

var (
	newRoot = makeRoot("kernel2 libc openssl2 systemd coredns mosquitto more")
	// updated is another root with the same configuration, both is another root and another configuration.
	updated = oldSystem.withRoot(newRoot, "")
	both    = newSystem.withRoot(newRoot, "")
)

func sizeOf(list [][]byte) (n int) {
	for _, o := range list {
		n += len(o)
	}
	return n
}

// become has a machine start what the loader starts next, and stay with it.
func become(t *testing.T, disk *medium, m *Machine, systems ...system) (*Machine, system) {
	t.Helper()
	s, e := boots(t, disk, systems...)
	record, work := m.Record, m.Work
	m = machineOf(t, disk, s)
	m.Record, m.Work = record, work
	require.NoError(t, m.Rename(e, e.Good()))
	r, err := ReadRecord(record)
	require.NoError(t, err)
	require.True(t, r.Is(s.root.hash, s.hash))
	r.State = Kept
	writeRecord(m, r)
	return m, s
}

// guids are those of the partitions, by their numbers.
func guids(t *testing.T, d *medium) map[int]gpt.GUID {
	t.Helper()
	table, err := gpt.Read(window{d, 0, diskSize, false}, diskSize, 512)
	require.NoError(t, err)
	out := map[int]gpt.GUID{}
	for _, p := range table.Partitions {
		out[p.Number] = p.GUID
	}
	return out
}

func TestAPushedRootIsStartedNextAndOnlyWhatChangedIsSent(t *testing.T) {
	for name, s := range map[string]system{"with the same configuration": updated, "with another configuration": both} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			before := guids(t, disk)
			m := machineOf(t, disk, oldSystem)
			p := s.pusher(t, 7, nil)
			got, err := p.run(t, m)
			require.NoError(t, err)
			next, e := boots(t, disk, oldSystem, s)
			require.Equal(t, newRoot.hash, next.root.hash)
			require.Equal(t, s.hash, next.hash)
			require.Equal(t, got.Entry, e.File())
			require.True(t, got.NewRoot)
			require.Empty(t, got.Device)
			require.NoDirExists(t, m.Work)

			// Of seven files of the root three are others, and the last piece, where the length is another one.
			var root [][]byte
			for _, o := range p.sent {
				for _, x := range s.root.index {
					if x.Same(o) {
						root = append(root, o)
					}
				}
			}
			fresh := makeRoot("kernel2 openssl2 more")
			require.LessOrEqual(t, sizeOf(root), len(fresh.data)+4096)
			require.NotEmpty(t, root)
			require.Len(t, p.sent, len(slices.CompactFunc(p.sent, bytes.Equal)), "nothing is sent twice")

			r, err := ReadRecord(m.Record)
			require.NoError(t, err)
			require.Equal(t, Record{
				Serial: 7, Issued: time.Unix(1_800_000_000, 0).UTC(), ClusterHash: s.hash, RootHash: newRoot.hash, Previous: oldSystem.hash,
				PreviousRoot: rootHash, NewKernel: true, Entry: e.Stem, State: Staged, BootID: "boot",
			}, r)
			require.True(t, r.NewSystem())
			info := InfoOf(r, rootHash, oldSystem.hash, "boot", false)
			require.Equal(t, s.hash, info.Staged)
			require.Equal(t, newRoot.hash, info.StagedRoot)
			info = InfoOf(r, newRoot.hash, s.hash, "later", true)
			require.True(t, info.Trial)
			require.Equal(t, rootHash, info.OtherRoot)

			// The index of the new root lies behind its tree, for the next update.
			x, err := pieces.ReadAt(window{disk, treeB, mib, false}, int64(len(newRoot.tree)))
			require.NoError(t, err)
			require.Equal(t, newRoot.index, x)
			after := guids(t, disk)
			for _, n := range []int{1, 2, 3, 4} {
				require.Equal(t, before[n], after[n], "what runs is not touched")
			}
			if s.hash == oldSystem.hash {
				require.Equal(t, before[7], after[7], "one cluster part serves both")
			}
		})
	}
}

// Root and configuration take turns on their own: a root in A may run with a cluster part in B.
func TestUpdatesOfRootAndConfigurationFollowEachOther(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	third := makeRoot("kernel2 libc openssl3 systemd coredns")
	c := func(text string, r rootFS) system { return makeSystem(text, "").withRoot(r, "") }
	runs := oldSystem
	for i, next := range []system{
		c("1", someRoot), c("1", newRoot), c("2", newRoot), c("3", newRoot), c("3", third), c("4", someRoot), c("5", someRoot), c("6", newRoot), c("6", someRoot), c("7", someRoot),
	} {
		p := next.pusher(t, uint64(i+1), nil)
		p.wish.GiveUp = true
		got, err := p.run(t, m)
		require.NoError(t, err, i)
		require.Equal(t, runs.root.hash != next.root.hash, got.NewRoot)
		s, _ := boots(t, disk, runs, next)
		require.Equal(t, next.hash, s.hash)
		require.Equal(t, next.root.hash, s.root.hash)
		require.Len(t, entriesOf(t, disk), 2)
		m, runs = become(t, disk, m, runs, next)
	}
}

func TestARootThatIsThereAlreadyIsNotSentAgain(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	_, err := both.push(t, m, 1, nil)
	require.NoError(t, err)
	rootSent := func(p *pusher) bool {
		return slices.ContainsFunc(p.sent, func(o []byte) bool {
			return bytes.Equal(o, encoded(newRoot.index)) || slices.ContainsFunc(newRoot.index, func(x pieces.Piece) bool { return x.Same(o) })
		})
	}
	t.Run("staged, and pushed again", func(t *testing.T) {
		disk.ops = nil
		p := both.pusher(t, 2, nil)
		got, err := p.run(t, m)
		require.NoError(t, err)
		require.Empty(t, p.sent)
		require.Empty(t, disk.ops)
		_, e := boots(t, disk, oldSystem, both)
		require.Equal(t, e.File(), got.Entry)
		require.False(t, got.Unchanged, "it waits for a start")
		r, err := ReadRecord(m.Record)
		require.NoError(t, err)
		require.EqualValues(t, 2, r.Serial)
		_, err = both.push(t, m, 1, nil)
		require.ErrorContains(t, err, "is older (1)")
	})
	t.Run("staged, and pushed with another configuration", func(t *testing.T) {
		p := makeSystem("corrected", "").withRoot(newRoot, "").pusher(t, 3, nil)
		_, err := p.run(t, m)
		require.NoError(t, err)
		require.False(t, rootSent(p))
		s, _ := boots(t, disk, oldSystem, makeSystem("corrected", "").withRoot(newRoot, ""))
		require.Equal(t, newRoot.hash, s.root.hash)
	})
	t.Run("but it was damaged since", func(t *testing.T) {
		disk.put([]byte("damaged"), rootB+9000)
		p := makeSystem("next", "").withRoot(newRoot, "").pusher(t, 4, nil)
		_, err := p.run(t, m)
		require.ErrorContains(t, err, "the disk does not hold what was written")
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, rootHash, s.root.hash, "nothing starts the damaged one")
		_, err = p.run(t, m)
		require.NoError(t, err, "the second time it is copied")
		require.True(t, rootSent(p))
		boots(t, disk, makeSystem("next", "").withRoot(newRoot, ""))
	})
}

func TestADryRunWritesNothingAndSaysWhatWouldBeSent(t *testing.T) {
	whole := both.pusher(t, 2, nil)
	_, err := whole.run(t, machineOf(t, newDisk(t, oldSystem), oldSystem))
	require.NoError(t, err)
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	ask := func(head []byte, objects ...[]byte) Result {
		for _, o := range objects {
			head = update.AppendObject(head, o)
		}
		msg, err := OpenMessage(bytes.NewReader(head), signingKeys)
		require.NoError(t, err)
		got, err := Stage(*m, msg, Wish{DryRun: true})
		require.NoError(t, err)
		require.Empty(t, disk.ops)
		require.NoDirExists(t, m.Work)
		require.NoFileExists(t, m.Record)
		return got
	}
	versions := func(h *update.Head) { h.Root.Versions = map[string]string{"etcd": "3.6.7"} }
	indexes := both.objects(t)[:2]
	got := ask(both.head(t, 2, versions))
	require.Equal(t, &update.Lack{Objects: []string{pieces.SumOf(indexes[0]).String(), pieces.SumOf(indexes[1]).String()}, Count: 2, Bytes: int64(sizeOf(indexes))}, got.Lacks)
	require.Equal(t, &update.Change{Root: true, UKI: true, To: map[string]string{"etcd": "3.6.7"}}, got.Change)
	got = ask(both.head(t, 2, versions), indexes...)
	require.EqualValues(t, sizeOf(whole.sent)-sizeOf(indexes), got.Lacks.Bytes)
	require.Equal(t, len(whole.sent)-2, got.Lacks.Count)

	got = ask(newSystem.head(t, 2, nil), newSystem.objects(t)[0])
	require.Equal(t, &update.Change{UKI: true}, got.Change)
	got = ask(oldSystem.head(t, 2, nil))
	require.True(t, got.Unchanged)
	require.Nil(t, got.Lacks)
}

func TestWhatIsFetchedIsTakenWhileItIsNews(t *testing.T) {
	for name, tt := range map[string]struct {
		synchronized bool
		until        time.Time
		wish         Wish
	}{
		"fetched in time":                                {true, time.Unix(1_800_000_001, 0), Wish{Pull: true}},
		"fetched, without an end":                        {true, time.Time{}, Wish{Pull: true}},
		"by an operator, too late":                       {true, time.Unix(1, 0), Wish{}},
		"by an operator, by a clock that nothing keeps":  {false, time.Unix(1, 0), Wish{}},
		"by an operator, whose clock said 1970 until it": {false, time.Time{}, Wish{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineOf(t, newDisk(t, oldSystem), oldSystem)
			m.Synchronized = tt.synchronized
			p := both.pusher(t, 6, func(h *update.Head) { h.Until = tt.until })
			p.wish = tt.wish
			_, err := p.run(t, m)
			require.NoError(t, err)
		})
	}
}

// Without room for it, the index is left out, and an earlier one is not taken for it.
func TestASlotWithoutRoomForTheIndex(t *testing.T) {
	large := oldSystem.withRoot(makeRoot("a b c d e f g h i j k l m n o p q r s t u v"), "")
	disk := newDisk(t, oldSystem)
	table, err := gpt.Read(window{disk, 0, diskSize, false}, diskSize, 512)
	require.NoError(t, err)
	for i := range table.Partitions {
		if table.Partitions[i].Number == 6 {
			table.Partitions[i].Size = int64(len(large.root.tree)) + 512
		}
	}
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	disk.put(e.Primary, 512)
	disk.put(e.Backup, e.BackupAt)
	disk.put(encoded(someRoot.index)[:400], treeB+int64(len(large.root.tree)))
	_, err = large.push(t, machineOf(t, disk, oldSystem), 2, nil)
	require.NoError(t, err)
	boots(t, disk, large)
	_, err = pieces.ReadAt(window{disk, treeB, mib, false}, int64(len(large.root.tree)))
	require.ErrorIs(t, err, pieces.ErrForm)
}
