package keeper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"spore/services/kubernetes/etcd/etcdutl"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/services/kubernetes/etcd/snapshot/sealing"
)

// The whole with etcd itself is in test/services.

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// gives is an etcd that gives out these bytes.
type gives struct {
	data []byte
	err  error
}

func (g gives) Size(context.Context) (int64, error) { return int64(len(g.data)), nil }

func (g gives) Snapshot(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(g.data), failing{g.err})), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// database is one of so many blocks with its hash.
func database(blocks int) []byte {
	data := bytes.Repeat([]byte{7}, blocks*blockSize)
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// tool is an etcdutl that says this and ends so.
func tool(t *testing.T, says string, code int) etcdutl.Tool {
	path := filepath.Join(t.TempDir(), "etcdutl")
	script := fmt.Sprintf("#!/bin/sh\ncat <<'END'\n%s\nEND\necho the reason >&2\nexit %d\n", says, code)
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return etcdutl.Tool{Path: path}
}

// fine is what etcdutl says of a snapshot.
const fine = `{"hash":1,"revision":42,"totalKey":5,"totalSize":20480,"version":"3.6.0"}`

func keeper(t *testing.T) (*Keeper, *[]string) {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	var said []string
	return &Keeper{
		Dir: snapshot.Dir{Path: filepath.Join(t.TempDir(), "snapshots")}, Cluster: "c", Node: "a", Masters: []string{"a", "b"},
		Every: time.Hour, Keep: snapshot.Keep{Newest: 3}, Identity: id, Etcd: gives{data: database(40)}, Tool: tool(t, fine, 0),
		Peers: peers{}, Now: func() time.Time { return noon },
		Say: func(s string) { said = append(said, s) }, Status: func(string) {},
	}, &said
}

// peers are the snapshots of other masters.
type peers map[string]snapshot.Dir

func (p peers) Get(_ context.Context, node, path string) (io.ReadCloser, error) {
	d, ok := p[node]
	if !ok {
		return nil, errors.New("no answer")
	}
	w := httptest.NewRecorder()
	snapshot.Handler(d).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return io.NopCloser(w.Body), nil
}

func files(t *testing.T, k *Keeper) []string {
	t.Helper()
	entries, err := os.ReadDir(k.Dir.Path)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		if e.Name() != ".lock" {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestASnapshotThatWasTakenOpens(t *testing.T) {
	k, _ := keeper(t)
	n, err := k.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, snapshot.Name{Taken: noon, Revision: 42, Node: "a", Hash: n.Hash}, n)
	require.Equal(t, []string{n.String()}, files(t, k), "the database itself is gone")
	data, err := os.ReadFile(k.Dir.At(n))
	require.NoError(t, err)
	h, r, err := sealing.Open(bytes.NewReader(data), k.Identity)
	require.NoError(t, err)
	db, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, database(40), db)
	require.Equal(t, "c", h.Cluster)
	require.Equal(t, 5, h.Keys)
	info, err := os.Stat(k.Dir.At(n))
	require.NoError(t, err)
	require.EqualValues(t, 0o644, info.Mode().Perm(), "the API server reads it as another user")
}

func TestWhatIsNoSnapshot(t *testing.T) {
	other := database(40)
	other[0]++
	for name, tt := range map[string]struct {
		etcd    gives
		tool    etcdutl.Tool
		problem string
	}{
		"nothing":                         {gives{}, tool(t, fine, 0), "no hash at its end"},
		"a hash alone":                    {gives{data: database(0)}, tool(t, fine, 0), "no hash at its end"},
		"without its hash":                {gives{data: database(3)[:3*blockSize]}, tool(t, fine, 0), "no hash at its end"},
		"a block too few":                 {gives{data: database(3)[blockSize:]}, tool(t, fine, 0), "has not the hash at its end"},
		"another byte":                    {gives{data: other}, tool(t, fine, 0), "has not the hash at its end"},
		"a stream that ends in an error":  {gives{database(3), errors.New("etcd went away")}, tool(t, fine, 0), "etcd went away"},
		"one that etcdutl does not open":  {gives{data: database(3)}, tool(t, "", 1), "the reason"},
		"one of which it says nothing":    {gives{data: database(3)}, tool(t, "", 0), "read what etcdutl says"},
		"one that has never had anything": {gives{data: database(3)}, tool(t, `{"revision":0}`, 0), "its revision is 0"},
		"no etcdutl":                      {gives{data: database(3)}, etcdutl.Tool{Path: "/nonexistent"}, "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := keeper(t)
			k.Etcd, k.Tool = tt.etcd, tt.tool
			_, err := k.Take(t.Context())
			require.ErrorContains(t, err, "take a snapshot of etcd: ")
			require.ErrorContains(t, err, tt.problem)
			require.Empty(t, files(t, k))
		})
	}
}

func TestAFullDiskKeepsWhatThereIs(t *testing.T) {
	k, _ := keeper(t)
	n, err := k.Take(t.Context())
	require.NoError(t, err)
	k.Dir.Space = func(string) (uint64, uint64, error) { return 300 << 20, 4 << 30, nil }
	_, err = k.Take(t.Context())
	require.ErrorIs(t, err, snapshot.ErrNoRoom)
	require.Equal(t, []string{n.String()}, files(t, k))
}

func TestOneMasterTakesTheSnapshotAndTheOtherGetsIt(t *testing.T) {
	a, _ := keeper(t)
	b, said := keeper(t)
	now := noon
	a.Now, b.Now = func() time.Time { return now }, func() time.Time { return now }
	b.Node, b.Identity = "b", a.Identity
	a.Peers, b.Peers = peers{"b": b.Dir}, peers{"a": a.Dir}
	require.NoError(t, a.Round(t.Context(), true))
	require.NoError(t, b.Round(t.Context(), true))
	require.Equal(t, files(t, a), files(t, b))
	require.Len(t, files(t, b), 1)
	require.Contains(t, (*said)[0], "got snapshot")

	now = now.Add(59 * time.Minute)
	require.NoError(t, a.Round(t.Context(), true))
	require.Len(t, files(t, a), 1, "none is due")
	now = now.Add(time.Minute)
	require.NoError(t, b.Round(t.Context(), true))
	require.Len(t, files(t, b), 1, "it is the other one's turn")
	require.NoError(t, a.Round(t.Context(), true))
	require.Len(t, files(t, a), 2)

	now = now.Add(75 * time.Minute)
	b.Peers = peers{}
	require.ErrorContains(t, b.Round(t.Context(), true), "ask a for its snapshots: no answer")
	require.Len(t, files(t, b), 2, "without the first master the second takes it")
	for range 5 {
		now = now.Add(time.Hour)
		require.NoError(t, a.Round(t.Context(), false))
	}
	require.Len(t, files(t, a), 3, "what is too much is dropped")
}

func TestNoneIsTakenRightAfterTheStart(t *testing.T) {
	for after, want := range map[time.Duration]int{settle - time.Second: 0, settle: 1} {
		k, _ := keeper(t)
		k.Peers = peers{"b": {Path: t.TempDir()}}
		started := false
		k.Now = func() time.Time {
			if started {
				return noon.Add(after)
			}
			started = true
			return noon
		}
		ctx, cancel := context.WithCancel(t.Context())
		k.Status = func(string) { cancel() } // after the first round
		require.NoError(t, k.Run(ctx))
		require.Len(t, files(t, k), want, "%s after the start", after)
	}
}

func TestAProblemIsSaidOnceAndItsEndToo(t *testing.T) {
	k, said := keeper(t)
	now := noon
	k.Now = func() time.Time { return now }
	var status []string
	k.Status = func(s string) { status = append(status, s) }
	bad := errors.New("bad")
	for _, err := range []error{nil, bad, bad, nil, nil, bad} {
		k.problem(err)
	}
	require.Equal(t, []string{"bad", "snapshots are in order again", "bad"}, *said)
	now = now.Add(sayEvery)
	k.problem(bad)
	require.Len(t, *said, 4, "it lasts")
	require.Equal(t, []string{"there is no snapshot yet", "there is no snapshot yet; bad", "there is no snapshot yet", "there is no snapshot yet; bad"}, status)
}
