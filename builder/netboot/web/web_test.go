package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/clusterpart"
	"spore/builder/netboot/roster"
	"spore/cluster"
)

// folder is one of network boot for examples/edge, with a root of this size.
func folder(t testing.TB, size int) string {
	t.Helper()
	dir := t.TempDir()
	config, report := cluster.LoadDir("../../../examples/edge")
	require.NoError(t, report.Err())
	f, err := os.Create(filepath.Join(dir, "cluster.squashfs"))
	require.NoError(t, err)
	_, err = clusterpart.Write(f, config, 1_700_000_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Mkdir(filepath.Join(dir, "ipxe"), 0o755))
	root := make([]byte, size)
	for i := range root {
		root[i] = byte(i * 7)
	}
	for name, data := range map[string][]byte{
		"root.squashfs": root, "root.verity": []byte("verity"), "vmlinuz": []byte("kernel"), "initrd": []byte("initrd"), "cmdline": []byte("roothash=aa ro"),
		"spore.efi": []byte("MZ"), "boot.ipxe": []byte("#!ipxe\n"), "ipxe/undionly.kpxe": []byte("pxe"), "secret": []byte("not to be read"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	return dir
}

func options(t testing.TB, dir string) Options {
	t.Helper()
	nodes, err := roster.Read(filepath.Join(dir, "cluster.squashfs"))
	require.NoError(t, err)
	return Options{Dir: dir, Base: "http://10.77.0.2/", Roster: roster.New(nodes, time.Now)}
}

func get(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFilesAndRanges(t *testing.T) {
	h := Handler(options(t, folder(t, 3<<20)))
	w := get(h, "GET", "/root.squashfs")
	require.Equal(t, 200, w.Code)
	require.Equal(t, 3<<20, w.Body.Len())
	require.Equal(t, "bytes", w.Header().Get("Accept-Ranges"))

	w = get(h, "GET", "/root.squashfs", "Range", "bytes=3145720-")
	require.Equal(t, 206, w.Code)
	require.Equal(t, 8, w.Body.Len())
	require.Equal(t, "bytes 3145720-3145727/3145728", w.Header().Get("Content-Range"))

	w = get(h, "GET", "/root.squashfs", "Range", "bytes=9999999-")
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, w.Code)

	w = get(h, "HEAD", "/spore.efi")
	require.Equal(t, "2", w.Header().Get("Content-Length"))
	require.Equal(t, "application/efi", w.Header().Get("Content-Type"))
	require.Equal(t, "pxe", get(h, "GET", "/ipxe/undionly.kpxe").Body.String())
}

func TestADownloadIsNotResumedInAnotherBuild(t *testing.T) {
	dir := folder(t, 1000)
	h := Handler(options(t, dir))
	tag := get(h, "HEAD", "/root.squashfs").Header().Get("ETag")
	require.Equal(t, 206, get(h, "GET", "/root.squashfs", "Range", "bytes=500-", "If-Range", tag).Code)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), make([]byte, 1000), 0o644))
	require.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "root.squashfs")))
	w := get(h, "GET", "/root.squashfs", "Range", "bytes=500-", "If-Range", tag)
	require.Equal(t, 200, w.Code)
	require.Equal(t, 1000, w.Body.Len())
}

func TestWhatIsNotServed(t *testing.T) {
	h := Handler(options(t, folder(t, 10)))
	for _, target := range []string{"/secret", "/../secret", "/ipxe/../secret", "/ipxe/..%2fsecret", "/ipxe/", "/ipxe/..", "/ipxe/missing", "/vm/", "/root.squashfs/x"} {
		w := get(h, "GET", "http://10.77.0.2"+target)
		require.NotEqual(t, 200, w.Code, target)
		require.NotContains(t, w.Body.String(), "not to be read")
	}
	require.Equal(t, http.StatusMethodNotAllowed, get(h, "PUT", "/root.squashfs").Code)
	require.Equal(t, http.StatusNotFound, get(h, "POST", "/enroll").Code, "without a handler there is no enrolment")
}

func TestEachMachineGetsItsScript(t *testing.T) {
	o := options(t, folder(t, 10))
	var seen []string
	o.Seen = func(m roster.Machine, fresh bool) {
		seen = append(seen, fmt.Sprintf("%v %s %v", m.MACs, m.Node, fresh))
	}
	h := Handler(o)
	start := get(h, "GET", "/start.ipxe").Body.String()
	require.Contains(t, start, "chain --autofree node.ipxe?")

	known := get(h, "GET", "http://10.77.0.2/node.ipxe?mac=52-54-00-77-00-0b&mac=&mac=&serial=&uuid=&ip=10.77.0.11")
	require.Contains(t, known.Body.String(), "this machine is edge-01 of cluster plant, by its mac 52:54:00:77:00:0b")
	require.Contains(t, known.Body.String(), "kernel --name ro spore.efi roothash=aa ro spore.url=http://10.77.0.2/")
	require.Equal(t, "no-store", known.Header().Get("Cache-Control"))

	unknown := get(h, "GET", "http://10.77.0.2/node.ipxe?mac=52-54-00-99-00-01&serial=SN-0815%20%24%7Bx%7D&uuid=3a5b8f0e-0000-4000-8000-0000000000ff&ip=10.77.0.200").Body.String()
	for _, want := range []string{"UNKNOWN MACHINE", "52:54:00:99:00:01", "SN-0815", "3a5b8f0e-0000-4000-8000-0000000000ff", "10.77.0.200", "cluster.yaml"} {
		require.Contains(t, unknown, want)
	}
	require.NotContains(t, unknown, "${x}")
	require.Equal(t, []string{"[52:54:00:77:00:0b] edge-01 true", "[52:54:00:99:00:01]  true"}, seen)
	require.Len(t, o.Roster.Machines(), 2, "the operator is shown both")

	both := get(h, "GET", "http://10.77.0.2/node.ipxe?mac=52-54-00-99-00-02&ip=10.77.0.12&hostname=dns-01").Body.String()
	require.Contains(t, both, "this machine would be more than one node")

	for _, bad := range []string{"?mac=%zz", "?" + strings.Repeat("mac=x;", 3)} {
		require.Equal(t, http.StatusBadRequest, get(h, "GET", "http://10.77.0.2/node.ipxe"+bad).Code)
	}
}

func TestAMachineIsToldToInstallItselfUntilItSaysThatItHas(t *testing.T) {
	o := options(t, folder(t, 10))
	done := map[string]bool{}
	o.Install = func(node string) ([]string, bool) { return []string{"spore.install=DISK0001"}, done[node] }
	o.Installed = func(node, disk string) bool {
		done[node] = disk == "DISK0001"
		return done[node]
	}
	h := Handler(o)
	const who = "?mac=52-54-00-77-00-0b"
	for range 2 {
		require.Contains(t, get(h, "GET", "/node.ipxe"+who).Body.String(), "spore.install=DISK0001", "a start that failed is made again")
	}
	for _, other := range []string{"/installed" + who + "&disk=DISK0002", "/installed" + who, "/installed?mac=52-54-00-99-00-01&disk=DISK0001"} {
		require.Equal(t, http.StatusNotFound, get(h, "POST", other).Code, other)
	}
	require.Equal(t, http.StatusBadRequest, get(h, "POST", "/installed?mac=%zz").Code)
	require.Equal(t, http.StatusMethodNotAllowed, get(h, "GET", "/installed"+who+"&disk=DISK0001").Code)
	require.Contains(t, get(h, "GET", "/node.ipxe"+who).Body.String(), "spore.install=DISK0001")

	require.Equal(t, http.StatusNoContent, get(h, "POST", "/installed"+who+"&disk=DISK0001").Code)
	require.Contains(t, get(h, "GET", "/node.ipxe"+who).Body.String(), "set spore-next disk")
	require.Equal(t, http.StatusNoContent, get(h, "POST", "/installed"+who+"&disk=DISK0001").Code, "it may say so again")
	require.NotContains(t, get(h, "GET", "/node.ipxe?mac=52-54-00-99-00-01").Body.String(), "spore.install", "an unknown machine is never installed")

	o.Installed = nil
	require.Equal(t, http.StatusNotFound, get(Handler(o), "POST", "/installed"+who+"&disk=DISK0001").Code)
}

func TestAMachineGetsItsAnswerFile(t *testing.T) {
	o := options(t, folder(t, 10))
	asked := ""
	o.Answers = func(node string) []byte { asked = node; return []byte("node: " + node + "\n") }
	const who = "/answers?mac=52-54-00-77-00-0b"
	r := get(Handler(o), "GET", who)
	require.Equal(t, http.StatusOK, r.Code)
	require.Equal(t, "node: "+asked+"\n", r.Body.String())
	require.Equal(t, http.StatusNotFound, get(Handler(o), "GET", "/answers?mac=52-54-00-99-00-01").Code, "an unknown machine gets none")
	require.Equal(t, http.StatusBadRequest, get(Handler(o), "GET", "/answers?mac=%zz").Code)
	o.Answers = func(string) []byte { return nil }
	require.Equal(t, http.StatusNotFound, get(Handler(o), "GET", who).Code)
	o.Answers = nil
	require.Equal(t, http.StatusNotFound, get(Handler(o), "GET", who).Code)
}

func TestTheURLOfTheFolderIsTheOneThatTheMachineUsed(t *testing.T) {
	h := &handler{Options{Base: "http://10.77.0.2/"}}
	for host, want := range map[string]string{
		"10.77.0.2": "http://10.77.0.2/", "192.0.2.7:8080": "http://192.0.2.7:8080/", "example.org": "http://10.77.0.2/",
		"10.77.0.2:99999": "http://10.77.0.2/", "10.77.0.9 || evil": "http://10.77.0.2/", "": "http://10.77.0.2/", "[::1]:80": "http://10.77.0.2/",
	} {
		require.Equal(t, want, h.base(&http.Request{Host: host}), host)
	}
}

func TestEnrolmentIsBounded(t *testing.T) {
	o := options(t, folder(t, 10))
	o.Enroll = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		fmt.Fprint(w, n)
	})
	h := Handler(o)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/enroll", strings.NewReader("hello")))
	require.Equal(t, "5", w.Body.String())
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/enroll", strings.NewReader(strings.Repeat("x", maxBody+1))))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
}

// running is a server on the loopback.
func running(t testing.TB, o Options) netip.AddrPort {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Listen(ctx, netip.MustParseAddrPort("127.0.0.1:0"), o)
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s.Address()
}

func TestWhatWasSentIsReported(t *testing.T) {
	o := options(t, folder(t, 5<<20))
	var mu sync.Mutex
	var sent []Sent
	o.Sent = func(s Sent) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, s)
	}
	at := running(t, o)
	r, err := http.Get("http://" + at.String() + "/root.squashfs")
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	r.Body.Close()
	require.EqualValues(t, 5<<20, n)
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(sent) == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, Sent{"127.0.0.1", "root.squashfs", 5 << 20, true, sent[0].Took}, sent[0])
}

func TestARequestThatDoesNotEndIsCutOff(t *testing.T) {
	conn, err := net.Dial("tcp", running(t, options(t, folder(t, 10))).String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /root.squashfs HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", 64<<10))
	if err == nil {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		answer, _ := io.ReadAll(conn)
		require.Contains(t, string(answer), "431")
	}
}

func FuzzParseMachine(f *testing.F) {
	f.Add("mac=52-54-00-77-00-0b&mac=&serial=SN-0815&uuid=3a5b8f0e-0000-4000-8000-0000000000ff&ip=10.77.0.11&hostname=edge-01&platform=efi")
	f.Add("mac=52:54:00:77:00:0b&mac=zz&ip=fe80::1%25eth0&serial=%00")
	f.Fuzz(func(t *testing.T, query string) {
		m, err := parseMachine(query)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(m.MACs), maxMACs)
		for _, v := range []string{m.Serial, m.UUID, m.Address, m.Hostname} {
			require.LessOrEqual(t, len(v), maxValue)
			require.False(t, strings.ContainsAny(v, "\n\r\x00\x1b"))
		}
	})
}
