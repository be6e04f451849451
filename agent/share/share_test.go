package share

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
	"spore/storage/verity"
	"spore/wire/nodeapi"
)

func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("node-%03d", i))
	}
	return out
}

func piece(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "piece %d ", i), 20) }

func TestResponsibilityIsSpreadEvenlyAndMovesLittle(t *testing.T) {
	const count = 5000
	all := names(50)
	n, without := NewNodes(all), NewNodes(all[:49])
	load, moved := map[string]int{}, 0
	for i := range count {
		sum := pieces.SumOf(piece(i))
		r := n.Of(sum)
		require.NotEqual(t, r.First, r.Second)
		load[r.First]++
		load[r.Second]++
		left := without.Of(sum)
		switch gone := all[49]; gone {
		case r.First:
			moved++
			require.Equal(t, r.Second, left.First, "the second is the first then")
		case r.Second:
			moved++
			require.Equal(t, r.First, left.First)
		default:
			require.Equal(t, r, left)
		}
	}
	require.Len(t, load, 50)
	for name, n := range load {
		require.InDelta(t, 2*count/50, n, 2*count/50/2, name)
	}
	require.Equal(t, load[all[49]], moved)
}

func TestFewNodesAreResponsible(t *testing.T) {
	sum := pieces.SumOf(piece(1))
	require.Equal(t, Responsible{}, NewNodes(nil).Of(sum))
	require.Equal(t, Responsible{First: "a"}, NewNodes([]string{"a"}).Of(sum))
	two := NewNodes([]string{"a", "b"}).Of(sum)
	require.ElementsMatch(t, []string{"a", "b"}, []string{two.First, two.Second})
	require.Equal(t, two, NewNodes([]string{"b", "a"}).Of(sum), "in any order")
}

// shelf is one on a disk with room.
func shelf(t *testing.T) *Shelf {
	t.Helper()
	return &Shelf{Dir: t.TempDir(), Limit: 1 << 20, Free: func() int64 { return 1 << 40 }}
}

func put(t *testing.T, s *Shelf, content []byte) {
	t.Helper()
	kept, err := s.Put(pieces.SumOf(content), content)
	require.NoError(t, err)
	require.True(t, kept)
}

func TestAShelfIsOfOneUpdate(t *testing.T) {
	s := shelf(t)
	require.NoError(t, s.Begin("first"))
	one, two := piece(1), piece(2)
	put(t, s, one)
	got, err := s.Get(pieces.SumOf(one))
	require.NoError(t, err)
	require.Equal(t, one, got)
	_, err = s.Get(pieces.SumOf(two))
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.False(t, s.Ended("first"))
	require.NoError(t, s.End())
	require.True(t, s.Ended("first"))
	require.False(t, s.Ended("second"))
	require.False(t, s.Ended(""))

	require.NoError(t, s.Begin("first"), "again")
	require.False(t, s.Ended("first"))
	_, err = s.Get(pieces.SumOf(one))
	require.NoError(t, err, "what was fetched is there")

	require.NoError(t, s.Begin("second"))
	_, err = s.Get(pieces.SumOf(one))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, of := s.Of()
	require.Equal(t, "second", of)
	require.NoError(t, s.Clear())
	_, of = s.Of()
	require.Empty(t, of)
	require.Error(t, s.End())
}

func TestAShelfHasBounds(t *testing.T) {
	one := piece(1)
	sum := pieces.SumOf(one)
	for name, change := range map[string]func(*Shelf){
		"in bytes":        func(s *Shelf) { s.Limit = int64(len(one)) - 1 },
		"in what is free": func(s *Shelf) { s.Free = func() int64 { return leaveFree } },
		"in what is there": func(s *Shelf) {
			s.Limit = int64(len(one)) + 10
			require.NoError(t, os.MkdirAll(filepath.Join(s.Dir, "pieces"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "pieces", "x"), make([]byte, 20), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "of"), []byte("first"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shelf(t)
			change(s)
			require.NoError(t, s.Begin("first"))
			kept, err := s.Put(sum, one)
			require.NoError(t, err, "it goes without")
			require.False(t, kept)
			_, err = s.Get(sum)
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestADamagedPieceIsNotThere(t *testing.T) {
	s := shelf(t)
	require.NoError(t, s.Begin("first"))
	one := piece(1)
	sum := pieces.SumOf(one)
	put(t, s, one)
	require.NoError(t, os.WriteFile(s.path(sum), one[1:], 0o600))
	_, err := s.Get(sum)
	require.ErrorIs(t, err, fs.ErrNotExist)
	put(t, s, one) // It can be fetched again.
	_, err = s.Get(sum)
	require.NoError(t, err)
}

// root is a root with its hash tree and its index behind it, as an image has them.
func root(t *testing.T, index bool) (data []byte, tree []byte, x pieces.Index) {
	t.Helper()
	for i := range 200 {
		data = append(data, piece(i)...)
	}
	data = append(data, make([]byte, 4096-len(data)%4096)...)
	x, err := pieces.Cut(bytes.NewReader(data), int64(len(data)), nil, 1000)
	require.NoError(t, err)
	h, err := verity.NewHasher(int64(len(data)), verity.Options{Salt: make([]byte, 32), UUID: [16]byte{1}, Concurrency: 1})
	require.NoError(t, err)
	_, err = h.WriteAt(data, 0)
	require.NoError(t, err)
	var b bytes.Buffer
	_, _, err = h.Finish(&b)
	require.NoError(t, err)
	if index {
		behind, err := x.EncodeBlocks()
		require.NoError(t, err)
		b.Write(behind)
	}
	return data, b.Bytes(), x
}

func TestTheRootThatRunsHasItsPieces(t *testing.T) {
	data, tree, x := root(t, true)
	r := &Root{Data: bytes.NewReader(data), Tree: bytes.NewReader(tree)}
	at := int64(0)
	for _, p := range x {
		got, err := r.Get(p.Sum)
		require.NoError(t, err)
		require.Equal(t, data[at:at+p.Size], got)
		at += p.Size
	}
	_, err := r.Get(pieces.SumOf([]byte("another")))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestARootDoesNotHaveWhatIsDamaged(t *testing.T) {
	data, tree, x := root(t, true)
	_, bare, _ := root(t, false)
	damaged := bytes.Clone(data)
	damaged[10] ^= 1
	lying := bytes.Clone(tree)
	lying[len(bare)+8] = 0x7f // How many pieces there are.
	for name, r := range map[string]*Root{
		"a damaged block":  {Data: bytes.NewReader(damaged), Tree: bytes.NewReader(tree)},
		"no index":         {Data: bytes.NewReader(data), Tree: bytes.NewReader(bare)},
		"a damaged index":  {Data: bytes.NewReader(data), Tree: bytes.NewReader(lying)},
		"no tree":          {Data: bytes.NewReader(data), Tree: bytes.NewReader(nil)},
		"a shorter device": {Data: bytes.NewReader(data[:100]), Tree: bytes.NewReader(tree)},
		"no partitions":    {},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Get(x[0].Sum)
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestANodeSaysWhatItHas(t *testing.T) {
	s := shelf(t)
	require.NoError(t, s.Begin("first"))
	one := piece(1)
	put(t, s, one)
	data, tree, x := root(t, true)
	row := Row(s, &Root{Data: bytes.NewReader(data), Tree: bytes.NewReader(tree)})
	require.Equal(t, []nodeapi.Role{nodeapi.Node}, row.Who, "and nobody else")
	mux := http.NewServeMux()
	mux.HandleFunc(row.Method+" "+row.Path, func(w http.ResponseWriter, r *http.Request) { row.Handle(w, r, nodeapi.Caller{}) })
	ask := func(name, of string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, nodeapi.PiecesPath+name+"?of="+of, nil))
		body, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		return w.Code, string(body)
	}
	status, body := ask(pieces.SumOf(one).String(), "first")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, string(one), body)
	status, body = ask(x[3].Sum.String(), "")
	require.Equal(t, http.StatusOK, status)
	require.Len(t, body, int(x[3].Size))

	other := pieces.SumOf([]byte("another")).String()
	status, _ = ask(other, "first")
	require.Equal(t, http.StatusNotFound, status, "it may come")
	require.NoError(t, s.End())
	status, _ = ask(other, "first")
	require.Equal(t, http.StatusGone, status)
	status, _ = ask(other, "second")
	require.Equal(t, http.StatusNotFound, status, "that one has not begun")
	for _, bad := range []string{"x", "..%2f..%2fetc%2fpasswd", other[:63], "A" + other[1:]} {
		status, _ = ask(bad, "first")
		require.Equal(t, http.StatusBadRequest, status, bad)
	}
}
