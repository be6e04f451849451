//go:build integration

package send

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/journalexport"
)

// Programs of Debian's package systemd-journal-remote; `make deps` installs it.
const (
	journalRemote = "/lib/systemd/systemd-journal-remote"
	journalUpload = "/lib/systemd/systemd-journal-upload"
)

// realJournal is a journal on the disk, which systemd's own program writes.
type realJournal struct {
	t    *testing.T
	dir  string
	last int
}

// write writes entries; their messages have numbers.
func (j *realJournal) write(count int, more ...journalexport.Field) {
	j.t.Helper()
	var data []byte
	for range count {
		j.last++
		data = journalexport.Append(data, append(journalexport.Entry{
			field("__REALTIME_TIMESTAMP", fmt.Sprint(time.Now().UnixMicro())), field("__MONOTONIC_TIMESTAMP", fmt.Sprint(1000+j.last)),
			field("_BOOT_ID", strings.Repeat("ab", 16)), field("MESSAGE", fmt.Sprintf("message %d\nof two lines", j.last)),
			field("_SYSTEMD_UNIT", "a.service"), field("PRIORITY", "6"),
		}, more...))
	}
	cmd := exec.Command(journalRemote, "--output="+filepath.Join(j.dir, "remote.journal"), "-")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.CombinedOutput()
	require.NoError(j.t, err, "run make deps\n%s", out)
}

// realUpload is systemd-journal-upload.
type realUpload struct {
	*exec.Cmd
	out bytes.Buffer
}

func (n *node) realUpload(j *realJournal, state string) *realUpload {
	n.t.Helper()
	u := &realUpload{Cmd: exec.Command(journalUpload, "--url=http://"+n.at+"/stores/1", "--directory="+j.dir, "--save-state="+state)}
	u.Stdout, u.Stderr = &u.out, &u.out
	require.NoError(n.t, u.Start())
	n.t.Cleanup(func() { u.kill() })
	return u
}

// kill is what the unit does: it may not hear SIGTERM.
func (u *realUpload) kill() {
	_ = u.Process.Kill()
	_ = u.Wait()
}

func (s *storeSim) messages() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.have {
		text, _ := s.entries[c].Get("MESSAGE")
		out = append(out, text)
	}
	return out
}

func (j *realJournal) arrives(s *storeSim) {
	j.t.Helper()
	require.Eventually(j.t, func() bool { return len(s.messages()) >= j.last }, 30*time.Second, 20*time.Millisecond)
	for i, text := range s.messages() {
		require.Equal(j.t, fmt.Sprintf("message %d\nof two lines", i+1), text)
	}
}

func TestSystemdsOwnProgramBringsTheJournal(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	n.start()
	j := &realJournal{t: t, dir: t.TempDir()}
	state := filepath.Join(t.TempDir(), "store-1")
	j.write(1000)
	u := n.realUpload(j, state)
	j.arrives(s)
	require.Eventually(t, func() bool { _, err := os.Stat(state); return err == nil }, 30*time.Second, 10*time.Millisecond, "it knows that they are sent")

	j.write(10, field("BIG", strings.Repeat("x", 1<<20))) // It waits for what comes.
	j.arrives(s)
	require.EqualValues(t, 10, n.counter("spore_logs_cut_total", `{store="store-1",source="journal"}`))

	s.set(func(w http.ResponseWriter, _ []journalexport.Entry) bool {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return true
	})
	saved, err := os.ReadFile(state)
	require.NoError(t, err)
	j.write(20)
	require.Eventually(t, func() bool { return n.counter("spore_logs_store_reached", `{store="store-1"}`) == 0 }, 30*time.Second, 10*time.Millisecond)
	now, err := os.ReadFile(state)
	require.NoError(t, err)
	require.Equal(t, string(saved), string(now), "the store does not have them")

	require.NoError(t, u.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- u.Wait() }()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Log("it does not hear SIGTERM while it waits")
		_ = u.Process.Kill()
		<-ended
	}
	n.end() // spore-logs is started again, too.
	n.start()
	s.set(nil)
	u = n.realUpload(j, state)
	j.arrives(s)
	j.write(5)
	j.arrives(s)
	// The head of the journal's file and the cursor that was brought name the same entry.
	last := (&Sender{o: Options{Journals: []string{filepath.Join(j.dir, "remote.journal")}}}).lastEntries()
	require.Len(t, last, 1)
	require.True(t, n.sender.stores[0].journal.known().has(last[0]))
	last[0].number++
	require.False(t, n.sender.stores[0].journal.known().has(last[0]))
	require.NotContains(t, u.out.String(), "rror", "%s", u.out.String())
	for _, c := range s.cursors() {
		require.Equal(t, 1, s.count[c])
	}
	require.Zero(t, n.counter("spore_logs_dropped_by_journal_total", `{store="store-1",why="full"}`))
}

// A field may have as much as a file of the journal, which is 64 MiB (journald.conf, SystemMaxUse).
func TestTheLargestFieldOfAJournalIsBrought(t *testing.T) {
	unit, err := os.ReadFile("../../../units/journal-upload@.service")
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nMemoryMax=192M\n")
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	n.start()
	j := &realJournal{t: t, dir: t.TempDir()}
	j.write(1)
	j.write(1, field("BIG", strings.Repeat("x", 60<<20)))
	j.write(1)
	u := n.realUpload(j, filepath.Join(t.TempDir(), "store-1"))
	j.arrives(s)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", u.Process.Pid))
	require.NoError(t, err)
	_, most, found := strings.Cut(string(status), "\nVmHWM:")
	require.True(t, found)
	var size int
	_, err = fmt.Sscanf(most, "%d kB", &size)
	require.NoError(t, err)
	require.Greater(t, size, 60<<10, "it is unpacked in memory")
	require.Less(t, size, 160<<10)
	require.EqualValues(t, 1, n.counter("spore_logs_cut_total", `{store="store-1",source="journal"}`))
}
