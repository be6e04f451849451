package looked

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
)

func TestWhatWasWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "looked.json")
	require.Nil(t, Read(path))
	l := Last{At: time.Unix(1_790_000_000, 0).UTC(), From: "https://x", Serial: 8, Result: "it is written", Outside: 5, Nodes: 7}
	require.NoError(t, atomicfile.WriteJSON(path, l))
	require.Equal(t, &l, Read(path))
}

// It is another user's file.
func TestWhatSomebodyElseWroteDoesNothingToATerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "looked.json")
	require.NoError(t, atomicfile.WriteJSON(path, Last{Problem: "\x1b[2J" + strings.Repeat("é", 5000)}))
	l := Read(path)
	require.NotContains(t, l.Problem, "\x1b")
	require.Less(t, len(l.Problem), 3000)

	for name, put := range map[string]func() error{
		"a pipe":   func() error { return unix.Mkfifo(path, 0o600) },
		"a device": func() error { return os.Symlink("/dev/zero", path) },
		"no JSON":  func() error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, put())
		require.Nil(t, Read(path), name)
	}
}
