package payload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMeterFollowsTheGoCommand(t *testing.T) {
	var first []Progress
	m := startMeter("etcd", func(p Progress) { first = append(first, p) })
	defer m.stop()
	require.Equal(t, []Progress{{Program: "etcd", Now: "starting"}}, first)
	for _, tc := range []struct {
		line     string
		progress bool
		want     Progress
	}{
		{"go: downloading go.uber.org/zap v1.27.0", true, Progress{Program: "etcd", Now: "fetching go.uber.org/zap v1.27.0"}},
		{"unicode", false, Progress{Program: "etcd", Now: "fetching go.uber.org/zap v1.27.0"}},
	} {
		require.Equal(t, tc.progress, m.line(tc.line), tc.line)
		require.Equal(t, tc.want, m.now())
	}
	m.expect([]string{"unicode", "go.uber.org/zap", "go.etcd.io/etcd"})
	for _, tc := range []struct {
		line     string
		progress bool
		done     int
		now      string
	}{
		{"unicode", true, 1, "unicode"},
		{"unicode", false, 1, "unicode"},
		{"# go.uber.org/zap", false, 1, "unicode"},
		{"go.etcd.io/etcd", true, 2, "go.etcd.io/etcd"},
		{"go.uber.org/zap", true, 3, "linking"},
	} {
		require.Equal(t, tc.progress, m.line(tc.line), tc.line)
		require.Equal(t, Progress{Program: "etcd", Done: tc.done, Total: 3, Now: tc.now}, m.now())
	}
}

func TestLinesAreHandedOnWhole(t *testing.T) {
	var got []string
	l := lines{each: func(s string) { got = append(got, s) }}
	for _, piece := range []string{"a", "b\nc\n\n", "d"} {
		n, err := l.Write([]byte(piece))
		require.NoError(t, err)
		require.Len(t, piece, n)
	}
	l.end()
	l.end()
	require.Equal(t, []string{"ab", "c", "", "d"}, got)

	got = nil
	_, err := l.Write([]byte(strings.Repeat("x", maxLine+1)))
	require.NoError(t, err)
	require.Len(t, got, 1, "what has no end is not kept for ever")
}
