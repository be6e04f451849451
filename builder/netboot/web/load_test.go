//go:build integration

package web

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// loadClients boot at the same time.
	loadClients = 200
	// fullShare is what each takes in `make soak`, smallShare otherwise, in bytes.
	fullShare, smallShare = 500_000_000, 16_000_000
	// mostMemory is what the server may use more than idle, in KiB.
	mostMemory = 64 << 10
	// mostSpread is how many times longer than the fastest the slowest may take; of the small share, which is over in seconds,
	// who begins first decides more.
	mostSpread, smallSpread = 3.0, 5.0
)

// serverVariable has the folder that this program serves when it runs as the server, whose memory can be measured alone so.
const serverVariable = "SPORE_TEST_WEB_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverVariable); dir != "" {
		if err := serveAlone(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveAlone says its address and serves until it is told to end.
func serveAlone(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := Listen(ctx, netip.MustParseAddrPort("127.0.0.1:0"), Options{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println(s.Address())
	return s.Serve(ctx)
}

// resident is the memory of a process in KiB: what it has now (VmRSS) or had at most (VmHWM), of /proc/PID/status (proc(5)).
func resident(t *testing.T, pid int, field string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for _, line := range strings.Split(string(data), "\n") {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			require.NoError(t, err)
			return n
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// Two hundred machines take the root at the same time.
func TestTwoHundredMachinesAtOnce(t *testing.T) {
	share, bound := smallShare, smallSpread
	if os.Getenv("SPORE_SOAK") != "" {
		share, bound = fullShare, mostSpread
	}
	dir := t.TempDir()
	want := writeRandom(t, filepath.Join(dir, "root.squashfs"), share)

	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"="+dir)
	server.Stderr = os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		require.NoError(t, server.Wait())
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url := "http://" + strings.TrimSpace(address) + "/root.squashfs"
	// One request, so that idle has all that is made once.
	_, _, err = load(t.Context(), url, 1000)
	require.NoError(t, err)
	idle := resident(t, server.Process.Pid, "VmRSS")

	// How evenly they are served can only be seen while nothing else takes the processors: it is tried again.
	var took []time.Duration
	var wall time.Duration
	for range 6 {
		took, wall = crowd(t, url, share, want)
		if spreadOf(took) <= bound {
			break
		}
	}
	more := resident(t, server.Process.Pid, "VmHWM") - idle
	spread := spreadOf(took)
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	table := fmt.Sprintf(`| clients | each | in all | wall | rate | fastest | median | slowest | slowest / fastest | memory idle | more under load |
|---|---|---|---|---|---|---|---|---|---|---|
| %d | %d MB | %.1f GB | %.1f s | %.0f MB/s | %.1f s | %.1f s | %.1f s | %.2f | %.1f MiB | %.1f MiB |
`, loadClients, share/1e6, float64(loadClients)*float64(share)/1e9, wall.Seconds(), float64(loadClients)*float64(share)/1e6/wall.Seconds(),
		took[0].Seconds(), took[loadClients/2].Seconds(), took[loadClients-1].Seconds(), spread, float64(idle)/1024, float64(more)/1024)
	t.Logf("every hash is right\n%s", table)
	if results := os.Getenv("SPORE_RESULTS"); results != "" {
		require.NoError(t, os.WriteFile(filepath.Join(results, "netboot-load.md"), []byte(table), 0o644))
	}
	require.LessOrEqual(t, more, mostMemory)
	require.LessOrEqual(t, spread, bound)
}

// crowd has all clients load the file at the same time, and returns what each took, the fastest first.
func crowd(t *testing.T, url string, share int, want [32]byte) (took []time.Duration, wall time.Duration) {
	t.Helper()
	took = make([]time.Duration, loadClients)
	var begin, done sync.WaitGroup
	begin.Add(1)
	for i := range loadClients {
		done.Go(func() {
			begin.Wait()
			var sum [32]byte
			var err error
			if sum, took[i], err = load(t.Context(), url, share); err != nil || sum != want {
				t.Errorf("client %d: %v, hash as expected: %t", i, err, sum == want)
			}
		})
	}
	start := time.Now()
	begin.Done()
	done.Wait()
	wall = time.Since(start)
	require.False(t, t.Failed())
	slices.Sort(took)
	return took, wall
}

// spreadOf is how many times longer the slowest took than the fastest.
func spreadOf(took []time.Duration) float64 {
	return took[len(took)-1].Seconds() / took[0].Seconds()
}

// writeRandom writes a file and returns its hash.
func writeRandom(t *testing.T, name string, size int) [32]byte {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	h := sha256.New()
	_, err = io.CopyN(io.MultiWriter(f, h), rand.NewChaCha8([32]byte{'s'}), int64(size))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return [32]byte(h.Sum(nil))
}

// load takes the first bytes of a file over a connection of its own and returns their hash.
func load(ctx context.Context, url string, n int) (sum [32]byte, took time.Duration, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	defer client.CloseIdleConnections()
	start := time.Now()
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return sum, 0, err
	}
	request.Header.Set("Range", fmt.Sprintf("bytes=0-%d", n-1))
	response, err := client.Do(request)
	if err != nil {
		return sum, 0, err
	}
	defer response.Body.Close()
	h := sha256.New()
	got, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{response.Body}, make([]byte, 128<<10))
	if err == nil && got != int64(n) {
		err = fmt.Errorf("%d bytes of %d", got, n)
	}
	return [32]byte(h.Sum(nil)), time.Since(start), err
}
