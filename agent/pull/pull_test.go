package pull

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/storage/pieces"
	"spore/wire/update"
)

func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) []string {
	return []string{base64.StdEncoding.EncodeToString(key(n).Public().(ed25519.PublicKey))}
}

// published is a folder with an update of so many objects; the first two are its indexes.
func published(t *testing.T, count int) (dir string, objects [][]byte) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "pieces"), 0o755))
	for i := range count {
		o := []byte(strings.Repeat(fmt.Sprintf("object %d ", i), 100))
		objects = append(objects, o)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pieces", pieces.SumOf(o).String()), o, 0o644))
	}
	blob := func(i int) update.Blob {
		return update.Blob{Size: int64(len(objects[i])), SHA256: pieces.SumOf(objects[i]).String()}
	}
	hash := strings.Repeat("a", 64)
	head, err := update.Sign(update.Head{
		Cluster: "id", Nodes: []string{"edge-01"}, Serial: 7, Issued: time.Unix(1_800_000_000, 0), RootHash: hash, ClusterHash: hash,
		Root: update.Root{Size: 4096, Salt: hash, UUID: hash[:32], Index: blob(1)}, Boot: blob(0), UKI: blob(0), Part: blob(0),
	}, key(1))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, Head), head, 0o644))
	return dir, objects
}

// taker is a node that wants objects in their order, so many at once.
type taker struct {
	wants, got [][]byte
	atOnce     int
	// runs says that it runs the update.
	runs   bool
	wishes []slot.Wish
}

func (n *taker) send(_ context.Context, message io.Reader, wish slot.Wish) (*update.Answer, error) {
	n.wishes = append(n.wishes, wish)
	msg, err := io.ReadAll(message)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(bytes.NewReader(msg))
	if _, err := update.Read(r, []ed25519.PublicKey{key(1).Public().(ed25519.PublicKey)}); err != nil {
		return nil, err
	}
	err = update.Objects(r, func(o []byte) error {
		n.got = append(n.got, bytes.Clone(o))
		return nil
	})
	if err != nil {
		return nil, err
	}
	l := &update.Lack{}
	for _, o := range n.wants[len(n.got):] {
		l.Count++
		l.Bytes += int64(len(o))
		if len(l.Objects) < n.atOnce {
			l.Objects = append(l.Objects, pieces.SumOf(o).String())
		}
	}
	if l.Count == 0 || wish.DryRun {
		return &update.Answer{Unchanged: n.runs, Serial: 7, Entry: "x+3.efi", DryRun: wish.DryRun}, nil
	}
	return &update.Answer{Serial: 7, Lacks: l}, nil
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	return &server{base: u.JoinPath("plant"), client: client(), patience: 2 * time.Second, pause: time.Millisecond}
}

func TestAnUpdateIsFetchedFromAFolderAndFromAServer(t *testing.T) {
	dir, objects := published(t, 30)
	files := http.StripPrefix("/plant", http.FileServer(http.Dir(dir)))
	var mu sync.Mutex
	asked := map[string]int{}
	flaky := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		n := asked[r.URL.Path]
		mu.Unlock()
		switch {
		case n == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 2: // The connection breaks in the middle.
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write([]byte("x"))
		default:
			files.ServeHTTP(w, r)
		}
	}
	local, err := Of(dir)
	require.NoError(t, err)
	for name, source := range map[string]Source{"a folder": local, "a server": serve(t, files.ServeHTTP), "a server that fails now and then": serve(t, flaky)} {
		for _, atOnce := range []int{1, 7, 1000} {
			t.Run(fmt.Sprint(name, " ", atOnce), func(t *testing.T) {
				node := &taker{wants: objects, atOnce: atOnce}
				wish := slot.Wish{Pull: true, Reboot: true}
				a, err := fetch(t.Context(), source, public(1), wish, node.send, func(string) {})
				require.NoError(t, err)
				require.Equal(t, "x+3.efi", a.Entry)
				require.Equal(t, objects, node.got)
				require.Equal(t, wish, node.wishes[0])
			})
		}
	}
}

func TestADryRunFetchesTheIndexesAlone(t *testing.T) {
	dir, objects := published(t, 5)
	source, err := Of(dir)
	require.NoError(t, err)
	node := &taker{wants: objects, atOnce: 10}
	a, err := fetch(t.Context(), source, public(1), slot.Wish{DryRun: true}, node.send, func(string) {})
	require.NoError(t, err)
	require.True(t, a.DryRun)
	require.Equal(t, objects[:2], node.got)
	require.Len(t, node.wishes, 1)
}

func TestWhatIsNotFetched(t *testing.T) {
	remove := func(path ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(append([]string{dir}, path...)...)))
		}
	}
	_, objects := published(t, 4)
	// The objects before it were sent, and are not asked for again.
	third := pieces.SumOf(objects[2]).String()
	write := func(content string, path ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(append([]string{dir}, path...)...), []byte(content), 0o644))
		}
	}
	for name, tt := range map[string]struct {
		change func(*testing.T, string)
		keys   []string
		want   string
	}{
		"no head":             {remove(Head), nil, "read the head of the update"},
		"a head that is none": {write("text\n", Head), nil, "malformed"},
		"another cluster's":   {func(*testing.T, string) {}, public(2), "is not signed by this cluster"},
		"without an object":   {remove("pieces", third), nil, "the object " + third[:16]},
		"a damaged object":    {write("other", "pieces", third), nil, "has other content than its name says"},
		"an object of a TiB": {func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "pieces", third), 1<<40))
		}, nil, "bytes"},
		"an object that is not": {func(t *testing.T, dir string) {
			remove("pieces", third)(t, dir)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "pieces", third), 0o755))
		}, nil, third},
		"a link out of it": {func(t *testing.T, dir string) {
			remove("pieces", third)(t, dir)
			require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "pieces", third)))
		}, nil, third},
	} {
		t.Run(name, func(t *testing.T) {
			dir, objects := published(t, 4)
			tt.change(t, dir)
			keys := tt.keys
			if keys == nil {
				keys = public(1)
			}
			local, err := Of(dir)
			require.NoError(t, err)
			sources := []Source{local, serve(t, http.StripPrefix("/plant", http.FileServer(http.Dir(dir))).ServeHTTP)}
			if strings.HasPrefix(name, "a link") || strings.HasPrefix(name, "an object that") {
				sources = sources[:1]
			}
			for _, source := range sources {
				node := &taker{wants: objects, atOnce: 10}
				_, err := fetch(t.Context(), source, keys, slot.Wish{}, node.send, func(string) {})
				require.ErrorContains(t, err, tt.want)
				require.NotContains(t, node.got, objects[2])
				if tt.keys == nil && len(node.wishes) > 0 {
					require.Equal(t, objects[:2], node.got)
				}
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	down := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	down.patience = 50 * time.Millisecond
	_, err := down.Read(t.Context(), Head, 10)
	require.ErrorContains(t, err, "the server answers 502 Bad Gateway")
	forbids := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	began := time.Now()
	_, err = forbids.Read(t.Context(), Head, 10)
	require.ErrorContains(t, err, "403")
	require.Less(t, time.Since(began), time.Second, "another try does not mend that")
	_, err = serve(t, http.NotFound).Read(t.Context(), Head, 10)
	require.ErrorIs(t, err, fs.ErrNotExist)

	ctx, cancel := context.WithCancel(t.Context())
	down.patience, down.pause = time.Hour, time.Hour
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = down.Read(ctx, Head, 10)
	require.Error(t, err)
}

func TestARefusalOfTheNodeEndsIt(t *testing.T) {
	dir, _ := published(t, 3)
	source, err := Of(dir)
	require.NoError(t, err)
	a, err := fetch(t.Context(), source, public(1), slot.Wish{}, func(context.Context, io.Reader, slot.Wish) (*update.Answer, error) {
		return &update.Answer{Error: "the update is refused"}, nil
	}, nil)
	require.NoError(t, err)
	require.Equal(t, "the update is refused", a.Error)
	_, err = fetch(t.Context(), source, public(1), slot.Wish{}, func(context.Context, io.Reader, slot.Wish) (*update.Answer, error) {
		return nil, errors.New("no room")
	}, nil)
	require.ErrorContains(t, err, "no room")
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"ftp://x/", "http://", "https:///x", "http://x/?a", "http://x/#a", "/no/such/folder", "://"} {
		_, err := Of(bad)
		require.Error(t, err, bad)
	}
	for _, good := range []string{"http://x", "https://x:8443/a/b", t.TempDir()} {
		_, err := Of(good)
		require.NoError(t, err, good)
	}
	s, err := Of("https://x/a/")
	require.NoError(t, err)
	require.Equal(t, "https://x/a/pieces/ab", s.(*server).base.JoinPath("pieces/ab").String())
}

// A node takes it by its spool, with the mark that it was fetched.
func TestTheNodesOwnSpoolIsTheWay(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	dir, _ := published(t, 3)
	require.ErrorContains(t, Run(t.Context(), m, "/no/such/folder", slot.Wish{}, io.Discard), "open the folder of updates")
	require.ErrorContains(t, Run(t.Context(), m, dir, slot.Wish{}, io.Discard), "the node takes updates when its API runs")
	require.NoError(t, os.MkdirAll(m.Root.At(paths.Push), 0o700))
	// The cluster of this node has other keys, or none.
	require.ErrorContains(t, Run(t.Context(), m, dir, slot.Wish{}, io.Discard), "the head of the update")
}
