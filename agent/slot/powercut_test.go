package slot

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
	"spore/test/faults"
)

func TestAPowerCutAtAnyWriteLeavesWhatRanOrWhatIsPushed(t *testing.T) {
	newDisk(t, oldSystem) // It is made once, for all of those at once.
	for name, prepare := range map[string]func(*testing.T, *medium, *Machine){
		"a first push": func(*testing.T, *medium, *Machine) {},
		"where another one is staged": func(t *testing.T, disk *medium, m *Machine) {
			_, err := makeSystem("another one", "").push(t, m, 1, nil)
			require.NoError(t, err)
		},
		"where a cut left the backup of the partition table alone": func(t *testing.T, disk *medium, m *Machine) {
			disk.put(make([]byte, 512), 512)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newDisk(t, oldSystem)
			m := machineOf(t, before, oldSystem)
			prepare(t, before, m)
			record, err := os.ReadFile(m.Record)
			require.True(t, err == nil || errors.Is(err, os.ErrNotExist))
			started, _ := boots(t, before, oldSystem, newSystem, makeSystem("another one", ""))
			disk := before.clone()
			m = machineOf(t, disk, oldSystem)
			require.NoError(t, os.WriteFile(m.Record, orEmpty(record), 0o600))
			_, err = newSystem.push(t, m, 2, nil)
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(3, 4))
			var sawOld, sawNew bool
			for n := range disk.ops {
				for range 3 {
					after := disk.cut(before, n+1, rng)
					s, e := boots(t, after, oldSystem, newSystem, started)
					sawOld, sawNew = sawOld || s.hash == oldSystem.hash, sawNew || s.hash == newSystem.hash
					require.True(t, s.hash == newSystem.hash || s.hash == oldSystem.hash || s.hash == started.hash, "cut at %d starts %s", n, e.File())
					require.Equal(t, oldSystem.uki, entriesOf(t, after)[oldSystem.entryFile()])

					again := machineOf(t, after, oldSystem)
					require.NoError(t, os.WriteFile(again.Record, orEmpty(record), 0o600))
					_, err := newSystem.push(t, again, 2, nil)
					require.NoError(t, err, "cut at %d", n)
					s, _ = boots(t, after, oldSystem, newSystem)
					require.Equal(t, newSystem.hash, s.hash)
					require.Len(t, entriesOf(t, after), 2)
				}
			}
			require.True(t, sawOld && sawNew)
			faults.Tried(t, 3*len(disk.ops))
		})
	}
}

func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte("{}")
	}
	return b
}

func TestADiskThatKeepsSomethingElseIsFoundOut(t *testing.T) {
	for worn, want := range map[string]string{"7": "the cluster part: the disk does not hold what was written", "1": "the disk does not hold what was written"} {
		disk := newDisk(t, oldSystem)
		m := machineOf(t, disk, oldSystem)
		open := m.Open
		m.Open = func(path string, whole bool) (Device, error) {
			d, err := open(path, whole)
			w := d.(window)
			if path == worn && path == "1" {
				return &wornContent{w}, err
			}
			w.worn = path == worn
			return w, err
		}
		_, err := newSystem.push(t, m, 2, nil)
		require.ErrorContains(t, err, want)
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, oldSystem.hash, s.hash)
	}
}

// What a cut left on the ESP without a name is no reason to refuse an update.
func TestRoomThatACutLeftTakenIsGivenBack(t *testing.T) {
	before := newDisk(t, oldSystem)
	disk := before.clone()
	e := editESP(t, disk)
	n := e.Free() - 4<<20
	content := bytes.NewReader(make([]byte, n))
	require.NoError(t, e.Create("/loader", "of somebody", n, content, time.Unix(1_800_000_000, 0)))
	disk = disk.cut(before, len(disk.ops)-2, nil) // All is there but its name.
	m := machineOf(t, disk, oldSystem)
	_, err := both.push(t, m, 2, nil)
	require.NoError(t, err)
	boots(t, disk, both)
}

// wornContent keeps directories and tables, and loses a bit of what is in files.
type wornContent struct{ window }

func (w *wornContent) Through() io.WriterAt { return w }

func (w *wornContent) WriteAt(b []byte, off int64) (int, error) {
	b = bytes.Clone(b)
	if i := bytes.Index(b, []byte("console=ttyS0")); i >= 0 {
		b[i] ^= 1
	}
	return w.window.WriteAt(b, off)
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
