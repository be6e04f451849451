package unit

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/logs/days"
)

// options are those of a store that is a script of the shell, and a server that answers for it.
func options(t *testing.T, script string, answer http.HandlerFunc) Options {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("x"), 0o600))
	return Options{
		Store: days.Store{
			Dir: dir, Address: strings.TrimPrefix(server.URL, "http://"), PasswordFile: filepath.Join(dir, "password"),
			Free: func(string) (uint64, error) { return 1 << 40, nil },
		},
		Limits: days.Limits{Days: 30, Bytes: 10}, Program: []string{"/bin/sh", "-c", script}, Log: new(bytes.Buffer),
		Counters: filepath.Join(dir, "metrics.prom"), Look: 10 * time.Millisecond, Now: time.Now, Patience: 2 * time.Second,
	}
}

func nobody(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

func TestAStoreThatIsToldToEndEndsByItself(t *testing.T) {
	o := options(t, `trap 'echo written; exit 0' TERM; echo up; while :; do sleep 0.01; done`, nobody)
	log, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	o.Log = log
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o, func(string) {}) }()
	said := func() string {
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		return string(text)
	}
	require.Eventually(t, func() bool { return said() == "up\n" }, 10*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, "up\nwritten\n", said())
}

func TestAStoreThatDoesNotEndIsKilled(t *testing.T) {
	o := options(t, `trap '' TERM; while :; do sleep 0.01; done`, nobody)
	o.Patience = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, Run(ctx, o, func(string) {}), "the store was told to end: ")
}

func TestAStoreThatEndsIsAnError(t *testing.T) {
	require.EqualError(t, Run(t.Context(), options(t, "exit 0", nobody), func(string) {}), "the store has ended")
	require.EqualError(t, Run(t.Context(), options(t, "exit 3", nobody), func(string) {}), "the store has ended\nexit status 3")
	o := options(t, "", nobody)
	o.Program = []string{"/nonexistent/store"}
	require.ErrorContains(t, Run(t.Context(), o, func(string) {}), "start the store: ")
}

func TestWhatTheStoreSaysOfItselfIsForTheCollector(t *testing.T) {
	readOnly := "1"
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "vl_data_size_bytes{type=\"indexdb\"} 4\nvl_data_size_bytes{type=\"storage\"} 8\nvl_storage_is_read_only{path=\"x\"} %s\n", readOnly)
			return
		}
		fmt.Fprint(w, `["20261126"]`)
	}
	o := options(t, "", answer)
	var said []string
	w := &watch{Options: o, say: func(s string) { said = append(said, s) }, answered: time.Now()}
	w.once(t.Context())
	w.once(t.Context())
	text, err := os.ReadFile(o.Counters)
	require.NoError(t, err)
	for _, want := range []string{
		"\nspore_logs_store_size_bytes 12\n", "\nspore_logs_store_bound_bytes 10\n", "\nspore_logs_store_partitions 1\n",
		"\nspore_logs_store_oldest_timestamp_seconds 1795651200\n", "\nspore_logs_store_removed_partitions_total 0\n",
		"\nspore_logs_store_over_bound 1\n", "\nspore_logs_store_read_only 1\n", "\nspore_logs_store_free_bytes 1099511627776\n",
	} {
		require.Contains(t, string(text), want)
	}
	readOnly = "0"
	w.once(t.Context())
	require.Len(t, said, 3, "each is said once: %q", said)
	require.Contains(t, said[0], "write a larger size into services/logs.yaml")
	require.Contains(t, said[1], "the store takes nothing")
	require.Equal(t, "the store takes entries again", said[2])
	require.NoError(t, os.Remove(o.Counters))
	require.NoError(t, os.Mkdir(o.Counters, 0o700))
	w.once(t.Context())
	w.once(t.Context())
	require.Len(t, said, 4, "that the counters cannot be written, once: %q", said)
	require.Contains(t, said[3], "write metrics.prom: ")
}

func TestAStoreThatDoesNotAnswerIsSpokenOfAfterAWhileAndOnce(t *testing.T) {
	var said []string
	w := &watch{Options: options(t, "", nobody), say: func(s string) { said = append(said, s) }, answered: time.Now()}
	w.once(t.Context())
	require.Empty(t, said, "it opens its data")
	w.answered = time.Now().Add(-2 * quiet)
	w.once(t.Context())
	w.once(t.Context())
	require.Len(t, said, 1)
	require.Contains(t, said[0], "it answers 503")
}
