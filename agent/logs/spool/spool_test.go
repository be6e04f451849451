package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/services/logs"
	"spore/test/killat"
)

// An update says by this version whether the system before reads the queue.
func TestSegmentsHaveTheFormatThatManifestsHave(t *testing.T) {
	first, _, _ := strings.Cut(logs.QueueFormat, ".")
	require.Equal(t, "SPORELG"+first, segmentMagic)
}

// keeper and loser are the consumers of the tests.
var both = []Consumer{{Name: "keeper", Keeps: true}, {Name: "loser"}}

// open opens a spool that says nothing unless the test wants it.
func open(t *testing.T, o Options) *Spool {
	t.Helper()
	if o.Bound == 0 {
		o.Bound = 64 << 20
	}
	if o.Say == nil {
		o.Say = func(text string) { t.Log(text) }
	}
	s, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// line is one that compresses badly, and is known by its number.
func line(r *rand.Rand, n int) []byte {
	return fmt.Appendf(nil, "{\"n\":%d,\"x\":\"%016x%016x%016x\"}\n", n, r.Uint64(), r.Uint64(), r.Uint64())
}

// numbers are those of lines.
func numbers(t *testing.T, lines []byte) []int {
	t.Helper()
	var out []int
	for l := range bytes.Lines(lines) {
		var n int
		_, err := fmt.Sscanf(string(l), "{\"n\":%d,", &n)
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

// rest is all that a consumer has before it.
func rest(t *testing.T, s *Spool, name string) []int {
	t.Helper()
	r, err := s.Reader(name)
	require.NoError(t, err)
	defer r.Close()
	var out []int
	for {
		b, _, err := r.some()
		require.NoError(t, err)
		if b.Count == 0 {
			return out
		}
		of := numbers(t, b.Lines)
		require.Len(t, of, b.Count)
		out = append(out, of...)
	}
}

// upTo are the numbers below n.
func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestWhatWasAppendedIsThereAfterAnotherStart(t *testing.T) {
	dir, r := t.TempDir(), seeded(t)
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 4 << 10})
	for i := range 500 {
		require.NoError(t, s.AppendMarked(t.Context(), line(r, i), []Mark{{"node-1", "a", uint64(i)}}))
	}
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Append(t.Context(), line(r, 0)), ErrClosed)
	files, err := os.ReadDir(s.segmentsDir())
	require.NoError(t, err)
	require.Greater(t, len(files), 5)

	s = open(t, Options{Dir: dir, Consumers: both, Segment: 4 << 10})
	require.Equal(t, upTo(500), rest(t, s, "keeper"))
	require.EqualValues(t, 499, s.Mark("node-1", "a"))
	require.Zero(t, s.Mark("node-1", "b"))
	reader, err := s.Reader("keeper")
	require.NoError(t, err)
	_, err = s.Reader("keeper")
	require.ErrorContains(t, err, "is read for already")
	_, err = s.Reader("stranger")
	require.ErrorContains(t, err, "no consumer")
	b, err := reader.Next(t.Context())
	require.NoError(t, err)
	require.NoError(t, reader.Done(b))
	require.NoError(t, reader.Close())
	require.NoError(t, s.Close())

	s = open(t, Options{Dir: dir, Consumers: both, Segment: 4 << 10})
	require.Equal(t, upTo(500)[b.Count:], rest(t, s, "keeper"), "it goes on where it was done")
	require.Equal(t, upTo(500), rest(t, s, "loser"), "the other one has its own place")
}

func TestASegmentGoesWhenAllArePastIt(t *testing.T) {
	r := seeded(t)
	s := open(t, Options{Dir: t.TempDir(), Consumers: both, Segment: 2 << 10})
	for i := range 300 {
		require.NoError(t, s.AppendMarked(t.Context(), line(r, i), []Mark{{"node-1", "a", uint64(i)}}))
	}
	before := s.Usage().Bytes
	require.Positive(t, s.Lag("keeper").Bytes)
	for i, c := range both {
		reader, err := s.Reader(c.Name)
		require.NoError(t, err)
		for n := 0; n < 300; {
			b, err := reader.Next(t.Context())
			require.NoError(t, err)
			n += b.Count
			require.NoError(t, reader.Done(b))
		}
		require.Zero(t, s.Lag(c.Name).Bytes)
		if i == 0 {
			require.Equal(t, before, s.Usage().Bytes, "the other one has it all before it")
		}
	}
	require.Less(t, s.Usage().Bytes, int64(8<<10))
	require.NoError(t, s.Close())
	again := open(t, Options{Dir: s.o.Dir, Consumers: both})
	require.EqualValues(t, 299, again.Mark("node-1", "a"), "the marks outlive their lines")
}

func TestAFullSpoolRefusesForWhoKeepsAndDropsForOthers(t *testing.T) {
	r := seeded(t)
	s := open(t, Options{Dir: t.TempDir(), Consumers: both, Bound: 64 << 10})
	var err error
	n := 0
	for ; err == nil; n++ {
		err = s.Append(t.Context(), line(r, n))
	}
	n--
	require.ErrorIs(t, err, ErrFull)
	require.Zero(t, s.Lag("loser").Dropped)
	require.LessOrEqual(t, s.Usage().Bytes, int64(64<<10))
	require.Equal(t, upTo(n), rest(t, s, "keeper"), "nothing is lost")

	keeper, err := s.Reader("keeper")
	require.NoError(t, err)
	drain := func() {
		for s.Lag("keeper").Bytes > 0 {
			b, err := keeper.Next(t.Context())
			require.NoError(t, err)
			require.NoError(t, keeper.Done(b))
		}
	}
	drain()
	for n := range 10 * n {
		require.NoError(t, s.Append(t.Context(), line(r, n)), n)
		drain()
	}
	left := rest(t, s, "loser")
	require.EqualValues(t, 11*n, int64(len(left))+s.Lag("loser").Dropped, "what one loses is counted")
	require.Equal(t, 10*n-1, left[len(left)-1])
	require.LessOrEqual(t, s.Usage().Bytes, int64(64<<10))
}

func TestAReaderWaitsForLines(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Consumers: both})
	reader, err := s.Reader("keeper")
	require.NoError(t, err)
	short, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	_, err = reader.Next(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	go func() {
		time.Sleep(10 * time.Millisecond)
		_ = s.Append(context.Background(), []byte("x\n"))
	}()
	b, err := reader.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "x\n", string(b.Lines))
	reader.Rewind()
	b, err = reader.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "x\n", string(b.Lines), "what is not done comes again")
	require.NoError(t, s.Close())
	_, err = reader.Next(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}

func TestWhatIsTooLargeOrMalformedIsRefused(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Consumers: both})
	require.ErrorIs(t, s.Append(t.Context(), make([]byte, MaxAppend+1)), ErrTooLarge)
	require.ErrorIs(t, s.Append(t.Context(), append(bytes.Repeat([]byte("x"), MaxLines), '\n')), ErrTooLarge)
	require.ErrorContains(t, s.Append(t.Context(), []byte("x")), "has no end")
	require.ErrorContains(t, s.AppendMarked(t.Context(), nil, []Mark{{"a\tb", "", 1}}), "has a tab")
	require.ErrorContains(t, s.AppendMarked(t.Context(), nil, []Mark{{"a", strings.Repeat("x", 257), 1}}), "longer than")
	require.NoError(t, s.Append(t.Context(), nil))
	two := append(bytes.Repeat([]byte("a"), MaxLines-1), '\n')
	require.NoError(t, s.Append(t.Context(), append(two, two...)), "each line is as long as possible")
	small := open(t, Options{Dir: t.TempDir(), Bound: 4 << 10, Consumers: both})
	r := seeded(t)
	var many []byte
	for i := range 1000 {
		many = append(many, line(r, i)...)
	}
	require.ErrorIs(t, small.Append(t.Context(), many), ErrTooLarge)
	for _, name := range []string{"", "..", "A", "a/b", strings.Repeat("a", 64)} {
		_, err := Open(Options{Dir: t.TempDir(), Bound: 1 << 20, Consumers: []Consumer{{Name: name}}})
		require.ErrorContains(t, err, "no name of a consumer", name)
	}
	_, err := Open(Options{Dir: t.TempDir()})
	require.ErrorContains(t, err, "needs a bound")
}

// faulty is a segment that fails.
type faulty struct {
	target
	syncs *atomic.Int64
	write func(b []byte, to target) (int, error)
	sync  func() error
}

func (f *faulty) Write(b []byte) (int, error) {
	if f.write != nil {
		return f.write(b, f.target)
	}
	return f.target.Write(b)
}

func (f *faulty) Sync() error {
	f.syncs.Add(1)
	if f.sync != nil {
		if err := f.sync(); err != nil {
			return err
		}
	}
	return f.target.Sync()
}

func TestThoseThatAppendAtTheSameTimeShareASync(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Consumers: both})
	var syncs atomic.Int64
	create := s.create
	s.create = func(path string) (target, error) {
		f, err := create(path)
		return &faulty{target: f, syncs: &syncs, sync: func() error { time.Sleep(20 * time.Millisecond); return nil }}, err
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if err := s.Append(t.Context(), fmt.Appendf(nil, "{\"n\":%d,\n", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Less(t, syncs.Load(), int64(50), "one for each would be 100")
	require.ElementsMatch(t, upTo(100), rest(t, s, "keeper"))
}

func TestADiskThatFailsTakesNothingHalf(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 4 << 10})
	create := s.create
	var syncs atomic.Int64
	s.create = func(path string) (target, error) {
		if r.IntN(8) == 0 {
			return nil, unix.ENOSPC
		}
		f, err := create(path)
		return &faulty{
			target: f, syncs: &syncs,
			write: func(b []byte, to target) (int, error) {
				if r.IntN(4) > 0 {
					return to.Write(b)
				}
				n, err := to.Write(b[:r.IntN(len(b))])
				return n, errors.Join(err, unix.ENOSPC)
			},
			sync: func() error {
				if r.IntN(6) == 0 {
					return unix.EIO
				}
				return nil
			},
		}, err
	}
	var taken []int
	for i := range 400 {
		err := s.AppendMarked(t.Context(), line(r, i), []Mark{{"node-1", "a", uint64(i + 1)}})
		if err == nil {
			taken = append(taken, i)
		} else if errors.Is(err, unix.ENOSPC) {
			require.ErrorIs(t, err, ErrNoSpace)
		}
	}
	require.Greater(t, len(taken), 50)
	require.Less(t, len(taken), 390)
	require.Equal(t, taken, rest(t, s, "keeper"))
	require.EqualValues(t, taken[len(taken)-1]+1, s.Mark("node-1", "a"))
	require.NoError(t, s.Close())
	again := open(t, Options{Dir: dir, Consumers: both})
	require.Equal(t, taken, rest(t, again, "keeper"))
	require.EqualValues(t, taken[len(taken)-1]+1, again.Mark("node-1", "a"))
}

func TestTheDiskKeepsItsFloor(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Consumers: both, Floor: 1 << 20})
	s.free = func(string) (int64, error) { return 1<<20 + 10, nil }
	require.ErrorIs(t, s.Append(t.Context(), []byte("x\n")), ErrNoSpace)
	require.Empty(t, rest(t, s, "keeper"))
	s.free = func(string) (int64, error) { return 2 << 20, nil }
	require.NoError(t, s.Append(t.Context(), []byte("{\"n\":0,\n")))
	require.Equal(t, upTo(1), rest(t, s, "keeper"))
}

// copyOf copies the files of a spool.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func TestATailThatIsTornAtAnyByteIsCut(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Consumers: both})
	var ends []int64 // where the segment ends after each line
	for i := range 2 {
		require.NoError(t, s.AppendMarked(t.Context(), line(r, i), []Mark{{"node-1", "a", uint64(i + 1)}}))
		ends = append(ends, s.Usage().Bytes)
	}
	file := filepath.Join("segments", filepath.Base(s.path(0)))
	require.NoError(t, s.Close())
	for size := ends[1]; size >= 0; size-- {
		torn := copyOf(t, dir)
		require.NoError(t, os.Truncate(filepath.Join(torn, file), size))
		if size%3 == 0 { // What a file system shows of a file that it had no time to write.
			require.NoError(t, os.Truncate(filepath.Join(torn, file), size+200))
		}
		whole := 0
		for whole < len(ends) && ends[whole] <= size {
			whole++
		}
		again, err := Open(Options{Dir: torn, Bound: 64 << 20, Consumers: both})
		require.NoError(t, err)
		require.Equal(t, upTo(whole), rest(t, again, "keeper"), "%d bytes", size)
		require.EqualValues(t, whole, again.Mark("node-1", "a"))
		require.NoError(t, again.Append(t.Context(), line(r, whole)))
		require.Equal(t, upTo(whole+1), rest(t, again, "keeper"), "%d bytes", size)
		require.NoError(t, again.Close())
	}
}

// A new segment counts only when its beginning is on disk; what a loss of power leaves of it is removed.
func TestABeginningThatIsTornIsRemoved(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Consumers: both})
	require.NoError(t, s.AppendMarked(t.Context(), line(r, 0), []Mark{{"node-1", "a", 7}}))
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(s.path(0))
	require.NoError(t, err)
	for _, data := range [][]byte{nil, whole[:5], whole[:headSize], whole[:headSize+frameSize-1], make([]byte, 4096), []byte("x")} {
		torn := copyOf(t, dir)
		next := filepath.Join(torn, "segments", filepath.Base(s.path(1)))
		require.NoError(t, os.WriteFile(next, data, 0o600))
		again := open(t, Options{Dir: torn, Consumers: both})
		require.NoFileExists(t, next)
		require.EqualValues(t, 7, again.Mark("node-1", "a"))
		require.NoError(t, again.Append(t.Context(), line(r, 1)))
		require.Equal(t, upTo(2), rest(t, again, "keeper"))
		require.NoError(t, again.Close())
	}
}

// Other files stay, and a segment that goes meanwhile holds nothing up.
func TestWhatOthersDoInTheFolder(t *testing.T) {
	r := seeded(t)
	var said []string
	s := open(t, Options{Dir: t.TempDir(), Consumers: both, Segment: 1 << 10})
	for i := range 60 {
		require.NoError(t, s.Append(t.Context(), line(r, i)))
	}
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(filepath.Join(s.segmentsDir(), "notes.txt"), nil, 0o600))
	again := open(t, Options{Dir: s.o.Dir, Consumers: both, Say: func(text string) { said = append(said, text) }})
	require.Contains(t, said[0], "is no segment")
	require.NoError(t, os.Remove(again.path(again.segments[1].number)))
	have := rest(t, again, "keeper")
	require.Less(t, len(have), 60)
	require.Equal(t, 59, have[len(have)-1])
	require.Positive(t, again.Usage().Corrupt)
}

// inFormat changes the format of all segments of a folder.
func inFormat(t *testing.T, dir string, format byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "segments", "*.log"))
	require.NoError(t, err)
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{format}, int64(len(segmentMagic)-1))
		require.NoError(t, errors.Join(err, f.Close()))
	}
}

// asideIn are the files aside, by their names.
func asideIn(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "aside"))
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, filepath.Join(dir, "aside", e.Name()))
	}
	return out
}

// What another version has taken is there when that version runs again.
func TestSegmentsOfAnotherFormatAreKeptForTheVersionThatReadsThem(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10})
	for i := range 60 {
		require.NoError(t, s.AppendMarked(t.Context(), line(r, i), []Mark{{"node-1", "a", uint64(i)}}))
	}
	require.NoError(t, s.Close())
	inFormat(t, dir, '2')

	var said []string
	say := func(text string) { said = append(said, text) }
	other := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10, Say: say})
	require.Contains(t, said[0], "segments of another format aside")
	require.Empty(t, rest(t, other, "keeper"))
	require.NoError(t, other.AppendMarked(t.Context(), line(r, 60), []Mark{{"node-1", "a", 60}, {"node-2", "b", 7}}))
	require.Equal(t, []int{60}, rest(t, other, "keeper"))
	require.NoError(t, other.Close())
	files := asideIn(t, dir)
	require.Greater(t, len(files), 2)

	said = nil
	again := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10, Say: say})
	require.Empty(t, said, "it was said")
	require.NoError(t, again.Close())
	require.Equal(t, files, asideIn(t, dir))

	for _, file := range files { // The version that reads them runs again.
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		data[len(segmentMagic)-1] = segmentMagic[len(segmentMagic)-1]
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
	back := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10, Say: say})
	require.Empty(t, asideIn(t, dir))
	require.ElementsMatch(t, upTo(61), rest(t, back, "keeper"))
	require.NoError(t, back.Append(t.Context(), line(r, 61)))
	require.NoError(t, back.Close())
	last := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10})
	require.EqualValues(t, 60, last.Mark("node-1", "a"), "the newest mark, and not that of what came back")
	require.EqualValues(t, 7, last.Mark("node-2", "b"))
}

// asideOf prepares a spool with segments of another format aside, and what came meanwhile.
func asideOf(t *testing.T, dir string) {
	t.Helper()
	r := seeded(t)
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10})
	for i := range 60 {
		require.NoError(t, s.AppendMarked(t.Context(), line(r, i), []Mark{{"node-1", "a", uint64(i)}, {"node-3", "c", 9}}))
	}
	require.NoError(t, s.Close())
	inFormat(t, dir, '2')
	s = open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10})
	require.NoError(t, s.AppendMarked(t.Context(), line(r, 60), []Mark{{"node-1", "a", 60}, {"node-2", "b", 7}}))
	require.NoError(t, s.Close())
}

// readable has the segments that are aside in the format of this version.
func readable(t *testing.T, dir string) {
	t.Helper()
	for _, file := range asideIn(t, dir) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		data[len(segmentMagic)-1] = segmentMagic[len(segmentMagic)-1]
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
}

// hasAllOf looks that a spool has each line once, and the newest mark of each source.
func hasAllOf(t *testing.T, dir string) {
	t.Helper()
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10})
	require.ElementsMatch(t, upTo(61), rest(t, s, "keeper"))
	require.EqualValues(t, 60, s.Mark("node-1", "a"), "the newest mark, and not that of what came back")
	require.EqualValues(t, 7, s.Mark("node-2", "b"))
	require.EqualValues(t, 9, s.Mark("node-3", "c"), "a source that was silent meanwhile")
	require.NoError(t, s.Close())
}

func TestSegmentsThatAreTakenBackMayBeCutAnywhere(t *testing.T) {
	n := killat.Each(t, func(t *testing.T, dir string) { asideOf(t, dir); readable(t, dir) },
		func(t *testing.T, dir string) error {
			s, err := Open(Options{Dir: dir, Bound: 64 << 20, Consumers: both, Segment: 1 << 10})
			if err != nil {
				return err
			}
			return s.Close()
		},
		func(t *testing.T, dir string) { hasAllOf(t, dir); hasAllOf(t, dir) })
	require.Greater(t, n, 6)
}

func TestSegmentsThatAreMissingSpaceForMarksStayAside(t *testing.T) {
	dir := t.TempDir()
	asideOf(t, dir)
	readable(t, dir)
	files := asideIn(t, dir)
	var said []string
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10, Floor: 1 << 60, Say: func(text string) { said = append(said, text) }})
	require.Contains(t, strings.Join(said, "\n"), "stay aside until the next start")
	require.Equal(t, files, asideIn(t, dir))
	require.NoError(t, s.Close())
	hasAllOf(t, dir)
}

func TestPuttingSegmentsAsideMayBeCutAnywhere(t *testing.T) {
	n := killat.Each(t, func(t *testing.T, dir string) {
		asideOf(t, dir)
		readable(t, dir)
		hasAllOf(t, dir)
		inFormat(t, dir, '2')
	}, func(t *testing.T, dir string) error {
		s, err := Open(Options{Dir: dir, Bound: 64 << 20, Consumers: both, Segment: 1 << 10})
		if err != nil {
			return err
		}
		return s.Close()
	}, func(t *testing.T, dir string) {
		s := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10})
		require.Empty(t, rest(t, s, "keeper"))
		require.NoError(t, s.Close())
		readable(t, dir)
		hasAllOf(t, dir)
	})
	require.Greater(t, n, 6)
}

func TestWhatCannotBeReadIsOfNoOtherFormat(t *testing.T) {
	require.False(t, isOther(t.TempDir()), "read(2) fails, as on a damaged disk")
	require.False(t, isOther(filepath.Join(t.TempDir(), "none")))
}

// Lines that come have the room of segments that nobody here reads.
func TestSegmentsOfAnotherFormatGoWhereThereIsNoRoomOtherwise(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 1 << 10})
	for i := range 60 {
		require.NoError(t, s.Append(t.Context(), line(r, i)))
	}
	require.NoError(t, s.Close())
	inFormat(t, dir, '2')
	other := open(t, Options{Dir: dir, Consumers: both, Floor: 1 << 20})
	files := asideIn(t, dir)
	other.free = func(string) (int64, error) { return 1<<20 - 100, nil } // Some bytes are missing.
	require.NoError(t, other.Append(t.Context(), line(r, 0)))
	left := asideIn(t, dir)
	require.NotEmpty(t, left)
	require.Equal(t, files[len(files)-len(left):], left, "the oldest go")
	require.Less(t, len(left), len(files))
	other.free = func(string) (int64, error) { return 0, nil }
	require.ErrorIs(t, other.Append(t.Context(), line(r, 1)), ErrNoSpace)
	require.Empty(t, asideIn(t, dir))
}

func TestBrokenBytesAreLeftOutAndCounted(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Consumers: both, Segment: 2 << 10})
	const many = 200
	for i := range many {
		require.NoError(t, s.Append(t.Context(), line(r, i)))
	}
	require.NoError(t, s.Close())
	for range 40 {
		broken := copyOf(t, dir)
		files, err := filepath.Glob(filepath.Join(broken, "segments", "*"))
		require.NoError(t, err)
		at := r.IntN(len(files) - 1)
		data, err := os.ReadFile(files[at])
		require.NoError(t, err)
		for i, from := 0, r.IntN(len(data)); i < 1+r.IntN(64) && from+i < len(data); i++ {
			data[from+i] ^= byte(1 + r.IntN(255))
		}
		require.NoError(t, os.WriteFile(files[at], data, 0o600))
		var said int
		again, err := Open(Options{Dir: broken, Bound: 64 << 20, Consumers: both, Say: func(string) { said++ }})
		require.NoError(t, err)
		have := rest(t, again, "keeper")
		require.Greater(t, len(have), many/2)
		require.Subset(t, upTo(many), have)
		require.IsIncreasing(t, have)
		if len(have) < many {
			require.Positive(t, again.Usage().Corrupt)
			require.Positive(t, said)
		}
		require.NoError(t, again.Close())
	}
}

func TestPositionsThatCannotBeReadBeginWithTheOldest(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Consumers: both})
	require.NoError(t, s.Append(t.Context(), line(r, 0)))
	require.NoError(t, s.Close())
	for _, text := range []string{"", "x", `{"segment":-1}`, `{"segment":0,"offset":-5}`} {
		require.NoError(t, os.WriteFile(filepath.Join(s.positionsDir(), "keeper"), []byte(text), 0o600))
		again := open(t, Options{Dir: dir, Consumers: both})
		require.Equal(t, upTo(1), rest(t, again, "keeper"), text)
		require.NoError(t, again.Close())
	}
	// One that is new begins with what comes, and who is gone holds nothing back.
	now := []Consumer{{Name: "keeper", Keeps: true}, {Name: "new"}}
	again := open(t, Options{Dir: dir, Consumers: now})
	require.Empty(t, rest(t, again, "new"))
	require.NoError(t, again.Append(t.Context(), line(r, 1)))
	require.Equal(t, []int{1}, rest(t, again, "new"))
	require.NoFileExists(t, filepath.Join(s.positionsDir(), "loser"))
}

func TestMarksAreBounded(t *testing.T) {
	var m marks
	for i := range 3 * MaxSources {
		m.put(Mark{"node-1", fmt.Sprint(i), 5})
		m.put(Mark{"node-1", "always", uint64(i)})
	}
	require.Len(t, m.groups["node-1"], MaxSources)
	require.EqualValues(t, 3*MaxSources-1, m.get("node-1", "always"))
	require.EqualValues(t, 5, m.get("node-1", fmt.Sprint(3*MaxSources-1)))
	require.Zero(t, m.get("node-1", "0"))
	m.put(Mark{"node-1", "always", 1})
	require.EqualValues(t, 3*MaxSources-1, m.get("node-1", "always"), "it never goes back")
	for i := range maxGroups + 10 {
		m.put(Mark{fmt.Sprint("n", i), "a", 1})
	}
	require.Len(t, m.groups, maxGroups)
	require.EqualValues(t, 1, m.get(fmt.Sprint("n", maxGroups+9), "a"))
	all := m.all()
	require.Equal(t, all, parseMarks(appendMarks(nil, all)))
	require.Empty(t, parseMarks([]byte("a\tb\n\t\t\t\na\tb\t-1\nx")))
}

// FuzzSegment reads any bytes as a segment.
func FuzzSegment(f *testing.F) {
	encoder, err := newEncoder()
	require.NoError(f, err)
	head := append([]byte(segmentMagic), "saltsalt"...)
	salt := saltOf([]byte("saltsalt"))
	good := appendFrame(head, salt, time.UnixMilli(1), []byte("a\tb\t1\n"), encoder.EncodeAll([]byte("x\n"), nil), 2, 1)
	good = appendFrame(good, salt, time.UnixMilli(2), nil, encoder.EncodeAll([]byte("y\nz\n"), nil), 4, 2)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(append(good[:60:60], good...))
	decoder, err := newDecoder()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		view, err := openSegment(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		end, err := view.sound()
		require.NoError(t, err)
		require.LessOrEqual(t, end, int64(len(data)))
		for offset := int64(headSize); offset < view.end; {
			fr, err := view.at(offset)
			if err != nil {
				next, err := view.next(offset)
				require.NoError(t, err)
				require.Greater(t, next, offset)
				offset = next
				continue
			}
			if marks, packed, err := view.payload(offset, fr); err == nil {
				parseMarks(marks)
				lines, err := unpack(decoder, fr, packed)
				require.True(t, err != nil || len(lines) <= MaxLines)
			}
			offset += fr.size()
		}
	})
}

// A segment that was begun, and whose first lines a full disk did not take, has marks alone.
func TestHowFarAConsumerIsBehindIsSeenBehindASegmentOfMarks(t *testing.T) {
	r := seeded(t)
	at := time.Unix(1_000_000, 0)
	s := open(t, Options{Dir: t.TempDir(), Consumers: both, Now: func() time.Time { return at }})
	create := s.create
	s.create = func(path string) (target, error) {
		f, err := create(path)
		return &faulty{target: f, syncs: new(atomic.Int64), write: func(b []byte, to target) (int, error) {
			if bytes.HasPrefix(b, []byte(segmentMagic)) {
				return to.Write(b)
			}
			return 0, unix.ENOSPC
		}}, err
	}
	require.ErrorIs(t, s.Append(t.Context(), line(r, 0)), ErrNoSpace)
	require.Zero(t, s.Lag("keeper"))
	require.NoError(t, s.Close())
	s = open(t, s.o)
	require.NoError(t, s.Append(t.Context(), line(r, 1)))
	require.Len(t, s.segments, 2)
	at = at.Add(time.Minute)
	lag := s.Lag("keeper")
	require.Equal(t, time.Minute, lag.Behind)
	require.Positive(t, lag.Bytes)
}

func TestADiskThatFailsIsNotFilledWithSegments(t *testing.T) {
	r := seeded(t)
	s := open(t, Options{Dir: t.TempDir(), Consumers: both})
	require.NoError(t, s.AppendMarked(t.Context(), line(r, 0), []Mark{{"node-1", "a", 7}}))
	create := s.create
	var sick atomic.Bool
	sick.Store(true)
	s.create = func(path string) (target, error) {
		f, err := create(path)
		return &faulty{target: f, syncs: new(atomic.Int64), write: func(b []byte, to target) (int, error) {
			if sick.Load() && !bytes.HasPrefix(b, []byte(segmentMagic)) {
				return 0, unix.EIO
			}
			return to.Write(b)
		}}, err
	}
	s.active = &faulty{target: s.active, syncs: new(atomic.Int64), write: func([]byte, target) (int, error) { return 0, unix.EIO }}
	for range 20 {
		require.ErrorIs(t, s.Append(t.Context(), line(r, 1)), unix.EIO)
	}
	files, err := os.ReadDir(s.segmentsDir())
	require.NoError(t, err)
	require.Len(t, files, 2)
	sick.Store(false)
	require.NoError(t, s.Append(t.Context(), line(r, 1)))
	require.Equal(t, upTo(2), rest(t, s, "keeper"))
	require.NoError(t, s.Close())
	again := open(t, Options{Dir: s.o.Dir, Consumers: both})
	require.Equal(t, upTo(2), rest(t, again, "keeper"))
	require.EqualValues(t, 7, again.Mark("node-1", "a"))
}
