package live

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func lay(t *testing.T, dir, program string, files map[string]string) bool {
	t.Helper()
	changed, err := Lay(dir, program, os.Getgid(), files)
	require.NoError(t, err)
	return changed
}

func TestADirectoryIsReplacedAsAWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "live")
	require.True(t, lay(t, dir, "etcd", map[string]string{"a-certificate": "1", "a-key": "2"}))
	require.False(t, lay(t, dir, "etcd", map[string]string{"a-certificate": "1", "a-key": "2"}), "the same again")
	first, err := filepath.EvalSymlinks(filepath.Join(dir, "etcd"))
	require.NoError(t, err)
	require.True(t, lay(t, dir, "etcd", map[string]string{"a-certificate": "3"}))
	data, err := os.ReadFile(Of(dir, "etcd", "a-certificate"))
	require.NoError(t, err)
	require.Equal(t, "3", string(data))
	require.NoFileExists(t, Of(dir, "etcd", "a-key"))
	require.FileExists(t, filepath.Join(first, "a-key"), "whoever reads it just now reads on")
	require.True(t, lay(t, dir, "etcd", map[string]string{"a-certificate": "4"}))
	require.NoDirExists(t, first)

	for path, mode := range map[string]os.FileMode{dir: 0o711, filepath.Join(dir, "etcd"): 0o750, Of(dir, "etcd", "a-certificate"): 0o640} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm(), path)
	}
}

func TestProgramsDoNotTouchEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "live")
	for _, program := range []string{"kafka", "kafka-bootstrap"} {
		lay(t, dir, program, map[string]string{"k": program})
	}
	for i := range 3 {
		lay(t, dir, "kafka", map[string]string{"k": string(rune('a' + i))})
	}
	data, err := os.ReadFile(Of(dir, "kafka-bootstrap", "k"))
	require.NoError(t, err)
	require.Equal(t, "kafka-bootstrap", string(data))

	require.NoError(t, Remove(dir, func(p string) bool { return p == "kafka-bootstrap" }))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "a link and its directory")
	require.NoError(t, Remove(filepath.Join(dir, "none"), nil), "nothing was laid yet")
}

func TestWhatWasCutOffIsMended(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "live")
	lay(t, dir, "etcd", map[string]string{"k": "1"})
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, ".etcd.next")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".etcd-123"), 0o700))
	lay(t, dir, "etcd", map[string]string{"k": "2"})
	require.NoDirExists(t, filepath.Join(dir, ".etcd-123"))
}

// pair is a certificate with its key.
func pair(t *testing.T, serial int64) map[string]string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return map[string]string{
		"c": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"k": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
}

// A reader that takes certificate and key one after the other, as etcd does for each connection, finds files at all times, and
// hardly ever two that do not belong together.
func TestAReaderFindsFilesAtAllTimes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "live")
	pairs := []map[string]string{pair(t, 1), pair(t, 2)}
	lay(t, dir, "p", pairs[0])
	var stop atomic.Bool
	var reads atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i <= 100 && !stop.Load(); i++ {
			_, err := Lay(dir, "p", os.Getgid(), pairs[i%2])
			if err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Millisecond)
			// The files before stay until the next change, and no longer: an open that meets two changes finds none.
			for n := reads.Load(); reads.Load() == n && !stop.Load(); {
				time.Sleep(100 * time.Microsecond)
			}
		}
		stop.Store(true)
	}()
	defer stop.Store(true)
	torn := int64(0)
	for !stop.Load() {
		c, err := os.ReadFile(Of(dir, "p", "c"))
		require.NoError(t, err)
		k, err := os.ReadFile(Of(dir, "p", "k"))
		require.NoError(t, err)
		reads.Add(1)
		if _, err := tls.X509KeyPair(c, k); err != nil {
			torn++
		}
	}
	<-done
	t.Logf("%d of %d reads met a change between certificate and key, at 100 changes", torn, reads.Load())
	require.LessOrEqual(t, torn, int64(100))
	require.Greater(t, reads.Load(), 10*torn)
}

// Programs of Kubernetes look again only when something happens to the file that they look at: they stay with it when its time
// changes, and turn to what has its name when it is gone.
func TestWhoeverWatchesAFileIsWoken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "live")
	lay(t, dir, "p", map[string]string{"k": "0"})
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	require.NoError(t, err)
	defer unix.Close(fd)
	watch := func() {
		_, err := unix.InotifyAddWatch(fd, Of(dir, "p", "k"), unix.IN_ATTRIB|unix.IN_DELETE_SELF)
		require.NoError(t, err)
	}
	watch()
	for i := 1; i <= 5; i++ {
		want := string(rune('0' + i))
		lay(t, dir, "p", map[string]string{"k": want})
		events := make([]byte, 4096)
		n, err := unix.Read(fd, events)
		require.NoError(t, err, "change %d woke nobody", i)
		data, err := os.ReadFile(Of(dir, "p", "k"))
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		for at := 0; at < n; at += unix.SizeofInotifyEvent {
			if binary.NativeEndian.Uint32(events[at+4:])&unix.IN_DELETE_SELF != 0 {
				watch()
			}
		}
	}
}
