package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunCountsTheProcessesOfACommand(t *testing.T) {
	var log bytes.Buffer
	// The loop is in a grandchild, which the shell waits for.
	u, err := Run(context.Background(), &log, []string{"GREETING=hello"}, "", "sh", "-c", `echo $GREETING; sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'`)
	require.NoError(t, err)
	require.Contains(t, log.String(), "hello")
	require.Greater(t, u.CPU, 20*time.Millisecond)
	require.GreaterOrEqual(t, u.Wall, u.CPU/4)
	require.Positive(t, u.Memory)

	idle, err := Run(context.Background(), io.Discard, nil, "", "sleep", "0.2")
	require.NoError(t, err)
	require.GreaterOrEqual(t, idle.Wall, 200*time.Millisecond)
	require.Less(t, idle.CPU, u.CPU, "who sleeps uses no processor")
}

func TestRunTellsWhatACommandSaidThatFailed(t *testing.T) {
	_, err := Run(context.Background(), io.Discard, nil, "", "sh", "-c", "echo no space left; exit 3")
	require.ErrorContains(t, err, "no space left")
	require.ErrorContains(t, err, "exit status 3")
}

func TestRunTellsThatACommandWasStopped(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errors.New("somebody pressed a key"))
	defer cancel()
	_, err := Run(ctx, io.Discard, nil, "", "sleep", "60")
	require.ErrorContains(t, err, "sleep 60 was stopped: somebody pressed a key")
}

func TestParseHighWater(t *testing.T) {
	n, ok := parseHighWater("Name:\tspore\nVmPeak:\t  99 kB\nVmHWM:\t  1024 kB\nVmRSS:\t 512 kB\n")
	require.True(t, ok)
	require.EqualValues(t, 1<<20, n)
	_, ok = parseHighWater("Name:\tspore\nState:\tZ (zombie)\n")
	require.False(t, ok, "a process that has ended")
	_, ok = parseHighWater("VmHWM:\tmuch kB\n")
	require.False(t, ok)
}

func TestTheCompilerIsMetered(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "it's a log")
	code, err := runCompiler([]string{log, "sh", "-c", "exit 4"})
	require.NoError(t, err)
	require.Equal(t, 4, code)
	code, err = runCompiler([]string{log, "true"})
	require.NoError(t, err)
	require.Zero(t, code)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(text, []byte("\n")))

	sum, err := addDurations("1000000\n2500000\n")
	require.NoError(t, err)
	require.Equal(t, 3500*time.Microsecond, sum)
	_, err = addDurations("soon\n")
	require.ErrorContains(t, err, "times of the compiler: ")
	require.Equal(t, `'it'\''s'`, quote("it's"))
}
