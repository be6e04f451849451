package wait

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUntil(t *testing.T) {
	t.Run("a condition that is met is not waited for", func(t *testing.T) {
		require.NoError(t, Until(context.Background(), Condition{For: "nothing", Met: func() bool { return true }}))
	})
	t.Run("a wait that reaches its bound says for what", func(t *testing.T) {
		err := Until(context.Background(), Condition{For: "rain", Bound: 20 * time.Millisecond, Met: func() bool { return false }})
		require.ErrorIs(t, err, ErrBound)
		require.EqualError(t, err, "waited 20ms for rain: not within its bound")
	})
	t.Run("a change ends the wait without a tick", func(t *testing.T) {
		var met atomic.Bool
		changes := make(chan struct{}, 1)
		time.AfterFunc(10*time.Millisecond, func() { met.Store(true); changes <- struct{}{} })
		require.NoError(t, Until(context.Background(), Condition{For: "x", Bound: time.Minute, Every: time.Hour, Changes: changes, Met: met.Load}))
	})
	t.Run("who waits long says so once", func(t *testing.T) {
		var said []string
		err := Until(context.Background(), Condition{
			For: "rain", Bound: 60 * time.Millisecond, Every: 5 * time.Millisecond, Patience: 10 * time.Millisecond,
			Met: func() bool { return false }, Say: func(s string) { said = append(said, s) },
		})
		require.Error(t, err)
		require.Equal(t, []string{"waiting for rain, at most 60ms"}, said)
	})
	t.Run("the end of the context ends the wait", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, Until(ctx, Condition{For: "x", Bound: time.Minute, Met: func() bool { return false }}), context.Canceled)
	})
}

func TestUdev(t *testing.T) {
	touch := func(t *testing.T, path string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	none := func(string) {}
	t.Run("without udev there is nothing to wait for", func(t *testing.T) {
		require.NoError(t, Udev(context.Background(), t.TempDir(), time.Minute, none))
	})
	t.Run("udev that has not begun is waited for", func(t *testing.T) {
		run := t.TempDir()
		touch(t, run+"/control")
		require.ErrorIs(t, Udev(context.Background(), run, 30*time.Millisecond, none), ErrBound)
	})
	t.Run("a queue is waited for", func(t *testing.T) {
		run := t.TempDir()
		touch(t, run+"/control")
		touch(t, run+"/data/n1")
		touch(t, run+"/queue")
		require.ErrorIs(t, Udev(context.Background(), run, 30*time.Millisecond, none), ErrBound)
		time.AfterFunc(30*time.Millisecond, func() { os.Remove(run + "/queue") })
		require.NoError(t, Udev(context.Background(), run, 20*time.Second, none))
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	require.NoError(t, Sleep(context.Background(), time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Sleep(ctx, time.Hour), context.Canceled)
}
