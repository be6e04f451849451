package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errNone = errors.New("there is none")

var call = Call{
	Name: "ceph", Options: []string{"--format", "json"}, Env: []string{"HOME=/nonexistent"},
	Means: func(s syscall.Errno) error {
		if s == syscall.ENOENT {
			return errNone
		}
		return nil
	},
}

func program(t *testing.T, script string) Client {
	path := filepath.Join(t.TempDir(), "ceph")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return Client{Program: path, Conf: "/etc/ceph/ceph.conf", User: "kubernetes"}
}

func TestWhatTheProgramIsTold(t *testing.T) {
	out, err := program(t, "echo words >&2\necho \"$@\" in $HOME\n").Run(context.Background(), call, "fs", "ls")
	require.NoError(t, err)
	require.Equal(t, "--conf /etc/ceph/ceph.conf --id kubernetes --format json fs ls in /nonexistent\n", string(out))
}

func TestWhatTheProgramEndsWith(t *testing.T) {
	for status, want := range map[string]error{"2": errNone, "13": nil} {
		_, err := program(t, "echo no >&2\necho at all >&2\nexit "+status+"\n").Run(context.Background(), call, "fs", "ls")
		require.Equal(t, want != nil, errors.Is(err, errNone), status)
		require.ErrorContains(t, err, ": no; at all")
		require.ErrorContains(t, err, "ceph fs ls: ")
		var e *Error
		require.ErrorAs(t, err, &e)
	}
	_, err := program(t, "printf '%5000s' . >&2\nexit 1\n").Run(context.Background(), call)
	require.Less(t, len(err.Error()), maxOutput+100)
	_, err = program(t, "kill -9 $$\n").Run(context.Background(), call, "fs")
	require.ErrorContains(t, err, "ceph fs: signal: killed")
	require.False(t, errors.As(err, new(*Error)), "a signal is no exit status")
}

func TestAProgramThatCannotBeRun(t *testing.T) {
	_, err := Client{Program: filepath.Join(t.TempDir(), "ceph")}.Run(context.Background(), call)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, errNone, "that the program is missing says nothing of what was asked")
}

func TestAProgramThatTakesTooLong(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := program(t, "echo waits for a monitor >&2\nexec sleep 60\n").Run(ctx, call, "fs")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, strings.HasPrefix(err.Error(), "ceph fs: "), err)
	require.Less(t, time.Since(begin), 30*time.Second)
}
