package powercut

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const sector = 512

type request struct {
	sector, sectors uint64
	flags           uint64
	fill            byte
	mark            string
}

// logOf writes a log as drivers/md/dm-log-writes.c does.
func logOf(requests ...request) []byte {
	var b bytes.Buffer
	block := func(fields ...uint64) {
		raw := make([]byte, sector)
		for i, f := range fields {
			binary.LittleEndian.PutUint64(raw[8*i:], f)
		}
		b.Write(raw)
	}
	block(magic, version, uint64(len(requests)), sector)
	for _, r := range requests {
		block(r.sector, r.sectors, r.flags, uint64(len(r.mark)))
		switch {
		case r.flags&flagMark != 0:
			raw := make([]byte, sector)
			copy(raw, r.mark)
			b.Write(raw)
		case r.flags&flagDiscard == 0:
			b.Write(bytes.Repeat([]byte{r.fill}, int(r.sectors)*sector))
		}
	}
	return b.Bytes()
}

func read(t *testing.T, raw []byte) *Log {
	t.Helper()
	l, err := Read(bytes.NewReader(raw), int64(len(raw)))
	require.NoError(t, err)
	return l
}

// disk is memory as a disk.
type disk []byte

func (d disk) WriteAt(p []byte, off int64) (int, error) { return copy(d[off:], p), nil }

func replay(t *testing.T, l *Log, n int, seed uint64) (disk, Cut) {
	t.Helper()
	c, err := l.Cut(n, seed)
	require.NoError(t, err)
	d := make(disk, 64*sector)
	require.NoError(t, l.Replay(d, c))
	return d, c
}

func TestWhatWasFlushedBeforeTheEndIsThereAtTheEnd(t *testing.T) {
	l := read(t, logOf(
		request{sector: 0, sectors: 1, fill: 'a'},
		request{flags: flagFlush},
		request{sector: 1, sectors: 1, fill: 'b'},
		request{flags: flagFlush},
	))
	for seed := range uint64(50) {
		c := l.CutAtEnd(seed)
		require.Equal(t, 2, c.Write)
		require.Equal(t, 2, c.Flushed)
		require.Zero(t, c.Dropped)
		d := make(disk, 64*sector)
		require.NoError(t, l.Replay(d, c))
		require.Equal(t, "ab", string([]byte{d[0], d[sector]}))
	}
	require.Zero(t, read(t, logOf()).CutAtEnd(1).Write, "a disk that nobody wrote to")
}

func TestFlushedWritesAreAlwaysThere(t *testing.T) {
	l := read(t, logOf(
		request{sector: 0, sectors: 1, fill: 'a'},
		request{sector: 1, sectors: 1, fill: 'b'},
		request{flags: flagFlush},
		request{sector: 0, sectors: 1, fill: 'c'},
		request{sector: 8, sectors: 1, fill: 'd'},
	))
	require.Equal(t, 4, l.Writes())
	seen := map[string]bool{}
	for seed := range uint64(200) {
		d, c := replay(t, l, 4, seed)
		require.Equal(t, 2, c.Flushed)
		require.Equal(t, byte('b'), d[sector])
		require.Contains(t, "ac", string(d[0]), "a later write that is lost leaves the flushed one")
		require.Contains(t, "\x00d", string(d[8*sector]))
		require.Equal(t, 2, c.Kept+c.Dropped)
		seen[string(d[0])+string(d[8*sector])] = true
	}
	require.Len(t, seen, 4, "every subset comes up")
}

func TestTheSameSeedGivesTheSameCut(t *testing.T) {
	var requests []request
	for i := range uint64(50) {
		requests = append(requests, request{sector: i, sectors: 1, fill: byte(i + 1)})
	}
	l := read(t, logOf(requests...))
	a, ca := replay(t, l, 40, 7)
	b, cb := replay(t, l, 40, 7)
	require.Equal(t, a, b)
	require.Equal(t, ca.String(), cb.String())
	other, _ := replay(t, l, 40, 8)
	require.NotEqual(t, a, other)
	require.Equal(t, make([]byte, 24*sector), []byte(a[40*sector:]), "nothing after the cut is there")
}

func TestALargeWriteIsCutBetweenPiecesOnly(t *testing.T) {
	l := read(t, logOf(request{sector: 4, sectors: 40, fill: 'x'}))
	partial := false
	for seed := range uint64(50) {
		d, c := replay(t, l, 1, seed)
		require.Equal(t, 6, c.Kept+c.Dropped, "half a piece, five whole ones less a half: the boundaries are those of the disk")
		for start := 0; start < 44*sector; start += pieceSize {
			p := d[max(start, 4*sector):min(start+pieceSize, 44*sector)]
			require.Equal(t, len(p), bytes.Count(p, p[:1]), "a piece is there or not")
		}
		partial = partial || (c.Kept > 0 && c.Dropped > 0)
	}
	require.True(t, partial)
}

func TestFlagsOfWrites(t *testing.T) {
	t.Run("FUA is kept once it is done", func(t *testing.T) {
		l := read(t, logOf(request{sector: 0, sectors: 1, fill: 'a', flags: flagFUA}, request{sector: 8, sectors: 1, fill: 'b'}))
		for seed := range uint64(50) {
			d, _ := replay(t, l, 2, seed)
			require.Equal(t, byte('a'), d[0])
		}
	})
	t.Run("a write that flushes does not flush itself", func(t *testing.T) {
		l := read(t, logOf(request{sector: 0, sectors: 1, fill: 'a'}, request{sector: 8, sectors: 1, fill: 'b', flags: flagFlush}))
		lost := false
		for seed := range uint64(50) {
			d, _ := replay(t, l, 2, seed)
			require.Equal(t, byte('a'), d[0])
			lost = lost || d[8*sector] == 0
		}
		require.True(t, lost)
	})
	t.Run("a flush after the cut does nothing", func(t *testing.T) {
		l := read(t, logOf(request{sector: 0, sectors: 1, fill: 'a'}, request{flags: flagFlush}))
		c, err := l.Cut(1, 1)
		require.NoError(t, err)
		require.Zero(t, c.Flushed)
	})
	t.Run("a discard changes nothing", func(t *testing.T) {
		l := read(t, logOf(request{sector: 0, sectors: 2, fill: 'a'}, request{sector: 1, sectors: 1 << 40, flags: flagDiscard}, request{flags: flagFlush}, request{sector: 9, sectors: 1}))
		require.Equal(t, 2, l.Writes())
		d, _ := replay(t, l, 2, 1)
		require.Equal(t, byte('a'), d[0])
		require.Equal(t, byte('a'), d[sector])
	})
	t.Run("a mark is no write", func(t *testing.T) {
		l := read(t, logOf(request{flags: flagMark, mark: "fsck"}, request{sector: 0, sectors: 1, fill: 'a'}))
		require.Equal(t, 1, l.Writes())
		require.Len(t, l.Entries, 2)
	})
}

func TestReadRefuses(t *testing.T) {
	good := logOf(request{sector: 0, sectors: 8, fill: 'a'}, request{flags: flagFlush})
	change := func(off int, v uint64) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint64(b[off:], v)
		return b
	}
	for _, tt := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"an empty file", nil, "superblock"},
		{"another magic", change(0, 1), "no superblock"},
		{"another version", change(8, 2), "no superblock"},
		{"odd sectors", change(24, 100), "sectors of 100 bytes"},
		{"too many entries", change(16, 1<<40), "more than"},
		{"more entries than there are", change(16, 3), "entry 2 of 3"},
		{"a write beyond any disk", change(512, 1<<60), "no disk is that large"},
		{"data beyond the log", change(520, 1<<20), "its data lies outside the log"},
		{"a mark beyond the log", func() []byte { b := change(528, flagMark); binary.LittleEndian.PutUint64(b[536:], 1<<50); return b }(), "a mark of"},
		{"an entry that QEMU failed to write", logOf(request{}), "entry 0 of 1: it is empty"},
		{"a log that ends early", good[:700], "its data lies outside the log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(tt.raw), int64(len(tt.raw)))
			require.ErrorContains(t, err, tt.want)
		})
	}
	l := read(t, good)
	for _, n := range []int{0, 2, -1} {
		_, err := l.Cut(n, 1)
		require.ErrorContains(t, err, "there are 1")
	}
}

// QEMU writes the log, we replay all of it: the disk must be the one that QEMU has.
func TestReplayingQEMUsOwnLogGivesItsDisk(t *testing.T) {
	dir := t.TempDir()
	img, log := filepath.Join(dir, "disk"), filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(img, make([]byte, 1<<20), 0o600))
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	out, err := exec.Command("qemu-io", "-t", "writeback",
		"-c", "write -P 1 0 4k", "-c", "write -P 2 512 512", "-c", "flush", "-c", "write -P 3 8k 1k",
		"-c", "write -z 16k 8k", "-c", "write -P 4 64k 64k", "-c", "flush", "-c", "write -P 5 100k 4k",
		"--image-opts", "driver=blklogwrites,file.driver=file,file.filename="+img+",log.driver=file,log.filename="+log+",log-sector-size=512").CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	l := read(t, raw)
	require.Equal(t, 6, l.Writes())

	c, err := l.Cut(6, 1)
	require.NoError(t, err)
	require.Equal(t, 5, c.Flushed)
	for seed := uint64(0); c.Dropped > 0; seed++ {
		c, err = l.Cut(6, seed)
		require.NoError(t, err)
	}
	got := make(disk, 1<<20)
	require.NoError(t, l.Replay(got, c))
	want, err := os.ReadFile(img)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

func FuzzRead(f *testing.F) {
	f.Add(logOf(request{sector: 0, sectors: 8, fill: 'a'}, request{flags: flagFlush}, request{sector: 3, sectors: 2, flags: flagDiscard}, request{flags: flagMark, mark: "x"}), uint64(1))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		l, err := Read(bytes.NewReader(raw), int64(len(raw)))
		if err != nil || l.Writes() == 0 {
			return
		}
		n := 1 + int(seed%uint64(l.Writes()))
		c, err := l.Cut(n, seed)
		require.NoError(t, err)
		require.Equal(t, n, c.Write)
		require.LessOrEqual(t, c.Flushed, n)
	})
}
