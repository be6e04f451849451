package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

const digits = "00112233445566778899aabbccddeeff"

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// at is a snapshot that was taken so long after noon.
func at(d time.Duration) Entry {
	return Entry{Name: Name{Taken: noon.Add(d), Revision: int64(d / time.Second), Node: "m", Hash: digits}, Size: 10}
}

func hours(list []Entry) (out []string) {
	for _, e := range list {
		out = append(out, e.Name.Taken.Format("02T15"))
	}
	return out
}

func TestWhatIsKept(t *testing.T) {
	h := func(hours ...int) (out []Entry) {
		for _, n := range hours {
			out = append(out, at(time.Duration(n)*time.Hour))
		}
		return out
	}
	for _, tt := range []struct {
		name       string
		list       []Entry
		keep       Keep
		want, drop []string
	}{
		{"nothing", nil, Keep{3, 7}, nil, nil},
		{"the newest", h(-3, 0, -1, -2), Keep{2, 0}, []string{"22T12", "22T11"}, []string{"22T10", "22T09"}},
		{"never none", h(-1, 0), Keep{0, 0}, []string{"22T12"}, []string{"22T11"}},
		{"the last one of each day besides", h(0, -1, -13, -14, -37, -38, -61), Keep{1, 3}, []string{"22T12", "21T23", "20T23"}, []string{"22T11", "21T22", "20T22", "19T23"}},
		{"days without any do not count", h(0, -240), Keep{1, 2}, []string{"22T12", "12T12"}, nil},
		{"those of a clock that was ahead are the first to go", h(0, -1, 24*365, 2), Keep{2, 9}, []string{"22T12", "22T11"}, []string{"22T12", "22T14"}},
		{"those of a clock that was a little ahead count", []Entry{at(0), at(30 * time.Minute)}, Keep{1, 0}, []string{"22T12"}, []string{"22T12"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			keep, drop := tt.keep.Choose(tt.list, noon)
			require.Equal(t, tt.want, hours(keep))
			require.ElementsMatch(t, tt.drop, hours(drop))
		})
	}
}

func TestWhenTheNextIsDue(t *testing.T) {
	for _, tt := range []struct {
		name string
		list []Entry
		rank int
		want bool
	}{
		{"there is none yet", nil, 2, true},
		{"the last is younger than the interval", []Entry{at(-59 * time.Minute)}, 0, false},
		{"it is as old", []Entry{at(-60 * time.Minute), at(-200 * time.Minute)}, 0, true},
		{"it is the first master's turn", []Entry{at(-60 * time.Minute)}, 1, false},
		{"the first master did not", []Entry{at(-67 * time.Minute)}, 1, true},
		{"the second is in time", []Entry{at(-67 * time.Minute)}, 2, false},
		{"a clock that was ahead takes no turn", []Entry{at(-60 * time.Minute), at(1000 * time.Hour)}, 0, true},
		{"all were of a clock that was ahead", []Entry{at(1000 * time.Hour)}, 0, true},
	} {
		require.Equal(t, tt.want, Due(tt.list, noon, time.Hour, tt.rank), tt.name)
	}
}

// put makes a snapshot with a content.
func put(t *testing.T, d Dir, taken time.Time, content string) Entry {
	t.Helper()
	w, err := d.Draft()
	require.NoError(t, err)
	_, err = io.WriteString(w, content)
	require.NoError(t, err)
	n := Name{Taken: taken, Revision: 7, Node: "master-1", Hash: w.Hash()}
	require.NoError(t, w.Commit(n))
	w.Discard()
	return Entry{Name: n, Size: int64(len(content))}
}

func TestASnapshotIsThereWholeOrNotAtAll(t *testing.T) {
	d := Dir{Path: filepath.Join(t.TempDir(), "snapshots")}
	list, err := d.List()
	require.NoError(t, err, "no directory is no error")
	require.Empty(t, list)
	unlock, err := d.Lock(t.Context())
	require.NoError(t, err)
	e := put(t, d, noon, "content")
	half, err := d.Draft()
	require.NoError(t, err)
	_, err = io.WriteString(half, "cut off")
	require.NoError(t, err)
	require.ErrorContains(t, half.Commit(e.Name), "is damaged", "another content under this name")
	require.NoError(t, os.WriteFile(filepath.Join(d.Path, "notes.txt"), nil, 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(d.Path, Name{Taken: noon, Revision: 8, Node: "dir", Hash: digits}.String()), 0o755))
	list, err = d.List()
	require.NoError(t, err)
	require.Equal(t, []Entry{e}, list)
	require.NoError(t, d.Check(e.Name))

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = d.Lock(ctx)
	require.ErrorContains(t, err, "another process")
	unlock()
	unlock, err = d.Lock(t.Context())
	require.NoError(t, err)
	defer unlock()
	left, err := filepath.Glob(filepath.Join(d.Path, ".draft-*"))
	require.NoError(t, err)
	require.Empty(t, left, "what was cut off is gone")

	require.NoError(t, os.WriteFile(d.At(e.Name), []byte("cOntent"), 0o644))
	require.ErrorContains(t, d.Check(e.Name), "is damaged")
	require.ErrorIs(t, d.Check(at(0).Name), os.ErrNotExist)
}

func TestRoom(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name      string
		free, all uint64
		need      uint64
		taken     time.Time
		left      []string
		problem   string
	}{
		{"enough", 1000 * mib, 1000 * mib, 100, noon, []string{"22T12", "22T11", "22T10", "22T09"}, ""},
		{"the oldest make it", 256 * mib, 1000 * mib, 15, noon.Add(time.Hour), []string{"22T12", "22T11"}, ""},
		{"one is enough", 256*mib + 5, 1000 * mib, 15, noon.Add(time.Hour), []string{"22T12", "22T11", "22T10"}, ""},
		{"the newest two stay", 256 * mib, 1000 * mib, 31, noon.Add(time.Hour), []string{"22T12", "22T11", "22T10", "22T09"}, "no room"},
		{"an old one drops none that is newer", 256 * mib, 1000 * mib, 5, noon.Add(-10 * time.Hour), []string{"22T12", "22T11", "22T10", "22T09"}, "no room"},
		{"a tenth stays free", 999 * mib, 10000 * mib, 100, noon, []string{"22T12", "22T11", "22T10", "22T09"}, "no room"},
		{"of a large disk no more than 4 GiB", 4200 * mib, 10e12, 50 * mib, noon, []string{"22T12", "22T11", "22T10", "22T09"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Dir{Path: t.TempDir(), Space: func(string) (uint64, uint64, error) { return tt.free, tt.all, nil }}
			for i := range 4 {
				put(t, d, noon.Add(-time.Duration(i)*time.Hour), fmt.Sprintf("content %02d", i))
			}
			_, err := d.Room(tt.need, tt.taken, noon)
			if tt.problem != "" {
				require.ErrorIs(t, err, ErrNoRoom)
				require.ErrorContains(t, err, tt.problem)
			} else {
				require.NoError(t, err)
			}
			list, err := d.List()
			require.NoError(t, err)
			Sort(list, noon)
			require.Equal(t, tt.left, hours(list))
		})
	}
}

func TestRoomOfThisDisk(t *testing.T) {
	d := Dir{Path: t.TempDir()}
	_, err := d.Room(1<<60, noon, noon)
	require.ErrorIs(t, err, ErrNoRoom)
}

func TestPrune(t *testing.T) {
	d := Dir{Path: t.TempDir()}
	for i := range 5 {
		put(t, d, noon.Add(-time.Duration(i)*time.Hour), fmt.Sprint(i))
	}
	dropped, err := d.Prune(Keep{2, 0}, noon)
	require.NoError(t, err)
	require.Len(t, dropped, 3)
	list, err := d.List()
	require.NoError(t, err)
	Sort(list, noon)
	require.Equal(t, []string{"22T12", "22T11"}, hours(list))
}

// peers are masters that answer with Handler, or with what stands in for them.
type peers map[string]http.Handler

func (p peers) Get(ctx context.Context, node, path string) (io.ReadCloser, error) {
	if p[node] == nil {
		return nil, errors.New("no answer")
	}
	w := httptest.NewRecorder()
	p[node].ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("it answers %d: %s", w.Code, strings.TrimSpace(w.Body.String()))
	}
	return io.NopCloser(w.Body), nil
}

func TestGatheringFromOthers(t *testing.T) {
	a, b, own := Dir{Path: t.TempDir()}, Dir{Path: t.TempDir()}, Dir{Path: t.TempDir()}
	shared := put(t, a, noon, "shared")
	put(t, b, noon, "shared")
	put(t, own, noon.Add(-time.Hour), "own")
	put(t, b, noon.Add(-2*time.Hour), "of b")
	put(t, b, noon.Add(-5*time.Hour), "too old")
	p := peers{"a": Handler(a), "b": Handler(b)}
	got, err := own.Gather(t.Context(), p, []string{"a", "b", "c"}, Keep{3, 0}, noon)
	require.ErrorContains(t, err, "ask c for its snapshots: no answer", "one that is off keeps nobody")
	require.Len(t, got, 2)
	list, err := own.List()
	require.NoError(t, err)
	Sort(list, noon)
	require.Equal(t, []string{"22T12", "22T11", "22T10"}, hours(list))
	for _, e := range list {
		require.NoError(t, own.Check(e.Name))
	}
	got, err = own.Gather(t.Context(), p, []string{"a", "b"}, Keep{3, 0}, noon)
	require.NoError(t, err)
	require.Empty(t, got, "nothing is got twice")

	require.NoError(t, os.WriteFile(a.At(shared.Name), []byte("shAred"), 0o644))
	fresh := Dir{Path: t.TempDir()}
	got, err = fresh.Gather(t.Context(), p, []string{"a", "b"}, Keep{1, 0}, noon)
	require.NoError(t, err, "the next one has it whole")
	require.Equal(t, []Name{shared.Name}, got)
	alone := Dir{Path: t.TempDir()}
	_, err = alone.Gather(t.Context(), p, []string{"a"}, Keep{1, 0}, noon)
	require.ErrorContains(t, err, "is damaged")
	list, err = alone.List()
	require.NoError(t, err)
	require.Empty(t, list)

	full := Dir{Path: t.TempDir(), Space: func(string) (uint64, uint64, error) { return 0, 1 << 30, nil }}
	_, err = full.Gather(t.Context(), p, []string{"b"}, Keep{3, 0}, noon)
	require.ErrorIs(t, err, ErrNoRoom)
}

func TestWhatAnotherMasterMayNotAnswer(t *testing.T) {
	name := at(0).Name.String()
	for _, tt := range []struct{ name, list, body, problem string }{
		{"no JSON", "hello", "", "read the list"},
		{"a name that is none", `{"snapshots":[{"name":"../../etc/passwd","size":1}]}`, "", "is not the name of a snapshot"},
		{"a size of nothing", `{"snapshots":[{"name":"` + name + `","size":0}]}`, "", "has 0 bytes"},
		{"a size beyond all", `{"snapshots":[{"name":"` + name + `","size":99999999999999}]}`, "", "has 99999999999999 bytes"},
		{"one twice", `{"snapshots":[{"name":"` + name + `","size":1},{"name":"` + name + `","size":2}]}`, "", "twice"},
		{"a list without end", `{"snapshots":[]}` + strings.Repeat(" ", 1<<20), "", "more than"},
		{"too many", `{"snapshots":[` + strings.Repeat(`{},`, 4096) + `{}]}`, "", "more than 4096 entries"},
		{"less than it said", `{"snapshots":[{"name":"` + name + `","size":3}]}`, "ab", "not the 3 bytes"},
		{"more than it said", `{"snapshots":[{"name":"` + name + `","size":3}]}`, strings.Repeat("x", 1<<20), "not the 3 bytes"},
		{"something else", `{"snapshots":[{"name":"` + name + `","size":3}]}`, "abc", "is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := peers{"a": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == nodeapi.SnapshotsPath {
					io.WriteString(w, tt.list)
					return
				}
				io.WriteString(w, tt.body)
			})}
			d := Dir{Path: t.TempDir()}
			got, err := d.Gather(t.Context(), p, []string{"a"}, Keep{3, 3}, noon)
			require.ErrorContains(t, err, tt.problem)
			require.Empty(t, got)
			left, err := os.ReadDir(d.Path)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestTheHandler(t *testing.T) {
	d := Dir{Path: t.TempDir()}
	e := put(t, d, noon, "content")
	secret := filepath.Join(filepath.Dir(d.Path), "secret")
	require.NoError(t, os.WriteFile(secret, nil, 0o644))
	server := httptest.NewServer(Handler(d))
	defer server.Close()
	for _, tt := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", nodeapi.SnapshotsPath, 200, `{"snapshots":[{"name":"` + e.Name.String() + `","size":7}]}` + "\n"},
		{"GET", nodeapi.SnapshotsPath + "/" + e.Name.String(), 200, "content"},
		{"GET", nodeapi.SnapshotsPath + "/" + at(0).Name.String(), 404, "no such snapshot"},
		{"GET", nodeapi.SnapshotsPath + "/", 400, "is not the name"},
		{"GET", nodeapi.SnapshotsPath + "/.lock", 400, "is not the name"},
		{"GET", nodeapi.SnapshotsPath + "/../secret", 400, "is not the name"},
		{"GET", nodeapi.SnapshotsPath + "/%2e%2e%2fsecret", 400, "is not the name"},
		{"GET", nodeapi.SnapshotsPath + "x", 404, ""},
		{"POST", nodeapi.SnapshotsPath, 405, "only GET"},
		{"DELETE", nodeapi.SnapshotsPath + "/" + e.Name.String(), 405, "only GET"},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			req, err := http.NewRequest(tt.method, server.URL+tt.path, nil)
			require.NoError(t, err)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, tt.code, res.StatusCode, string(body))
			require.Contains(t, string(body), tt.want)
		})
	}
	sum := sha256.Sum256([]byte("content"))
	require.Equal(t, hex.EncodeToString(sum[:16]), e.Name.Hash, "anybody can check it with sha256sum")
}

func TestWhatCouldNotGetItsNameIsDiscarded(t *testing.T) {
	d := Dir{Path: t.TempDir()}
	w, err := d.Draft()
	require.NoError(t, err)
	n := Name{Taken: noon, Revision: 7, Node: "master-1", Hash: w.Hash()}
	require.NoError(t, os.Mkdir(d.At(n), 0o700))
	require.ErrorContains(t, w.Commit(n), "keep a snapshot")
	w.Discard()
	entries, err := os.ReadDir(d.Path)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
