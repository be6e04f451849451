package pods

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/rotated"
	"spore/agent/logs/send"
	"spore/wire/journalexport"
)

const web = "default_web-1_0f6d3c52-9a6e-4f8f-9f0e-2f6b3f3a8a11/nginx"

// node is a folder of pods, and who reads it.
type node struct {
	t    *testing.T
	dir  string
	s    *Source
	r    send.Reader
	time int
	mu   sync.Mutex
	said []string
}

func newNode(t *testing.T) *node {
	n := &node{t: t, dir: filepath.Join(t.TempDir(), "pods")}
	n.s = &Source{Dir: n.dir, State: t.TempDir(), Now: time.Now, Interval: 5 * time.Millisecond, Settle: time.Millisecond, Say: func(s string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.said = append(n.said, s)
	}}
	return n
}

func (n *node) open() {
	n.t.Helper()
	r, err := n.s.Open("1")
	require.NoError(n.t, err)
	n.r = r
	n.t.Cleanup(n.close)
}

func (n *node) close() {
	if n.r != nil {
		require.NoError(n.t, n.r.Close())
		n.r = nil
	}
}

// write adds lines, each with its tags, to a file; each is a nanosecond later.
func (n *node) write(file string, lines ...string) {
	n.t.Helper()
	var b bytes.Buffer
	for _, l := range lines {
		n.time++
		fmt.Fprintf(&b, "%s %s\n", time.Date(2026, 11, 26, 12, 0, 0, n.time, time.UTC).Format(time.RFC3339Nano), l)
	}
	n.raw(file, b.Bytes())
}

func (n *node) raw(file string, data []byte) {
	n.t.Helper()
	path := filepath.Join(n.dir, file)
	require.NoError(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	require.NoError(n.t, err)
	_, err = f.Write(data)
	require.NoError(n.t, err)
	require.NoError(n.t, f.Close())
}

func (n *node) rename(from, to string) {
	n.t.Helper()
	require.NoError(n.t, os.Rename(filepath.Join(n.dir, from), filepath.Join(n.dir, to)))
}

// zip does as kubelet: it removes the file when the compressed one has its name.
func (n *node) zip(file string) {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, file))
	require.NoError(n.t, err)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(data)
	require.NoError(n.t, err)
	require.NoError(n.t, w.Close())
	require.NoError(n.t, os.WriteFile(filepath.Join(n.dir, file+".gz.tmp"), b.Bytes(), 0o640))
	n.rename(file+".gz.tmp", file+".gz")
	require.NoError(n.t, os.Remove(filepath.Join(n.dir, file)))
}

// next is the next batch; nil when there is none for a moment, in which the reader has looked: a busy machine may not
// have let it.
func (n *node) next() *send.Batch {
	n.t.Helper()
	r, begun := n.r.(*reader), time.Now()
	for {
		ctx, cancel := context.WithTimeout(n.t.Context(), 100*time.Millisecond)
		b, err := r.Next(ctx)
		cancel()
		if err == nil {
			return &b
		}
		require.ErrorIs(n.t, err, context.DeadlineExceeded)
		r.mu.Lock()
		looked := r.scanned.Sub(begun) >= 50*time.Millisecond
		r.mu.Unlock()
		if looked {
			return nil
		}
	}
}

// read reads all there is, and acknowledges it.
func (n *node) read() []string {
	n.t.Helper()
	var out []string
	for b := n.next(); b != nil; b = n.next() {
		for _, e := range b.Entries {
			text, _ := e.Get("MESSAGE")
			out = append(out, text)
		}
		require.NoError(n.t, n.r.Done(*b))
	}
	return out
}

func TestALineOfAPodHasItsNamesAndItsPlace(t *testing.T) {
	n := newNode(t)
	n.open()
	require.Empty(t, n.read(), "the folder is not there yet")
	n.write(web+"/0.log", "stdout F hello", "stderr P a long ", "stdout F \x1b[2J\x00", "stderr F line\r")
	b := n.next()
	require.NotNil(t, b)
	id, ok := b.Entries[0].Get(send.CursorField)
	require.True(t, ok)
	require.Regexp(t, `^file=[0-9a-f]{24};offset=0$`, id)
	require.Equal(t, journalexport.Entry{
		{Name: "__CURSOR", Value: []byte(id)}, {Name: "__REALTIME_TIMESTAMP", Value: []byte("1795694400000000")}, {Name: "MESSAGE", Value: []byte("hello")},
		{Name: "_SPORE_SOURCE", Value: []byte("pod")}, {Name: "KUBERNETES_NAMESPACE", Value: []byte("default")},
		{Name: "KUBERNETES_POD", Value: []byte("web-1")}, {Name: "KUBERNETES_CONTAINER", Value: []byte("nginx")},
		{Name: "KUBERNETES_STREAM", Value: []byte("stdout")},
	}, b.Entries[0])
	require.Len(t, b.Entries, 3)
	text, _ := b.Entries[1].Get("MESSAGE")
	require.Equal(t, "\x1b[2J\x00", text)
	text, _ = b.Entries[2].Get("MESSAGE")
	require.Equal(t, "a long line", text)
	stream, _ := b.Entries[2].Get(Stream)
	require.Equal(t, "stderr", stream)
}

func TestWhatIsNotAcknowledgedIsReadAgainWithTheSameCursor(t *testing.T) {
	n := newNode(t)
	n.write(web+"/0.log", "stdout F one", "stdout F two")
	n.open()
	require.Equal(t, []string{"one", "two"}, n.read())
	n.write(web+"/0.log", "stdout F three", "stdout P begun, ", "stderr F four")
	first := n.next()
	require.Len(t, first.Entries, 2)
	n.close()
	n.open()
	second := n.next()
	require.Equal(t, first.Entries, second.Entries)
	require.NoError(t, n.r.Done(*second))
	n.close()
	n.write(web+"/0.log", "stdout F ended")
	n.open()
	require.Equal(t, []string{"four", "begun, ended"}, n.read(), "the place is before what was begun")
	n.close()
	n.open()
	require.Empty(t, n.read())
	require.Zero(t, lostFiles(n.s))
}

func TestAFileIsReadToItsEndWhateverItsNameIs(t *testing.T) {
	n := newNode(t)
	n.write(web+"/0.log", "stdout F 1")
	n.open()
	require.Equal(t, []string{"1"}, n.read())
	n.write(web+"/0.log", "stdout F 2")
	n.rename(web+"/0.log", web+"/0.log.20261126-120000")
	n.write(web+"/0.log.20261126-120000", "stdout F 3", "stdout P 4 ")
	n.write(web+"/0.log", "stdout F and more", "stdout F 5")
	require.Equal(t, []string{"2", "3", "4 and more", "5"}, n.read())
	n.zip(web + "/0.log.20261126-120000")
	require.Empty(t, n.read())

	n.close()
	n.write(web+"/0.log", "stdout F 6")
	n.rename(web+"/0.log", web+"/0.log.20261126-120100")
	n.write(web+"/0.log", "stdout F 7")
	n.zip(web + "/0.log.20261126-120100")
	n.rename(web+"/0.log", web+"/0.log.20261126-120200")
	n.write(web+"/0.log", "stdout F 8")
	n.write(web+"/1.log", "stdout F 9")
	n.open()
	require.Equal(t, []string{"6", "7", "8", "9"}, n.read(), "after a time without a reader")
	require.Zero(t, lostFiles(n.s))
	require.Zero(t, malformed(n.s))
}

func TestAFileThatIsCompressedWhileItIsReadIsReadOnce(t *testing.T) {
	n := newNode(t)
	for i := range 30000 {
		n.write(web+"/0.log.20261126-120000", fmt.Sprintf("stdout F first %d", i))
		if i == 0 {
			n.open()
		}
		if i == 10000 {
			n.write(web+"/0.log", "stdout F last")
		}
	}
	b := n.next()
	require.NotNil(t, b)
	got := len(b.Entries)
	require.NoError(t, n.r.Done(*b))
	n.zip(web + "/0.log.20261126-120000")
	all := n.read()
	require.Equal(t, 30001, got+len(all))
	require.Equal(t, "last", all[len(all)-1])
	require.Zero(t, lostFiles(n.s))
}

func TestWhatWentBeforeItWasReadIsCounted(t *testing.T) {
	n := newNode(t)
	n.write(web+"/0.log", "stdout F 1")
	n.open()
	require.Equal(t, []string{"1"}, n.read())
	n.close()
	require.NoError(t, os.Remove(filepath.Join(n.dir, web+"/0.log")))
	n.write(web+"/0.log", "stdout F 2")
	n.open()
	require.Equal(t, []string{"2"}, n.read())
	require.EqualValues(t, 1, lostFiles(n.s))
	n.close()

	require.NoError(t, os.RemoveAll(filepath.Dir(filepath.Join(n.dir, web))))
	n.open()
	require.Empty(t, n.read())
	require.EqualValues(t, 2, lostFiles(n.s), "nobody knows whether there was more")
	require.Contains(t, strings.Join(n.said, "\n"), "default/web-1/nginx: 1 files were removed before they were read")
	n.close()
	n.open()
	require.Empty(t, n.read())
	require.EqualValues(t, 2, lostFiles(n.s), "it is counted once")
}

func TestThePodThatIsRemovedIsReadToItsEnd(t *testing.T) {
	n := newNode(t)
	n.write(web+"/0.log", "stdout F 1")
	n.open()
	require.Equal(t, []string{"1"}, n.read())
	n.write(web+"/0.log", "stdout F 2")
	require.NoError(t, os.RemoveAll(filepath.Dir(filepath.Join(n.dir, web))))
	require.Equal(t, []string{"2"}, n.read())
	require.Eventually(t, func() bool { n.read(); return n.s.containers.Load() == 0 }, 10*time.Second, time.Millisecond)
	n.close()
	n.open()
	require.Empty(t, n.read())
	require.Zero(t, lostFiles(n.s), "its place was forgotten")
}

func TestAPodThatWritesWithoutEndKeepsNoOtherFromBeingRead(t *testing.T) {
	n := newNode(t)
	line := "2026-11-26T12:00:00.5Z stdout F " + strings.Repeat("x", 100) + "\n"
	n.raw("default_loud_1/a/0.log", []byte("2026-11-26T12:00:00.4Z stdout F first\n"+strings.Repeat(line, 200_000)))
	for i := range 20 {
		n.write(fmt.Sprintf("default_quiet-%d_2/a/0.log", i), "stdout F hello")
	}
	n.open()
	quiet := 0
	for range 2 {
		b := n.next()
		require.NotNil(t, b)
		require.LessOrEqual(t, len(b.Entries), maxEntries+quantum/40)
		for _, e := range b.Entries {
			if text, _ := e.Get("MESSAGE"); text == "hello" {
				quiet++
			}
		}
	}
	require.Equal(t, 20, quiet)
}

func TestLinksPipesAndOtherNamesAreNotRead(t *testing.T) {
	n := newNode(t)
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("2026-11-26T12:00:00Z stdout F secret\n"), 0o600))
	n.write(web+"/0.log", "stdout F good")
	at := func(name string) string { return filepath.Join(n.dir, name) }
	require.NoError(t, os.Symlink(outside, at(web+"/1.log")))
	require.NoError(t, syscall.Mkfifo(at(web+"/2.log"), 0o600))
	require.NoError(t, os.Mkdir(at(web+"/3.log"), 0o755))
	require.NoError(t, os.Symlink(at(filepath.Dir(web)), at("default_linked_1")))
	require.NoError(t, os.Symlink(at(web), at(filepath.Dir(web)+"/other")))
	n.write("default_web_/a/0.log", "stdout F bad")
	n.write("Default_web_1/a/0.log", "stdout F bad")
	n.write("default_web_1/A b/0.log", "stdout F bad")
	n.write(web+"/0.log.bak", "stdout F bad")
	n.raw(web+"/0.log", []byte("no line of a runtime\n\n"+strings.Repeat("\x00", 300_000)+"\n"))
	n.write(web+"/0.log", "stdout F end")
	n.open()
	require.Equal(t, []string{"good", "end"}, n.read())
	require.EqualValues(t, 3, malformed(n.s))
}

func TestALineWithoutEndIsCut(t *testing.T) {
	n := newNode(t)
	part := strings.Repeat("x", 16<<10)
	n.open()
	for range 64 {
		n.write(web+"/0.log", "stdout P "+part)
	}
	n.write(web+"/0.log", "stdout F end", "stdout F next")
	b := n.next()
	for b != nil && len(b.Entries) == 0 {
		b = n.next()
	}
	require.NotNil(t, b)
	text, _ := b.Entries[0].Get("MESSAGE")
	require.Len(t, text, journalexport.MaxValue)
	cut, _ := b.Entries[0].Get(journalexport.Cut)
	require.Equal(t, fmt.Sprint(1<<20+3-journalexport.MaxValue), cut)
	text, _ = b.Entries[1].Get("MESSAGE")
	require.Equal(t, "next", text)
}

func TestEachStoreHasItsOwnPlace(t *testing.T) {
	n := newNode(t)
	n.write(web+"/0.log", "stdout F 1")
	n.open()
	require.Equal(t, []string{"1"}, n.read())
	n.close()
	r, err := n.s.Open("2")
	require.NoError(t, err)
	n.r = r
	require.Equal(t, []string{"1"}, n.read())
}

// as is what f does with the rights of another account. They are those of its thread.
func as(t *testing.T, uid int, f func()) {
	if os.Getuid() != 0 {
		t.Skip("only root has what others may not read")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, syscall.Setfsuid(uid))
	defer func() { require.NoError(t, syscall.Setfsuid(0)) }()
	f()
}

func TestPlacesAreKeptWhileFoldersCannotBeRead(t *testing.T) {
	const key = "default_web_1/nginx"
	dir := filepath.Join(t.TempDir(), "pods")
	file := filepath.Join(dir, key, "0.log")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("2026-11-26T12:00:00Z stdout F a\n"), 0o600))
	for _, denied := range []string{dir, filepath.Join(dir, "default_web_1"), filepath.Join(dir, key)} {
		s := &Source{Dir: dir, State: t.TempDir(), Now: time.Now, Interval: time.Hour, Settle: time.Millisecond, Say: func(s string) { t.Log(s) }}
		opened, err := s.Open("1")
		require.NoError(t, err)
		r := opened.(*reader)
		r.tree, err = rotated.OpenTree(dir)
		require.NoError(t, err)
		require.NoError(t, r.at.Set(key, rotated.Position{Head: "x", Offset: 1}))
		// What changed a moment ago is looked at again in any case.
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(denied, old, old))
		require.NoError(t, os.Chmod(denied, 0o711))
		look := func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.look()
		}
		as(t, 65534, look)
		_, some := r.at.Get(key)
		require.True(t, some, denied)
		require.True(t, r.denied, denied)
		require.Zero(t, lostFiles(s), denied)
		require.NoError(t, os.Chmod(denied, 0o755))
		look()
		require.False(t, r.unread)
		require.Len(t, r.containers, 1)
		require.NotNil(t, r.containers[0].f)
		require.NoError(t, r.Close())
	}
}

func TestAFolderOfPodsThatIsMadeAnewIsRead(t *testing.T) {
	n := newNode(t)
	n.write(web+"/0.log", "stdout F a")
	n.open()
	require.Len(t, n.read(), 1)
	require.NoError(t, os.RemoveAll(n.dir))
	require.Empty(t, n.read())
	n.write(web+"/0.log", "stdout F b")
	require.Len(t, n.read(), 1)
}

func lostFiles(s *Source) int64 {
	files, _, _ := s.Lost()
	return files
}

func malformed(s *Source) int64 {
	_, _, lines := s.Lost()
	return lines
}
