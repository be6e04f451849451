package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatItCannotStartWith(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bridge.json")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	other := filepath.Join(t.TempDir(), "bridge.json")
	require.NoError(t, os.WriteFile(other, fmt.Appendf(nil, `{"listen":%q}`, taken.Addr()), 0o600))
	for want, args := range map[string][]string{
		"it takes one argument":      nil,
		"it has 2":                   {"a", "b"},
		"read the settings: ":        {"/nonexistent"},
		"bridge.json is malformed: ": {file},
		"listen: ":                   {other},
	} {
		require.ErrorContains(t, run(t.Context(), args), want)
	}
}

func TestItServesUntilItIsTold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := l.Addr().String()
	require.NoError(t, l.Close())
	file := filepath.Join(t.TempDir(), "bridge.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"listen":%q}`, at), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{file}) }()
	require.Eventually(t, func() bool {
		r, err := http.Get("http://" + at + "/")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusUnauthorized
	}, 10*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
