package pieces

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/testpe"
)

func some(t *testing.T) (data []byte, x Index) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	data = make([]byte, 10_000)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	x, err := Cut(bytes.NewReader(data), int64(len(data)), []int64{0, 100, 100, 5000, 20_000}, 4096)
	require.NoError(t, err)
	return data, x
}

func TestPiecesEndWhereTheyAreToldAndAfterTheLimit(t *testing.T) {
	data, x := some(t)
	var sizes []int64
	at := int64(0)
	for _, p := range x {
		sizes = append(sizes, p.Size)
		require.True(t, p.Same(data[at:at+p.Size]))
		require.False(t, p.Same(data[at:at+p.Size-1]))
		at += p.Size
	}
	require.Equal(t, []int64{100, 4096, 804, 4096, 904}, sizes)
	require.EqualValues(t, len(data), x.Size())

	empty, err := Cut(bytes.NewReader(nil), 0, nil, 1)
	require.NoError(t, err)
	require.Empty(t, empty)
	_, err = Cut(bytes.NewReader(data), int64(len(data))+1, nil, 4096)
	require.ErrorContains(t, err, "unexpected EOF")
	_, err = Cut(bytes.NewReader(data), 1, nil, MaxPiece+1)
	require.ErrorContains(t, err, "internal error")
}

func TestThePiecesOfAProgramBeginWithItsSections(t *testing.T) {
	kernel := bytes.Repeat([]byte("kernel "), 100_000)
	program := testpe.Program(
		testpe.Section{Name: ".cmdline", Data: []byte("quiet")}, testpe.Section{Name: ".linux", Data: kernel})
	x, err := OfProgram(bytes.NewReader(program), int64(len(program)))
	require.NoError(t, err)
	require.Equal(t, int64(len(program)), x.Size())
	require.True(t, slices.ContainsFunc(x, func(p Piece) bool { return p.Same(kernel[:programPiece]) }))
	var all []byte
	var sums []Sum
	each := func(content []byte) error {
		all = append(all, content...)
		sums = append(sums, SumOf(content))
		return nil
	}
	require.NoError(t, EachOfProgram(bytes.NewReader(program), int64(len(program)), each))
	require.Equal(t, program, all)
	for i, p := range x {
		require.Equal(t, p.Sum, sums[i])
	}

	stop := errors.New("stop")
	err = EachOfProgram(bytes.NewReader(program), int64(len(program)), func([]byte) error { return stop })
	require.ErrorIs(t, err, stop)
	err = EachOfProgram(bytes.NewReader(program), int64(len(program))+1, each)
	require.ErrorContains(t, err, "unexpected EOF")
	x, err = OfProgram(bytes.NewReader(program), int64(len(program))+1)
	require.ErrorContains(t, err, "unexpected EOF")
	require.Nil(t, x)
	_, err = OfProgram(bytes.NewReader(kernel), int64(len(kernel)))
	require.ErrorContains(t, err, "cut a program into pieces")
}

func TestAnIndexIsReadAsItWasWritten(t *testing.T) {
	_, x := some(t)
	b, err := x.Encode()
	require.NoError(t, err)
	again, err := Parse(b)
	require.NoError(t, err)
	require.Equal(t, x, again)
	again, err = ReadAt(bytes.NewReader(append(make([]byte, 77), append(b, 1, 2, 3)...)), 77)
	require.NoError(t, err)
	require.Equal(t, x, again)

	for _, p := range []int64{0, -1, MaxPiece + 1} {
		_, err := Index{{Size: p}}.Encode()
		require.Error(t, err)
	}
	_, err = make(Index, MaxCount+1).Encode()
	require.ErrorContains(t, err, "is the most")
}

func TestADamagedIndexIsRefused(t *testing.T) {
	_, x := some(t)
	b, err := x.Encode()
	require.NoError(t, err)
	change := func(at int, to byte) []byte { c := bytes.Clone(b); c[at] = to; return c }
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut": b[:len(b)-1], "another magic": change(0, 'X'), "more pieces": change(11, 200), "far more": change(8, 255),
		"a piece of nothing": append(append(bytes.Clone(b[:head]), 0, 0, 0, 0), b[head+4:]...), "something behind": append(bytes.Clone(b), 0),
	} {
		_, err := Parse(bad)
		require.ErrorIs(t, err, ErrForm, name)
	}
	_, err = ReadAt(bytes.NewReader(b[:len(b)-1]), 0)
	require.ErrorContains(t, err, "unexpected EOF")
	_, err = ReadAt(bytes.NewReader(b), int64(len(b)))
	require.ErrorContains(t, err, "unexpected EOF")
	_, err = ReadAt(bytes.NewReader(b), 1)
	require.ErrorIs(t, err, ErrForm)
}

func TestWhatAnotherIndexLacksIsThereOnce(t *testing.T) {
	a, b, c := Piece{3, Sum{1}}, Piece{1, Sum{2}}, Piece{5, Sum{3}}
	for _, row := range []struct{ x, other, want Index }{
		{Index{a, b, c, b}, Index{c}, Index{a, b}},
		{Index{a, b}, nil, Index{a, b}},
		{Index{b, a, a}, Index{a, b}, nil},
		{nil, Index{a}, nil},
	} {
		require.Equal(t, row.want, row.x.Beyond(row.other))
	}
}

func TestAnIndexBehindATreeTakesWholeBlocks(t *testing.T) {
	for n, want := range map[int]int64{0: 4096, 1: 4096, 113: 4096, 114: 8192} {
		x := make(Index, n)
		for i := range x {
			x[i] = Piece{int64(i) + 1, Sum{byte(i)}}
		}
		b, err := x.EncodeBlocks()
		require.NoError(t, err)
		require.Len(t, b, int(want))
		require.Equal(t, want, x.BlocksSize())
		r := bytes.NewReader(append(make([]byte, 512), b...))
		require.Equal(t, want, SizeAt(r, 512))
		again, err := ReadAt(r, 512)
		require.NoError(t, err)
		require.Equal(t, x, again)
		for _, at := range []int64{0, 511, 513, 1 << 20} {
			require.Zero(t, SizeAt(r, at), at)
		}
		b[8] = 0xff
		require.Zero(t, SizeAt(bytes.NewReader(b), 0), "more pieces than an index may have")
	}
	_, err := Index{{}}.EncodeBlocks()
	require.Error(t, err)
}

func TestPiecesAreFoundByTheirHashes(t *testing.T) {
	same := Sum(sha256.Sum256([]byte("a")))
	f := NewFinder(Index{{3, Sum{1}}, {1, same}, {5, Sum{2}}, {1, same}})
	require.Equal(t, []uint32{0}, f.Find(Sum{1}))
	require.Equal(t, []uint32{1, 3}, f.Find(same))
	require.Equal(t, []uint32{2}, f.Find(Sum{2}))
	require.Empty(t, f.Find(Sum{3}))
	require.Empty(t, f.Find(Sum{}))
	for i, at := range []int64{0, 3, 4, 9} {
		require.Equal(t, at, f.Offset(i))
	}
	require.Empty(t, NewFinder(nil).Find(same))
}

func TestSumsAreText(t *testing.T) {
	s := Sum(sha256.Sum256(nil))
	again, err := ParseSum(s.String())
	require.NoError(t, err)
	require.Equal(t, s, again)
	for _, bad := range []string{"", "ab", s.String()[1:] + "x", s.String() + "00", "E" + s.String()[1:]} {
		_, err := ParseSum(bad)
		require.Error(t, err, bad)
	}
}

func FuzzParse(f *testing.F) {
	b, _ := Index{{3, Sum{1}}, {MaxPiece, Sum{2}}}.Encode()
	f.Add(b)
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := Parse(data)
		if err != nil {
			return
		}
		again, err := x.Encode()
		require.NoError(t, err)
		require.Equal(t, data, again)
	})
}
