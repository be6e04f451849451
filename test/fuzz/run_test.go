package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatGoTestSaysIsRead(t *testing.T) {
	const ran = "fuzz: elapsed: 0s, gathering baseline coverage: 0/26 completed\n" +
		"fuzz: elapsed: 3s, execs: 60000 (20000/sec), new interesting: 3 (total: 29)\n" +
		"fuzz: elapsed: 10s, execs: 151000 (13000/sec), new interesting: 5 (total: 31)\nPASS\n"
	r := read(ran)
	require.Equal(t, result{execs: 151000, perSecond: 15100, fresh: 5, known: 31}, r)
	require.Equal(t, "ok", r.verdict())

	const broke = ran + "--- FAIL: FuzzX (0.03s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: no\n\n" +
		"    Failing input written to testdata/fuzz/FuzzX/0123456789abcdef\n"
	r = read(broke)
	require.Equal(t, "testdata/fuzz/FuzzX/0123456789abcdef", r.input)
	require.False(t, endOfTime(broke))
	require.True(t, endOfTime(ran+"--- FAIL: FuzzX (10.02s)\n    context deadline exceeded\nFAIL\n"))
	require.False(t, endOfTime("--- FAIL: FuzzX (1s)\n    panic: x\n    context deadline exceeded\n"))
	require.Equal(t, result{}, read("no output\n"))
}

func TestTargetsAreFoundBySignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x_test.go")
	require.NoError(t, os.WriteFile(file, []byte(`package x
import "testing"
func FuzzB(f *testing.F) {}
func FuzzA(f *testing.F) {}
func Fuzzy(t *testing.T) {}
func FuzzTwo(f *testing.F, n int) {}
func TestFuzz(f *testing.F) {}
func (x T) FuzzMethod(f *testing.F) {}
`), 0o644))
	names, err := targetsOf(file)
	require.NoError(t, err)
	require.Equal(t, []string{"FuzzA", "FuzzB"}, names)
	require.NoError(t, os.WriteFile(file, []byte("no go"), 0o644))
	_, err = targetsOf(file)
	require.ErrorContains(t, err, "read the tests: ")
}

func TestTheSmallestInputsAreTriedFirst(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"b": 10, "a": 10, "c": 1, "large": maxInput + 1} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644))
	}
	got, err := candidates(dir)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "c"), filepath.Join(dir, "a"), filepath.Join(dir, "b")}, got)
	got, err = candidates(filepath.Join(dir, "none"))
	require.NoError(t, err)
	require.Empty(t, got)
}
