package send

import (
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A journal-upload that hangs fires LogsNotSent, and one on a node that writes nothing does not.
func TestAJournalThatNobodyBringsIsBehind(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	path := filepath.Join(n.dir, "system.journal")
	ends := func(number uint64) {
		p, ok := placeOf(cursorOf(bootID, 1))
		require.True(t, ok)
		head := make([]byte, 256) // systemd, docs/JOURNAL_FILE_FORMAT.md
		copy(head, "LPKSHHRH")
		for at, text := range map[int]string{56: p.boot, 72: p.id} {
			id, err := hex.DecodeString(text)
			require.NoError(t, err)
			copy(head[at:at+16], id)
		}
		binary.LittleEndian.PutUint64(head[152:], number)
		binary.LittleEndian.PutUint64(head[160:], number)
		require.NoError(t, os.WriteFile(path, head, 0o600))
	}
	o := n.options()
	o.Journals = []string{filepath.Join(n.dir, "not-there"), path}
	n.startWith(o)
	now := time.Now()
	n.end() // Nobody else writes the counters.
	sender, err := New(o)
	require.NoError(t, err)
	sender.o.Now = func() time.Time { return now }
	n.sender = sender
	behind := func() float64 {
		require.NoError(t, sender.write())
		return n.counter("spore_logs_behind_seconds", `{store="store-1"}`)
	}
	require.Zero(t, behind(), "there is no journal")
	ends(7)
	require.Zero(t, behind())
	now = now.Add(20 * time.Minute)
	require.EqualValues(t, 1200, behind())
	p, _ := placeOf(cursorOf(bootID, 5))
	j := sender.stores[0].journal
	j.took(j.known().with(p))
	require.Zero(t, behind(), "it goes on")
	now = now.Add(time.Minute)
	require.EqualValues(t, 60, behind())
	p.number = 7
	j.took(j.known().with(p))
	require.Zero(t, behind())
	now = now.Add(48 * time.Hour)
	require.Zero(t, behind(), "the node has written nothing")
	ends(8)
	require.Zero(t, behind(), "it was written just now")
	require.NoError(t, os.WriteFile(path, make([]byte, 300), 0o600))
	require.Zero(t, behind())
	require.Contains(t, strings.Join(n.said, "\n"), "it is not a journal file")
}

// What is brought is known by the places that the head of the journal's file has.
func TestAJournalThatIsBroughtIsNotBehind(t *testing.T) {
	ca := authority(t)
	n := newNode(t, ca, newStore(t, ca))
	n.start()
	n.write(1, 20)
	require.NoError(t, (&uploader{node: n, store: 1}).upload(t.Context(), &http.Client{}))
	p, _ := placeOf(cursorOf(bootID, 20))
	require.True(t, n.sender.stores[0].journal.known().has(p))
	p.number++
	require.False(t, n.sender.stores[0].journal.known().has(p))
}
