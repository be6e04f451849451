package slot

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
)

// swapped has the index of the root that runs name two pieces of one size in turn: the root is right, and two pieces
// are copied from the wrong place.
func swapped(t *testing.T, d *medium) {
	t.Helper()
	var shared []int
	for i, p := range someRoot.index {
		if len(pieces.NewFinder(newRoot.index).Find(p.Sum)) > 0 && p.Size == 8<<10 {
			shared = append(shared, i)
		}
	}
	require.Greater(t, len(shared), 1)
	x := append(pieces.Index{}, someRoot.index...)
	x[shared[0]], x[shared[1]] = x[shared[1]], x[shared[0]]
	d.put(encoded(x), treeA+int64(len(someRoot.tree)))
}

func TestPiecesThatWereCopiedWrongAreFoundOutAndSent(t *testing.T) {
	whole := both.pusher(t, 2, nil)
	_, err := whole.run(t, machineOf(t, newDisk(t, oldSystem), oldSystem))
	require.NoError(t, err)
	disk := newDisk(t, oldSystem)
	swapped(t, disk)
	p := both.pusher(t, 2, nil)
	_, err = p.run(t, machineOf(t, disk, oldSystem))
	require.NoError(t, err)
	boots(t, disk, both)
	require.Equal(t, len(whole.sent)+2, len(p.sent), "and no other")
}

// unreadable is a disk that cannot read a place of the root that runs, past the host's memory or not.
type unreadable struct {
	window
	at int64
}

var errMedium = errors.New("input/output error")

func (u unreadable) ReadAt(b []byte, off int64) (int, error) {
	if n := u.at - off; n >= 0 && n < int64(len(b)) {
		return 0, errMedium
	}
	return u.window.ReadAt(b, off)
}

func (u unreadable) Fresh() (io.ReaderAt, string) { return u, "" }

func TestAPieceThatCannotBeReadIsSent(t *testing.T) {
	whole := both.pusher(t, 2, nil)
	_, err := whole.run(t, machineOf(t, newDisk(t, oldSystem), oldSystem))
	require.NoError(t, err)
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	open := m.Open
	m.Open = func(path string, whole bool) (Device, error) {
		d, err := open(path, whole)
		if whole {
			return unreadable{d.(window), rootA + int64(len(makeRoot("kernel").data)) + 20_000}, err
		}
		return d, err
	}
	p := both.pusher(t, 2, nil)
	_, err = p.run(t, m)
	require.NoError(t, err)
	boots(t, disk, both)
	require.Equal(t, len(whole.sent)+1, len(p.sent), "its neighbours are copied")
}

func TestRunsAreWhatFollowsEachOtherInBothFiles(t *testing.T) {
	p := func(n byte, size int64) pieces.Piece { return pieces.Piece{Size: size, Sum: pieces.Sum{n}} }
	index := pieces.Index{p(1, 10), p(2, 20), p(9, 5), p(3, 30), p(1, 10), p(2, 20), p(4, 40)}
	s := &share{index: index, find: pieces.NewFinder(index), progress: newProgress(len(index))}
	other := pieces.Index{p(4, 40), p(1, 10), p(2, 20), p(3, 30), p(1, 10)}
	require.Equal(t, []run{{0, 2, 40, 30}, {3, 2, 70, 40}, {5, 1, 50, 20}, {6, 1, 0, 40}}, s.runs(other))
	s.mark(1)
	require.Equal(t, []run{{0, 1, 40, 10}, {3, 2, 70, 40}, {5, 1, 50, 20}, {6, 1, 0, 40}}, s.runs(other))
	require.Empty(t, s.runs(nil))
	require.Empty(t, s.runs(pieces.Index{p(1, 11)}), "another size is another piece")

	large := make(pieces.Index, 200)
	for i := range large {
		large[i] = p(byte(i), 1<<20)
	}
	s = &share{index: large, find: pieces.NewFinder(large), progress: newProgress(len(large))}
	var sizes []int64
	for _, r := range s.runs(large) {
		sizes = append(sizes, r.size)
	}
	require.Equal(t, []int64{saveEvery, saveEvery, saveEvery, 8 << 20}, sizes, "the progress is kept between them")
}

// recorder is an outlet that knows its writes.
type recorder struct {
	data  []byte
	sizes [][2]int64
}

func (r *recorder) WriteAt(b []byte, off int64) (int, error) {
	r.sizes = append(r.sizes, [2]int64{off, int64(len(b))})
	return copy(r.data[off:], b), nil
}

func (r *recorder) Sync() error { return nil }

func TestWhatFollowsIsWrittenInWholeBlocks(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcde"), 200_000)
	out := &recorder{data: make([]byte, len(content))}
	s := &share{out: out}
	write := func(from, to int64) {
		require.NoError(t, s.write(bytes.NewReader(content), from, from, to-from))
	}
	write(5000, 6000)
	write(6000, 2_500_000)
	write(2_500_000, 2_500_010)
	write(0, 10)
	write(4096, 5000)
	write(10, 4096)
	require.NoError(t, s.flush())
	require.NoError(t, s.flush())
	require.Equal(t, [][2]int64{
		{5000, piece + 4096 - 5000}, {piece + 4096, piece}, {2*piece + 4096, 2_500_010 - 2*piece - 4096},
		{0, 10}, {4096, 904}, {10, 4086},
	}, out.sizes)
	require.True(t, bytes.Equal(content[:2_500_010], out.data[:2_500_010]))
	var failed unread
	require.ErrorAs(t, s.write(bytes.NewReader(nil), 0, 0, 1), &failed)
}

// A UKI that the working files have lost is not what a disk is blamed for, and does not stay on the ESP.
func TestAUKIThatWasLostBeforeItWasWrittenIsAskedForAgain(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	losesABit(t, m)
	_, err := both.push(t, m, 2, nil)
	require.ErrorContains(t, err, "its pieces do not make up the UKI that was signed")
	require.NotContains(t, err.Error(), "worn out")
	s, _ := boots(t, disk, oldSystem)
	require.Equal(t, rootHash, s.root.hash)
	require.Len(t, entriesOf(t, disk), 1)
	p := both.pusher(t, 2, nil)
	_, err = p.run(t, m)
	require.NoError(t, err)
	boots(t, disk, both)
}
