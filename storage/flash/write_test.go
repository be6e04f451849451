package flash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
	"spore/test/faults"
)

const (
	kib      = 1 << 10
	mebi     = 1 << 20
	diskSize = 8 * mebi
	stateAt  = 6 * mebi
)

// mem is a disk in memory that keeps a record of what is done to it.
type mem struct {
	data []byte
	ops  []op
	// failAt ends with an error at the operation of this number; 0 is none.
	failAt int
	// forgets are sectors that do not keep what is written to them.
	forgets func(sector int64) bool
}

// op is a write, or a flush when it has no data.
type op struct {
	at   int64
	data []byte
}

func (m *mem) Size() int64                  { return int64(len(m.data)) }
func (m *mem) SectorSize() int              { return 512 }
func (m *mem) Fresh() (io.ReaderAt, string) { return m, "" }

func (m *mem) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(m.data).ReadAt(b, off)
}

var errPulled = errors.New("the stick was pulled out")

func (m *mem) WriteAt(b []byte, off int64) (int, error) {
	if err := m.record(op{off, bytes.Clone(b)}); err != nil {
		return 0, err
	}
	for i := 0; i < len(b); i += 512 {
		if m.forgets == nil || !m.forgets((off+int64(i))/512) {
			copy(m.data[off+int64(i):], b[i:min(i+512, len(b))])
		}
	}
	return len(b), nil
}

func (m *mem) Sync() error { return m.record(op{}) }

func (m *mem) record(o op) error {
	m.ops = append(m.ops, o)
	if m.failAt != 0 && len(m.ops) == m.failAt {
		return errPulled
	}
	return nil
}

func (m *mem) writes() (n int) {
	for _, o := range m.ops {
		if o.data != nil {
			n++
		}
	}
	return n
}

// cut is the disk after n operations: what was flushed is there, and of each later write the sectors that chance wants.
func cut(before []byte, ops []op, n int, rng *rand.Rand) []byte {
	out := bytes.Clone(before)
	flushed := 0
	for i, o := range ops[:n] {
		if o.data == nil {
			flushed = i
		}
	}
	for i, o := range ops[:n] {
		for s := 0; s < len(o.data); s += 512 {
			if i < flushed || rng.IntN(2) == 0 {
				copy(out[o.at+int64(s):], o.data[s:min(s+512, len(o.data))])
			}
		}
	}
	return out
}

// noise is content that differs with the seed; only text is compared and no chance is in it otherwise.
func noise(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		v := rng.Uint64()
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	return b
}

func guid(n byte) gpt.GUID { return gpt.GUID{0: 0xaa, 6: 0x80, 8: 0x80, 15: n} }

// someLayout is a system whose content differs with the seed.
func someLayout(seed byte) Layout {
	l := Layout{Table: gpt.Table{Disk: guid(seed)}, SectorSize: 512}
	at := int64(mebi)
	for i, p := range []struct {
		name string
		kind gpt.GUID
		size int64
		full int64
	}{{"esp", gpt.ESP, mebi, mebi}, {"root-a", typeRoot, mebi, 700 * kib}, {"verity-a", typeVerity, 512 * kib, 8192}, {"cluster-a", typeCluster, 512 * kib, 12288}} {
		l.Table.Partitions = append(l.Table.Partitions, gpt.Partition{Number: i + 1, Type: p.kind, GUID: guid(seed*16 + byte(i)), Start: at, Size: p.size, Name: p.name})
		content := noise(uint64(seed)*100+uint64(i), int(p.full))
		if p.kind == gpt.ESP {
			copy(content[512*kib:], noise(7, 512*kib)) // Some of it is the same in all systems.
		}
		l.Extents = append(l.Extents, Extent{at, p.full, bytes.NewReader(content)})
		at += p.size
	}
	return l
}

// hybridLayout is an ISO image: one extent, of which some lies in the head, and boot code.
func hybridLayout(seed byte) Layout {
	l := Layout{Table: gpt.Table{Disk: guid(seed)}, SectorSize: 512, MBR: noise(uint64(seed), 512)}
	l.Table.Partitions = []gpt.Partition{{Number: 2, Type: gpt.ESP, GUID: guid(seed * 16), Start: mebi, Size: mebi}}
	from := gpt.Reserved(512)
	content := noise(uint64(seed)*1000, 4*mebi)
	l.Extents = []Extent{{from, int64(len(content)), bytes.NewReader(content)}}
	return l
}

func statePartition() gpt.Partition {
	return gpt.Partition{Number: 8, Type: typeState, GUID: guid(0xee), Start: stateAt, Size: mebi, Name: "spore-state"}
}

// withState is a disk with a system and state, and a second slot that was made on the machine.
func withState(t *testing.T, l Layout) *mem {
	t.Helper()
	m := &mem{data: make([]byte, diskSize)}
	_, err := Write(context.Background(), m, Options{Layout: l})
	require.NoError(t, err)
	table := l.Table
	table.Partitions = append(table.Partitions[:len(table.Partitions):len(table.Partitions)], statePartition(),
		gpt.Partition{Number: 5, Type: typeRoot, GUID: guid(0xdd), Start: 5 * mebi, Size: 512 * kib, Name: "root-b"})
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	copy(m.data[512:], e.Primary)
	copy(m.data[e.BackupAt:], e.Backup)
	copy(m.data[stateAt:], noise(99, mebi))
	m.ops = nil
	return m
}

// junk is a disk of somebody's.
func junk() *mem {
	m := &mem{data: noise(5, diskSize)}
	clear(m.data[510:1024])
	return m
}

// firmware is the table that firmware takes: the primary, else the backup in the last sector (UEFI 2.10, section
// 5.3.2).
func firmware(data []byte) gpt.Table {
	t, err := gpt.Read(bytes.NewReader(data), int64(len(data)), 512)
	if err != nil {
		return gpt.Table{}
	}
	return t
}

// boots tells whether firmware finds something to boot, by UEFI or by boot code.
func boots(data []byte) bool {
	for _, p := range firmware(data).Partitions {
		if p.Type == gpt.ESP {
			return true
		}
	}
	return !isZero(data[:440])
}

// whole tells whether the disk is exactly the layout's.
func whole(t *testing.T, data []byte, l Layout) bool {
	t.Helper()
	table := firmware(data)
	for _, want := range l.Table.Partitions {
		if p, ok := table.ByGUID(want.GUID); !ok || p != want {
			return false
		}
	}
	for _, e := range l.Extents {
		want := make([]byte, e.Size)
		require.NoError(t, readFull(e.Content, want, 0))
		if !bytes.Equal(want, data[e.At:e.At+e.Size]) {
			return false
		}
	}
	return true
}

func TestWhereverItIsCutOffTheDiskIsWholeOrDoesNotBoot(t *testing.T) {
	for name, tc := range map[string]struct {
		old    *Layout
		disk   func(t *testing.T) *mem
		layout Layout
		state  bool
	}{
		"a new system over an old one with state": {ptr(someLayout(1)), func(t *testing.T) *mem { return withState(t, someLayout(1)) }, someLayout(2), true},
		"an ISO image over a system with state":   {ptr(someLayout(1)), func(t *testing.T) *mem { return withState(t, someLayout(1)) }, hybridLayout(2), true},
		"a system over an ISO image":              {ptr(hybridLayout(1)), func(t *testing.T) *mem { return withState(t, hybridLayout(1)) }, someLayout(2), true},
		"a stick with somebody's data":            {nil, func(*testing.T) *mem { return junk() }, someLayout(2), false},
		"an empty disk":                           {nil, func(*testing.T) *mem { return &mem{data: make([]byte, diskSize)} }, hybridLayout(2), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.disk(t)
			before := bytes.Clone(m.data)
			state := sha256.Sum256(before[stateAt : stateAt+mebi])
			startBoots := tc.old != nil
			_, err := Write(context.Background(), m, Options{Layout: tc.layout})
			require.NoError(t, err)
			require.True(t, whole(t, m.data, tc.layout))
			var unbootable, old, complete int
			for n := 0; n <= len(m.ops); n++ {
				for seed := range uint64(3) {
					after := cut(before, m.ops, n, rand.New(rand.NewPCG(seed, uint64(n))))
					at := fmt.Sprintf("cut after operation %d of %d, seed %d", n, len(m.ops), seed)
					switch {
					case whole(t, after, tc.layout) && boots(after):
						complete++
					case startBoots && whole(t, after, *tc.old):
						old++
					default:
						require.False(t, startBoots && boots(after) || !startBoots && len(firmware(after).Partitions) > 0, at)
						unbootable++
					}
					if !tc.state {
						continue
					}
					require.Equal(t, state, sha256.Sum256(after[stateAt:stateAt+mebi]), at)
					p, ok := firmware(after).ByGUID(guid(0xee))
					require.True(t, ok, "%s: the state is no longer named", at)
					require.EqualValues(t, stateAt, p.Start, at)
					if seed == 0 && n%3 == 0 {
						again := &mem{data: after}
						_, err := Write(context.Background(), again, Options{Layout: tc.layout})
						require.NoError(t, err, at)
						require.True(t, whole(t, again.data, tc.layout), at)
						require.Equal(t, state, sha256.Sum256(again.data[stateAt:stateAt+mebi]), at)
					}
				}
			}
			require.Positive(t, unbootable)
			require.Positive(t, complete)
			require.Equal(t, startBoots, old > 0)
			faults.Tried(t, 3*(len(m.ops)+1))
			t.Logf("%d operations: %d cuts left the old system, %d none, %d the new one", len(m.ops), old, unbootable, complete)
		})
	}
}

func ptr(l Layout) *Layout { return &l }

func TestAnErrorOfTheDiskEndsTheRun(t *testing.T) {
	clean := withState(t, someLayout(1))
	before := bytes.Clone(clean.data)
	_, err := Write(context.Background(), clean, Options{Layout: someLayout(2)})
	require.NoError(t, err)
	for n := 1; n <= len(clean.ops); n++ {
		m := &mem{data: bytes.Clone(before), failAt: n}
		_, err := Write(context.Background(), m, Options{Layout: someLayout(2)})
		require.ErrorIs(t, err, errPulled)
		require.Len(t, m.ops, n, "nothing is done after the error")
	}
	faults.Tried(t, len(clean.ops))
}

func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	m := withState(t, someLayout(1))
	r, err := Write(context.Background(), m, Options{Layout: someLayout(1)})
	require.NoError(t, err)
	require.Zero(t, r.Written)
	require.Empty(t, m.ops, "the disk is not touched")
	require.Contains(t, r.Saved(), "nothing was written")

	changed := someLayout(1)
	content := noise(101, 700*kib)
	content[300*kib] ^= 1
	changed.Extents[1].Content = bytes.NewReader(content)
	r, err = Write(context.Background(), m, Options{Layout: changed})
	require.NoError(t, err)
	require.EqualValues(t, grain, r.Written, "one byte costs one grain")
	require.True(t, whole(t, m.data, changed))
	require.Len(t, r.Kept, 1)
	require.Contains(t, r.Saved(), "were there already")

	r, err = Write(context.Background(), m, Options{Layout: someLayout(2)})
	require.NoError(t, err)
	require.Less(t, r.Written, r.Content, "what all systems have in common is not written")
}

func TestASoundDiskThatLostItsTableIsCompletedWithoutItsContent(t *testing.T) {
	m := withState(t, someLayout(1))
	clear(m.data[512:1024])
	r, err := Write(context.Background(), m, Options{Layout: someLayout(1)})
	require.NoError(t, err)
	require.Zero(t, r.Written)
	require.Equal(t, 7, m.writes(), "the table alone")
	require.True(t, whole(t, m.data, someLayout(1)))
	require.Len(t, r.Kept, 1, "the backup named the state")
}

func TestAMediumThatDoesNotKeepWhatIsWrittenIsFoundOut(t *testing.T) {
	for name, forgets := range map[string]func(int64) bool{
		"in the content": func(s int64) bool { return s == 2*mebi/512+1 },
		"in the table":   func(s int64) bool { return s == 1 },
		"from a sector on, as media do that are smaller than they say": func(s int64) bool { return s >= 2*mebi/512 },
	} {
		t.Run(name, func(t *testing.T) {
			m := &mem{data: make([]byte, diskSize), forgets: forgets}
			l := someLayout(2)
			_, err := Write(context.Background(), m, Options{Layout: l})
			require.ErrorIs(t, err, ErrDiffers)
			require.True(t, !boots(m.data) || whole(t, m.data, l), "what boots from the backup is whole")
		})
	}
}

func TestStateThatIsInTheWay(t *testing.T) {
	large := someLayout(2)
	large.Table.Partitions[3].Size = 4 * mebi // It reaches into the seventh.
	for name, tc := range map[string]struct {
		disk   func(*mem)
		layout Layout
		want   string
	}{
		"slots that reach into it are refused":                       {func(*mem) {}, large, "the new system reaches to 8 MiB"},
		"a table that cannot be read is no proof that there is none": {func(m *mem) { m.data[600] ^= 1; m.data[len(m.data)-500] ^= 1 }, someLayout(2), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			m := withState(t, someLayout(1))
			tc.disk(m)
			before := bytes.Clone(m.data)
			_, err := Write(context.Background(), m, Options{Layout: tc.layout})
			require.ErrorIs(t, err, ErrState)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "--erase-state")
			require.Equal(t, before, m.data)
			require.Empty(t, m.ops)

			r, err := Write(context.Background(), m, Options{Layout: tc.layout, EraseState: true})
			require.NoError(t, err)
			require.Empty(t, r.Kept)
			_, ok := firmware(m.data).ByGUID(guid(0xee))
			require.False(t, ok)
			require.True(t, whole(t, m.data, tc.layout))
		})
	}
}

func TestTheStateGetsAnotherNumberWhereItsOwnIsTaken(t *testing.T) {
	l := someLayout(1)
	m := withState(t, l)
	table := firmware(m.data)
	for i := range table.Partitions {
		if table.Partitions[i].Number == 8 {
			table.Partitions[i].Number = 20
		}
	}
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	copy(m.data[512:], e.Primary)
	next := someLayout(2)
	next.Table.Partitions[3].Number = 20
	r, err := Write(context.Background(), m, Options{Layout: next})
	require.NoError(t, err)
	require.Equal(t, 21, r.Kept[0].Number)
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	_, err := Write(context.Background(), &mem{data: make([]byte, 4*mebi)}, Options{Layout: someLayout(1)})
	require.ErrorContains(t, err, "use a larger one")
	l := someLayout(1)
	l.SectorSize = 4096
	_, err = Write(context.Background(), &mem{data: make([]byte, diskSize)}, Options{Layout: l})
	require.ErrorContains(t, err, "sectors of 512 bytes")
	short := someLayout(1)
	short.Extents[2].Content = bytes.NewReader(nil)
	m := withState(t, someLayout(2))
	_, err = Write(context.Background(), m, Options{Layout: short})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.False(t, boots(m.data))
}

func TestACancelledRunLeavesADiskThatDoesNotBoot(t *testing.T) {
	m := withState(t, someLayout(1))
	ctx, cancel := context.WithCancel(context.Background())
	var phases []string
	_, err := Write(ctx, m, Options{Layout: someLayout(2), Progress: func(p Progress) {
		phases = append(phases, p.Phase)
		cancel()
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{Writing}, phases)
	require.False(t, boots(m.data))
}

func TestHolds(t *testing.T) {
	m := withState(t, someLayout(1))
	require.True(t, Holds(m, someLayout(1)), "with what was made on the machine beside it")
	require.False(t, Holds(m, someLayout(2)))
	m.failAt = 7
	_, err := Write(context.Background(), m, Options{Layout: someLayout(2)})
	require.Error(t, err)
	require.False(t, Holds(m, someLayout(1)))
	require.False(t, Holds(m, someLayout(2)))
	require.False(t, Holds(junk(), someLayout(2)))
}
