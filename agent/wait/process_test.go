package wait

import (
	"context"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWaitEndsWithTheMainProcess(t *testing.T) {
	main := exec.Command("sleep", "600")
	require.NoError(t, main.Start())
	t.Setenv("MAINPID", strconv.Itoa(main.Process.Pid))
	ctx, cancel, err := WhileMainRuns(t.Context())
	require.NoError(t, err)
	defer cancel()
	require.NoError(t, ctx.Err(), "it runs")

	require.NoError(t, main.Process.Kill())
	require.Error(t, main.Wait())
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the wait goes on without a main process")
	}
	require.ErrorIs(t, context.Cause(ctx), ErrMainEnded)

	ctx, cancel, err = WhileMainRuns(t.Context())
	require.NoError(t, err)
	defer cancel()
	require.ErrorIs(t, context.Cause(ctx), ErrMainEnded, "it had ended before")
}

func TestAWaitWithoutAMainProcess(t *testing.T) {
	t.Setenv("MAINPID", "")
	ctx, cancel, err := WhileMainRuns(t.Context())
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	cancel()
	require.ErrorIs(t, ctx.Err(), context.Canceled)

	for _, text := range []string{"x", "0", "-1"} {
		t.Setenv("MAINPID", text)
		_, _, err := WhileMainRuns(t.Context())
		require.EqualError(t, err, `MAINPID is "`+text+`", and not the number of a process`)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	main := exec.Command("sleep", "600")
	require.NoError(t, main.Start())
	defer func() { _ = main.Wait() }()
	defer func() { _ = main.Process.Kill() }()
	t.Setenv("MAINPID", strconv.Itoa(main.Process.Pid))
	outer, stop := context.WithCancel(t.Context())
	ctx, cancel, err := WhileMainRuns(outer)
	require.NoError(t, err)
	defer cancel()
	stop()
	<-ctx.Done()
	require.NotErrorIs(t, context.Cause(ctx), ErrMainEnded)
}
