package netroot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/format/verity"
	"spore/agent/stage1/httpget"
)

// built is an image of random data with trees of veritysetup.
type built struct {
	files             map[string][]byte
	root, clusterHash string
}

var build = sync.OnceValues(func() (built, error) {
	dir, err := os.MkdirTemp("", "netroot")
	if err != nil {
		return built{}, err
	}
	defer os.RemoveAll(dir)
	noise := func(blocks int) []byte {
		b := make([]byte, blocks*verity.BlockSize)
		rand.New(rand.NewSource(int64(blocks))).Read(b)
		return b
	}
	root, cluster := noise(1500), noise(9)
	le := binary.LittleEndian
	copy(cluster, "hsqs")
	le.PutUint32(cluster[12:], 1<<17)
	le.PutUint16(cluster[22:], 17)
	le.PutUint16(cluster[28:], 4)
	le.PutUint16(cluster[30:], 0)
	le.PutUint64(cluster[40:], uint64(len(cluster)-100))
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("root"), root, 0o600), os.WriteFile(at("cluster"), cluster, 0o600)); err != nil {
		return built{}, err
	}
	hash := func(args ...string) (string, error) {
		out, err := exec.Command("veritysetup", append([]string{"format"}, args...)...).CombinedOutput()
		m := regexp.MustCompile(`Root hash:\s+([0-9a-f]{64})`).FindSubmatch(out)
		if err != nil || m == nil {
			return "", fmt.Errorf("veritysetup (run make deps): %w: %s", err, out)
		}
		return string(m[1]), nil
	}
	b := built{files: map[string][]byte{RootName: root}}
	if b.root, err = hash(at("root"), at("tree")); err != nil {
		return built{}, err
	}
	if b.clusterHash, err = hash("--hash-offset="+fmt.Sprint(len(cluster)), "--data-blocks=9", at("cluster"), at("cluster")); err != nil {
		return built{}, err
	}
	for name, file := range map[string]string{VerityName: "tree", ClusterName: "cluster"} {
		if b.files[name], err = os.ReadFile(at(file)); err != nil {
			return built{}, err
		}
	}
	return b, nil
})

// server serves files; before is asked first and may answer itself.
type server struct {
	mu     sync.Mutex
	files  map[string][]byte
	before func(w http.ResponseWriter, r *http.Request) (done bool)
	asked  []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, path.Base(r.URL.Path)+" "+r.Header.Get("Range"))
	data, before := s.files[path.Base(r.URL.Path)], s.before
	s.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if data == nil {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// lab is a server of the built image and options to fetch it.
func lab(t *testing.T) (*server, Options, *[]string) {
	b, err := build()
	require.NoError(t, err)
	s := &server{files: map[string][]byte{}}
	for name, data := range b.files {
		s.files[name] = bytes.Clone(data)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	u, err := httpget.ParseURL(h.URL + "/image/spore.efi")
	require.NoError(t, err)
	var said []string
	dir := t.TempDir()
	var d net.Dialer
	return s, Options{
		Base: u.Base(), Client: httpget.Client{Dial: d.DialContext, Idle: time.Second}, RootHash: b.root, ClusterHash: b.clusterHash,
		Room: func(int64) (string, error) { return dir, nil }, Stall: 700 * time.Millisecond, First: 5 * time.Millisecond, Longest: 40 * time.Millisecond,
		Say: func(s string) { said = append(said, s) },
	}, &said
}

func same(t *testing.T, f Files) {
	b, err := build()
	require.NoError(t, err)
	for name, part := range map[string]File{RootName: f.Root, VerityName: f.Verity, ClusterName: f.Cluster} {
		data, err := io.ReadAll(io.NewSectionReader(part, 0, 1<<30))
		require.NoError(t, err)
		require.True(t, bytes.Equal(b.files[name], data), name)
		require.Equal(t, int64(len(data)), part.Size)
	}
}

func TestAnImageIsFetched(t *testing.T) {
	s, o, said := lab(t)
	var need int64
	room := o.Room
	o.Room = func(n int64) (string, error) {
		need = n
		require.Len(t, s.asked, 3, "nothing but sizes was asked for")
		return room(n)
	}
	f, err := Fetch(context.Background(), o)
	require.NoError(t, err)
	defer f.Close()
	same(t, f)
	require.Equal(t, f.Root.Size+f.Verity.Size+f.Cluster.Size, need)
	require.Contains(t, strings.Join(*said, "\n"), "root.squashfs: 5.9 MiB in ")
}

func TestATransferThatBreaksGoesOnWhereItWas(t *testing.T) {
	s, o, said := lab(t)
	n := 0
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n++; n%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		if path.Base(r.URL.Path) != RootName || n < 7 {
			return false
		}
		// An odd number of bytes, and the connection is gone.
		data, from := s.files[RootName], 0
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)-from))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(data[from:min(len(data), from+1234567)])
		return true
	}
	f, err := Fetch(context.Background(), o)
	require.NoError(t, err)
	defer f.Close()
	same(t, f)
	text := strings.Join(*said, "\n")
	require.Contains(t, text, "503 Service Unavailable; trying again in ")
	require.Regexp(t, `waiting for root.squashfs: GET http://\S+/image/root.squashfs: after 1232896 of 6144000 bytes: unexpected EOF; trying again in 5ms`, text)
	require.Contains(t, s.asked, "root.squashfs bytes=1232896-", "a block that was cut is asked for again, and nothing before it")
}

func TestAServerThatIsGoneForAWhileIsWaitedFor(t *testing.T) {
	s, o, said := lab(t)
	o.Stall = 10 * time.Second
	gone := time.Time{}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Header.Get("Range") == "" && path.Base(r.URL.Path) == RootName && len(s.asked) > 3 {
			gone = time.Now()
			w.Header().Set("Content-Length", fmt.Sprint(len(s.files[RootName])))
			_, _ = w.Write(s.files[RootName][:2<<20])
			return true
		}
		if gone.IsZero() || time.Since(gone) > 300*time.Millisecond {
			return false
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Close()
		}
		return true
	}
	f, err := Fetch(context.Background(), o)
	require.NoError(t, err)
	defer f.Close()
	same(t, f)
	require.Greater(t, len(*said), 5)
}

func TestAServerThatStaysAwayIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w http.ResponseWriter, r *http.Request) bool
		want   string
	}{
		"it hangs up": {func(w http.ResponseWriter, _ *http.Request) bool {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
			return true
		}, "given up after 0 good bytes"},
		"it has no such file": {func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true }, "root.verity: the server answers 404 Not Found; given up after 0 good bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, o, _ := lab(t)
			s.before = c.before
			start := time.Now()
			_, err := Fetch(context.Background(), o)
			require.ErrorContains(t, err, c.want)
			require.Less(t, time.Since(start), 20*time.Second)
		})
	}
}

func TestNothingButTheImageOfThisKernelIsAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *server, o *Options)
		want   string
	}{
		"a flipped bit of the root":           {func(s *server, _ *Options) { s.files[RootName][777*verity.BlockSize+5] ^= 4 }, "root.squashfs: block 777: it is not what the root hash of this kernel stands for; given up after 3182592 good bytes"},
		"a flipped bit of the tree":           {func(s *server, _ *Options) { s.files[VerityName][2*verity.BlockSize+5] ^= 4 }, "root.verity is refused: block 2 of the verity tree does not lead to the root hash"},
		"a flipped bit of the tree's head":    {func(s *server, _ *Options) { s.files[VerityName][0] ^= 4 }, "root.verity is refused: verity superblock: wrong magic"},
		"a flipped bit of the cluster part":   {func(s *server, _ *Options) { s.files[ClusterName][8*verity.BlockSize] ^= 4 }, "cluster.squashfs is refused: block 8: it is not"},
		"a flipped bit of the cluster's tree": {func(s *server, _ *Options) { s.files[ClusterName][10*verity.BlockSize] ^= 4 }, "cluster.squashfs is refused: block 10 of the verity tree"},
		"no squashfs for a cluster part":      {func(s *server, _ *Options) { s.files[ClusterName][0] ^= 4 }, "cluster.squashfs is refused: squashfs superblock"},
		"a cluster part without a tree":       {func(s *server, _ *Options) { s.files[ClusterName] = s.files[ClusterName][:9*verity.BlockSize] }, "cluster.squashfs is refused: verity superblock: no room"},
		"the root of another build":           {func(_ *server, o *Options) { o.RootHash = strings.Repeat("ab", 32) }, "kernel and parts must be of one build"},
		"the cluster part of another build":   {func(_ *server, o *Options) { o.ClusterHash = strings.Repeat("ab", 32) }, "kernel and parts must be of one build"},
		"a root that is too short":            {func(s *server, _ *Options) { s.files[RootName] = s.files[RootName][:1499*verity.BlockSize] }, "root.verity is refused: verity superblock: 1500 data blocks in a partition of"},
		"an empty file":                       {func(s *server, _ *Options) { s.files[ClusterName] = []byte{} }, "cluster.squashfs is refused: it has 0 bytes"},
		"too little memory":                   {func(_ *server, o *Options) { o.Room = func(int64) (string, error) { return "", errors.New("no room") } }, "no room"},
	} {
		t.Run(name, func(t *testing.T) {
			s, o, _ := lab(t)
			c.change(s, &o)
			_, err := Fetch(context.Background(), o)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestABlockThatCameWrongOnceIsAskedForAgain(t *testing.T) {
	s, o, said := lab(t)
	good, bad := s.files[RootName], bytes.Clone(s.files[RootName])
	bad[777*verity.BlockSize] ^= 1
	n := 0
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if path.Base(r.URL.Path) != RootName {
			return false
		}
		n++
		content := good
		if n == 2 { // The first asks for the size.
			content = bad
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return true
	}
	f, err := Fetch(context.Background(), o)
	require.NoError(t, err)
	defer f.Close()
	same(t, f)
	require.Contains(t, strings.Join(*said, "\n"), "block 777: it is not what the root hash")
}

func TestAnEndOfPatienceIsSeen(t *testing.T) {
	_, o, _ := lab(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Fetch(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
}

func TestMemoryIsCheckedBeforehand(t *testing.T) {
	const info = "MemTotal:        1024000 kB\nMemFree:          100000 kB\nMemAvailable:     800000 kB\n"
	require.NoError(t, CheckMemory(info, 500<<20))
	require.ErrorContains(t, CheckMemory(info, 600<<20), "600 MiB for the image and 256 MiB for everything else; 781 MiB of this machine's 1000 are free")
	for _, bad := range []string{"", "MemTotal: x kB\nMemAvailable: 1 kB", "MemTotal: 5 kB", "MemTotal: 99999999999999999999 kB\nMemAvailable: 5 kB", "MemTotal: -5 kB\nMemAvailable: 5 kB"} {
		require.ErrorContains(t, CheckMemory(bad, 1), "does not say", bad)
	}
}
