package unit

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhoAsksTheStoreWaitsUntilItListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, ready(t.Context(), address, time.Minute, func(s string) { t.Error(s) }), "it is there already")

	require.NoError(t, l.Close())
	ended := make(chan error, 1)
	go func() { ended <- ready(t.Context(), address, time.Minute, func(string) {}) }()
	select {
	case err := <-ended:
		t.Fatalf("nobody listens, and it has ended with %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	again, err := net.Listen("tcp", address)
	require.NoError(t, err)
	defer again.Close()
	require.NoError(t, <-ended)
}

func TestAStoreThatNeverListensIsWaitedForWithinABound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	var said []string
	say := func(s string) { said = append(said, s) }
	require.NoError(t, ready(t.Context(), l.Addr().String(), 100*time.Millisecond, say))
	require.Equal(t, "waited 100ms for the store of metrics: not within its bound; going on without it", said[len(said)-1])

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, ready(ctx, l.Addr().String(), time.Minute, say), context.Canceled)
}
