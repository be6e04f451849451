package slot

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/state"
	"spore/storage/gpt"
	"spore/storage/pieces"
	"spore/test/faults"
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

func TestAPowerCutAtAnyPointOfAnUpdateOfTheRoot(t *testing.T) {
	newDisk(t, oldSystem) // It is made once, for all of those at once.
	for name, tt := range map[string]struct {
		system  system
		prepare func(*testing.T, *medium, *Machine)
		also    []system
	}{
		"with another configuration": {system: both},
		"with the same":              {system: updated},
		"over a staged configuration": {system: both, also: []system{newSystem}, prepare: func(t *testing.T, disk *medium, m *Machine) {
			_, err := newSystem.push(t, m, 1, nil)
			require.NoError(t, err)
		}},
		"over another staged root": {system: both, also: []system{oldSystem.withRoot(makeRoot("x y z"), "")}, prepare: func(t *testing.T, disk *medium, m *Machine) {
			_, err := oldSystem.withRoot(makeRoot("x y z"), "").push(t, m, 1, nil)
			require.NoError(t, err)
		}},
		"where the root is there already": {system: both, also: []system{updated}, prepare: func(t *testing.T, disk *medium, m *Machine) {
			_, err := updated.push(t, m, 1, nil)
			require.NoError(t, err)
		}},
		"where a cut left the backup of the partition table alone": {system: both, prepare: func(t *testing.T, disk *medium, m *Machine) {
			disk.put(make([]byte, 512), 512)
		}},
		"where two pieces are copied wrong": {system: both, prepare: func(t *testing.T, disk *medium, m *Machine) {
			swapped(t, disk)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newDisk(t, oldSystem)
			m := machineOf(t, before, oldSystem)
			if tt.prepare != nil {
				tt.prepare(t, before, m)
			}
			disk := before.clone()
			start := keep(t, m)
			m = machineOf(t, disk, oldSystem)
			rng := rand.New(rand.NewPCG(5, 6))
			start.restore(t, m, tt.system, rng)
			var files []kept
			disk.each = func() { files = append(files, keep(t, m)) }
			p := tt.system.pusher(t, 2, nil)
			p.batch = 3
			_, err := p.run(t, m)
			require.NoError(t, err)
			disk.each = nil
			require.Len(t, files, len(disk.ops))
			require.NotContains(t, files[len(files)-1].record, `"staged"`)
			could := append([]system{oldSystem, tt.system}, tt.also...)
			saw := map[string]bool{}
			for n := range disk.ops {
				for range 2 {
					after := disk.cut(before, n+1, rng)
					s, e := boots(t, after, could...)
					saw[s.root.hash+s.hash] = true
					require.Equal(t, oldSystem.uki, entriesOf(t, after)[oldSystem.entryFile()], "cut at %d starts %s", n, e.File())

					again := machineOf(t, after, oldSystem)
					files[n].restore(t, again, tt.system, rng)
					_, err := tt.system.push(t, again, 2, nil)
					require.NoError(t, err, "cut at %d", n)
					s, _ = boots(t, after, oldSystem, tt.system)
					require.Equal(t, tt.system.root.hash+tt.system.hash, s.root.hash+s.hash)
					require.Len(t, entriesOf(t, after), 2)
					x, err := pieces.ReadAt(window{after, treeB, mib, false}, int64(len(newRoot.tree)))
					require.NoError(t, err)
					require.Equal(t, newRoot.index, x)
				}
			}
			require.True(t, saw[oldSystem.root.hash+oldSystem.hash] && saw[tt.system.root.hash+tt.system.hash])
			faults.Tried(t, 2*len(disk.ops))
		})
	}
}

// What was sent before the operator's machine went away is not sent again.
func TestABrokenTransferGoesOnWhereItStopped(t *testing.T) {
	whole := both.pusher(t, 2, nil)
	_, err := whole.run(t, machineOf(t, newDisk(t, oldSystem), oldSystem))
	require.NoError(t, err)
	for most := 1; ; most++ {
		disk := newDisk(t, oldSystem)
		m := machineOf(t, disk, oldSystem)
		first := both.pusher(t, 2, nil)
		first.batch, first.most = 3, most
		if _, err := first.run(t, m); err == nil {
			require.Greater(t, most, 4)
			return
		} else {
			require.ErrorIs(t, err, errKilled)
		}
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, rootHash, s.root.hash)
		// The node was restarted meanwhile, and the folder signed anew.
		second := both.pusher(t, 3, nil)
		again := machineOf(t, disk, oldSystem)
		again.Record, again.Work, again.BootID = m.Record, m.Work, "later"
		_, err = second.run(t, again)
		require.NoError(t, err)
		boots(t, disk, both)
		unsent := max(0, sizeOf(first.sent)-sizeOf(first.sent[max(0, len(first.sent)-3):])) // The last message was not sent.
		require.Equal(t, sizeOf(whole.sent), unsent+sizeOf(second.sent), "after %d messages", most)
	}
}

func TestAMessageThatIsCutKeepsWhatCame(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	message := both.head(t, 2, nil)
	all := both.objects(t)
	for _, o := range all[:len(all)-2] {
		message = update.AppendObject(message, o)
	}
	msg, err := OpenMessage(bytes.NewReader(message[:len(message)-5]), signingKeys)
	require.NoError(t, err)
	_, err = Stage(*m, msg, Wish{})
	require.ErrorIs(t, err, update.ErrForm)
	p := both.pusher(t, 2, nil)
	_, err = p.run(t, m)
	require.NoError(t, err)
	require.LessOrEqual(t, len(p.sent), 3)
}

func TestAFileWithAllObjectsTakesOneMessage(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	message := both.head(t, 2, nil)
	for _, o := range both.objects(t) {
		message = update.AppendObject(message, o)
	}
	msg, err := OpenMessage(bytes.NewReader(message), signingKeys)
	require.NoError(t, err)
	got, err := Stage(*m, msg, Wish{})
	require.NoError(t, err)
	require.Nil(t, got.Lacks)
	boots(t, disk, both)
}

// What the running root, its index or its UKI should have and does not is asked for.
func TestPiecesThatTheMachineCannotGiveAreSent(t *testing.T) {
	whole := both.pusher(t, 2, nil)
	_, err := whole.run(t, machineOf(t, newDisk(t, oldSystem), oldSystem))
	require.NoError(t, err)
	shared := int64(slices.IndexFunc(someRoot.index, func(p pieces.Piece) bool { return slices.Contains(newRoot.index, p) }))
	for name, damage := range map[string]func(*medium){
		"a bit of the root": func(d *medium) { d.put([]byte{0xff, 0xee, 0xdd}, rootA+int64(len(makeRoot("kernel").data))) },
		"the index":         func(d *medium) { d.put([]byte("x"), treeA+int64(len(someRoot.tree))) },
		"a hash in the index": func(d *medium) {
			d.put([]byte("xyz"), treeA+int64(len(someRoot.tree))+12+4*int64(len(someRoot.index))+32*shared)
		},
		"a size in the index":       func(d *medium) { d.put([]byte{0, 0, 0, 9}, treeA+int64(len(someRoot.tree))+12) },
		"an index of other content": func(d *medium) { d.put(encoded(makeRoot("x y").index), treeA+int64(len(someRoot.tree))) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			damage(disk)
			p := both.pusher(t, 2, nil)
			_, err := p.run(t, machineOf(t, disk, oldSystem))
			require.NoError(t, err)
			boots(t, disk, both)
			require.Greater(t, sizeOf(p.sent), sizeOf(whole.sent))
		})
	}
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

func TestWhatIsRefusedOfARootIsNotWritten(t *testing.T) {
	resize := func(number int) func(*testing.T, *medium) {
		return func(t *testing.T, d *medium) {
			table, err := gpt.Read(window{d, 0, diskSize, false}, diskSize, 512)
			require.NoError(t, err)
			for i := range table.Partitions {
				if table.Partitions[i].Number == number {
					table.Partitions[i].Size = 4096
				}
			}
			e, err := table.Encode(diskSize, 512)
			require.NoError(t, err)
			d.put(e.Primary, 512)
			d.put(e.Backup, e.BackupAt)
		}
	}
	gone := func(number int) func(*testing.T, *medium) {
		return func(t *testing.T, d *medium) { retype(t, d, number) }
	}
	signed := func(s, certificate string, r rootFS) *system {
		return ptr(makeSystem(s, certificate).withRoot(r, certificate))
	}
	for name, tt := range map[string]struct {
		change       func(*Machine)
		head         func(*update.Head)
		disk         func(*testing.T, *medium)
		wish         Wish
		runs, system *system
		want         string
	}{
		"no second root":                {disk: gone(5), want: "has no second slot for a root file system: there was no room for it"},
		"no second tree":                {disk: gone(6), want: "has no second slot for a hash tree of a root file system"},
		"no second cluster part":        {disk: gone(7), want: "has no second slot for a configuration"},
		"the running root is not there": {disk: gone(2), want: "was written anew since this machine was started"},
		"a slot too small for the root": {disk: resize(5), want: "KiB and its slot 4: build with larger slots.root in image.yaml"},
		"a slot too small for the tree": {disk: resize(6), want: "KiB and its slot 4: build with larger slots.verity in image.yaml"},
		"another cluster":               {head: func(h *update.Head) { h.Cluster = "other" }, want: "the update is of the cluster with the id other"},
		"without the node":              {head: func(h *update.Head) { h.Nodes = []string{"edge-02"} }, want: "the update has no node edge-01"},
		"an older one":                  {head: func(h *update.Head) { h.Serial = 4 }, want: "the update is older (4)"},
		"an ESP that is full": {disk: func(t *testing.T, d *medium) {
			e := editESP(t, d)
			n := e.Free() - 4<<20
			require.NoError(t, e.Create("/loader", "of somebody", n, bytes.NewReader(make([]byte, n)), time.Unix(1_800_000_000, 0)))
		}, want: "the ESP has room for 4 MiB, and"},
		"state of another node": {change: func(m *Machine) {
			m.State = state.Info{Kind: state.Tmpfs, Warning: "the state partition is of another node"}
		}, want: "would forget what was pushed to it: the state partition is of another node"},
		"from the network":                 {change: func(m *Machine) { m.Boot.NetworkURL = "http://x/" }, want: "give the server the new image"},
		"unsigned with Secure Boot":        {change: func(m *Machine) { m.SecureBoot = true }, want: "the UKI of the update is not signed"},
		"signed by somebody else":          {change: func(m *Machine) { m.SecureBoot = true }, runs: signed("y", "the plant", someRoot), system: signed("x", "somebody", newRoot), want: "another certificate"},
		"with another key for PCR 11":      {runs: signed("y", "pcr key", someRoot), system: signed("x", "pcr other", newRoot), want: "not by the same key"},
		"fetched without a clock":          {wish: Wish{Pull: true}, want: "no time server keeps this node's clock"},
		"fetched by a clock that is wrong": {wish: Wish{Pull: true}, head: func(h *update.Head) { h.Until = time.Unix(1_900_000_000, 0) }, want: "no time server keeps this node's clock"},
		"fetched when it is no news":       {change: func(m *Machine) { m.Synchronized = true }, wish: Wish{Pull: true}, head: func(h *update.Head) { h.Until = time.Unix(1_799_999_999, 0) }, want: "was to be taken until 2027-01-15T07:59:59Z, and that is over"},
	} {
		t.Run(name, func(t *testing.T) {
			runs, pushed := oldSystem, both
			if tt.runs != nil {
				runs, pushed = *tt.runs, *tt.system
			}
			disk := newDisk(t, runs)
			m := machineOf(t, disk, runs)
			last := Record{Serial: 5, ClusterHash: runs.hash, RootHash: runs.root.hash, State: Kept}
			writeRecord(m, last)
			if tt.change != nil {
				tt.change(m)
			}
			if tt.disk != nil {
				tt.disk(t, disk)
				disk.ops = nil
			}
			p := pushed.pusher(t, 6, tt.head)
			p.wish = tt.wish
			_, err := p.run(t, m)
			var r Refusal
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, disk.ops)
			require.NoDirExists(t, m.Work)
			got, err := ReadRecord(m.Record)
			require.NoError(t, err)
			require.Equal(t, last, got)
		})
	}
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

func TestTwoUpdatesAtOnce(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	newer := both.pusher(t, 8, nil)
	newer.batch, newer.most = 3, 4
	_, err := newer.run(t, m)
	require.ErrorIs(t, err, errKilled)
	older := newSystem.withRoot(makeRoot("other things"), "")
	_, err = older.push(t, m, 7, nil)
	require.ErrorContains(t, err, "a newer update (8) is on its way to this node already")
	require.DirExists(t, m.Work, "the newer one goes on")
	newest := older.pusher(t, 9, nil)
	newest.batch, newest.most = 3, 4
	_, err = newest.run(t, m)
	require.ErrorIs(t, err, errKilled)
	_, err = both.push(t, m, 8, nil)
	require.ErrorContains(t, err, "a newer update (9)")
	_, err = both.push(t, m, 8, func(h *update.Head) { h.Force = true })
	require.NoError(t, err, "by the operator's word")
	boots(t, disk, both)
}

func TestADiskThatKeepsAnotherRootIsFoundOut(t *testing.T) {
	for worn, want := range map[string]string{"5": "all of its pieces were right", "6": "the hash tree of the root: the disk does not hold", "7": "the cluster part: the disk does not hold"} {
		disk := newDisk(t, oldSystem)
		m := machineOf(t, disk, oldSystem)
		open := m.Open
		m.Open = func(path string, whole bool) (Device, error) {
			d, err := open(path, whole)
			w := d.(window)
			w.worn = path == worn
			return w, err
		}
		_, err := both.push(t, m, 2, nil)
		require.ErrorContains(t, err, want)
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, rootHash, s.root.hash)
		m.Open = open
		_, err = both.push(t, m, 2, nil)
		require.NoError(t, err, "with another disk it works")
		boots(t, disk, both)
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

func TestProgressThatIsNoneIsNoProgress(t *testing.T) {
	key := pieces.Sum{1}
	p := newProgress(11)
	for _, i := range []int{0, 3, 10, 3} {
		p.mark(i)
	}
	p.mark(7)
	p.unmark(7)
	p.unmark(1)
	p.searched, p.unheld = true, true
	require.Equal(t, 8, p.left)
	good := p.encode(key)
	again, ok := parseProgress(good, key, 11)
	require.True(t, ok)
	require.Equal(t, p, again)
	change := func(at int, to byte) []byte { b := bytes.Clone(good); b[at] = to; return b }
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut": good[:len(good)-1], "longer": append(bytes.Clone(good), 0), "another magic": change(0, 'x'),
		"of something else": change(8, 2), "an unknown flag": change(progressHead-1, 8),
		"a piece that is not there": change(len(good)-1, 8),
	} {
		got, ok := parseProgress(bad, key, 11)
		require.False(t, ok, name)
		require.Equal(t, newProgress(11), got, name)
	}
}

func FuzzParseProgress(f *testing.F) {
	p := newProgress(11)
	p.mark(4)
	f.Add(p.encode(pieces.Sum{}), uint16(11))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, count uint16) {
		p, ok := parseProgress(data, pieces.Sum{}, int(count))
		if ok {
			require.Equal(t, data, p.encode(pieces.Sum{}))
		}
	})
}

// The state is not trusted more than a hint: whatever lies in the working directory, an update ends whole.
func TestWorkingFilesMayBeAnything(t *testing.T) {
	for _, name := range []string{"boot.index", "root.index", "boot.progress", "root.progress", "uki", "part", "begun.json"} {
		for what, damage := range map[string]func([]byte) []byte{
			"empty": func([]byte) []byte { return nil },
			"a bit": func(b []byte) []byte { b[len(b)-1] ^= 0x40; return b },
			"all bits": func(b []byte) []byte {
				return append(bytes.Clone(b[:min(len(b), progressHead)]), bytes.Repeat([]byte{0xff}, max(0, len(b)-progressHead))...)
			},
			"text": func([]byte) []byte { return []byte(strings.Repeat("text\n", 1000)) },
		} {
			t.Run(fmt.Sprint(name, " ", what), func(t *testing.T) {
				disk := newDisk(t, oldSystem)
				m := machineOf(t, disk, oldSystem)
				p := both.pusher(t, 2, nil)
				p.batch, p.most = 3, 4
				_, err := p.run(t, m)
				require.ErrorIs(t, err, errKilled)
				path := filepath.Join(m.Work, name)
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, damage(data), 0o600))
				for range 3 { // What was thought to be there is found out at the end, and asked for the next time.
					if _, err = both.push(t, m, 2, nil); err == nil {
						break
					}
				}
				require.NoError(t, err)
				boots(t, disk, both)
			})
		}
	}
}

func TestARootIsLookedAtBeforeAnythingStartsIt(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	looked := 0
	var refused []string
	m.Look = func(root, tree, hash string) ([]string, []string) {
		looked++
		require.Equal(t, []string{"5", "6", newRoot.hash}, []string{root, tree, hash})
		have := make([]byte, len(newRoot.data))
		_, err := window{disk, rootB, mib, false}.ReadAt(have, 0)
		require.NoError(t, err)
		require.Equal(t, newRoot.data, have, "it is whole")
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, rootHash, s.root.hash)
		return refused, []string{"the new kernel has no driver for a mouse"}
	}
	refused = []string{"the new kernel has no driver for the boot disk"}
	_, err := both.push(t, m, 2, nil)
	var r Refusal
	require.ErrorAs(t, err, &r)
	require.ErrorContains(t, err, "this machine would not come up with the update as it does now: the new kernel has no driver for the boot disk; build")
	s, _ := boots(t, disk, oldSystem)
	require.Equal(t, rootHash, s.root.hash)
	require.NoFileExists(t, m.Record)
	require.NoDirExists(t, m.Work)

	got, err := both.push(t, m, 3, func(h *update.Head) { h.Force = true })
	require.NoError(t, err, "by the operator's word")
	require.Equal(t, []string{"the new kernel has no driver for the boot disk", "the new kernel has no driver for a mouse"}, got.Change.Risks)
	boots(t, disk, both)
	require.Equal(t, 2, looked)
	_, err = newSystem.push(t, m, 4, nil)
	require.NoError(t, err)
	require.Equal(t, 2, looked, "a configuration has no root")
}

func TestAnUpdateOrAWayBackThatWouldNotReadTheDataIsRefused(t *testing.T) {
	older := func(newer, older map[string]string) string {
		if newer["etcd"] > older["etcd"] && older["etcd"] != "" {
			return "etcd " + older["etcd"] + " does not read what " + newer["etcd"] + " wrote"
		}
		return ""
	}
	version := func(v string) func(*update.Head) {
		return func(h *update.Head) { h.Root.Versions = map[string]string{"etcd": v} }
	}
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	m.Versions, m.Unsafe = map[string]string{"etcd": "3.6"}, older
	_, err := both.push(t, m, 2, version("3.5"))
	var r Refusal
	require.ErrorAs(t, err, &r)
	require.ErrorContains(t, err, "they would not read this node's data: etcd 3.5 does not read what 3.6 wrote")
	require.Empty(t, disk.ops)
	got, err := both.push(t, m, 3, version("3.7"))
	require.NoError(t, err)
	require.Equal(t, &update.Change{Root: true, UKI: true, From: map[string]string{"etcd": "3.6"}, To: map[string]string{"etcd": "3.7"}}, got.Change)

	m, _ = become(t, disk, m, oldSystem, both)
	m.Versions, m.Unsafe = map[string]string{"etcd": "3.7"}, older
	disk.ops = nil
	_, err = Back(*m, Wish{})
	require.ErrorAs(t, err, &r)
	require.ErrorContains(t, err, "the programs of the system before would not read this node's data: etcd 3.6 does not read what 3.7 wrote")
	require.Empty(t, disk.ops)
	m.Versions = map[string]string{"etcd": "3.6"}
	before, err := Back(*m, Wish{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"etcd": "3.6"}, before.Change.To)

	m.Versions = map[string]string{"etcd": "3.7"}
	_, err = oldSystem.push(t, m, 4, version("3.6"))
	require.ErrorContains(t, err, "etcd 3.6 does not read what 3.7 wrote", "a push is no other way back")
	_, err = oldSystem.push(t, m, 5, func(h *update.Head) { version("3.6")(h); h.Force = true })
	require.NoError(t, err, "by the operator's word")
}
