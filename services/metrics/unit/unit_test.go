package unit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// store is a program that notes its starts and ends as it is told to, and its data have a part of 40 KiB.
func store(t *testing.T) (o Options, starts func() int) {
	t.Helper()
	dir := t.TempDir()
	note := filepath.Join(t.TempDir(), "starts")
	at := filepath.Join(dir, "data/small/2026_11/A1")
	require.NoError(t, os.MkdirAll(at, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(at, "values.bin"), make([]byte, 40<<10), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(at, "metadata.json"), []byte(`{"MaxTimestamp":1}`), 0o600))
	script := fmt.Sprintf(`trap 'exit 0' TERM; echo >>%s; mkdir -p %s; echo '{"Small":["A1"]}' >%s; while :; do sleep 0.01; done`,
		note, filepath.Dir(at), filepath.Join(dir, "data/small/2026_11/parts.json"))
	return Options{Dir: dir, Program: []string{"/bin/sh", "-c", script}, Look: 10 * time.Millisecond}, func() int {
		text, _ := os.ReadFile(note) // not there before the first start
		return strings.Count(string(text), "\n")
	}
}

func TestAStoreWithinItsBoundRunsUntilItIsTold(t *testing.T) {
	o, starts := store(t)
	o.Bytes = 1 << 20
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o, func(s string) { t.Error(s) }) }()
	require.Eventually(t, func() bool { return starts() == 1 }, 10*time.Second, 5*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, 1, starts())
}

func TestAStoreThatGrowsBeyondItsBoundStartsAgain(t *testing.T) {
	o, starts := store(t)
	o.Bytes = 20 << 10
	ctx, cancel := context.WithCancel(t.Context())
	ended, said := make(chan error, 1), make(chan string, 100)
	go func() { ended <- Run(ctx, o, func(s string) { said <- s }) }()
	require.Contains(t, <-said, "of the oldest go, with samples up to 1970-01-01T00:00:00Z")
	require.Eventually(t, func() bool { return starts() == 2 }, 10*time.Second, 5*time.Millisecond)
	require.NoDirExists(t, filepath.Join(o.Dir, "data/small/2026_11/A1"))
	cancel()
	require.NoError(t, <-ended)
}

func TestAStoreThatEndsByItselfIsAnError(t *testing.T) {
	o, _ := store(t)
	o.Program = []string{"/bin/sh", "-c", "exit 3"}
	require.ErrorContains(t, Run(t.Context(), o, func(string) {}), "the store has ended\nexit status 3")
	o.Program = []string{filepath.Join(o.Dir, "none")}
	require.ErrorContains(t, Run(t.Context(), o, func(string) {}), "start the store: ")
}

func TestAStoreThatDoesNotEndForRoomIsKilled(t *testing.T) {
	o, starts := store(t)
	o.Program[2] = strings.Replace(o.Program[2], "exit 0", ":", 1)
	o.Bytes, o.Patience = 20<<10, 50*time.Millisecond
	err := Run(t.Context(), o, func(string) {})
	require.EqualError(t, err, "the store was told to end, and did not within 50ms\nsignal: killed")
	require.Equal(t, 1, starts())
}

func TestAStoreThatCannotMakeRoomStartsAllTheSame(t *testing.T) {
	o, starts := store(t)
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "data/small/2026_11/parts.json"), []byte("["), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	ended, said := make(chan error, 1), make(chan string, 100)
	go func() { ended <- Run(ctx, o, func(s string) { said <- s }) }()
	require.Contains(t, <-said, "the list of parts is malformed")
	require.Eventually(t, func() bool { return starts() == 1 }, 10*time.Second, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}
