package events

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is one that imports nothing.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

const slow = `package slow
import ("testing"; "time")
func TestGood(t *testing.T) {}
func TestWaits(t *testing.T) { t.Parallel() }
func TestHangs(t *testing.T) { t.Log("begun"); time.Sleep(time.Hour) }
func TestLate(t *testing.T) {}
func TestChosenByNobody(t *testing.T) {}
`

const slowTagged = `//go:build deep

package slow
import ("fmt"; "testing")
func TestOfTheTag(t *testing.T) {}
func Testify() {}
func FuzzSeeds(f *testing.F) { f.Fuzz(func(t *testing.T, a int) {}) }
func ExampleRun() {
	fmt.Println("x")
	// Output: x
}
func ExampleSilent() {}
`

const panics = `package panics
import ("testing"; "time")
func TestWaits(t *testing.T) { t.Parallel() }
func TestStarts(t *testing.T) { go func() { panic("in a goroutine") }(); time.Sleep(time.Hour) }
func TestLate(t *testing.T) {}
`

// What go test really says.
func TestPackagesThatDie(t *testing.T) {
	dir := module(t, map[string]string{
		"slow/a_test.go": slow, "slow/deep_test.go": slowTagged, "panics/a_test.go": panics,
		"broken/a_test.go": "package broken\nfunc x() int {}\n",
	})
	var out, log bytes.Buffer
	args := []string{"-C", dir, "-vet=off", "-tags", "deep", "-timeout", "2s", "-skip", "Nobody", "./..."}
	o, err := Run(&out, &log, nil, args)
	require.NoError(t, err)
	require.Equal(t, 1, o.Code)
	require.Equal(t, []Test{{"m/slow", "TestGood"}}, o.Passed)
	require.Positive(t, o.CPU)
	found := map[string]Failure{}
	for _, f := range o.Failures {
		found[filepath.Base(f.Package)+" "+string(f.Kind)] = f
	}
	require.Len(t, found, 5)
	require.Equal(t, []string{"TestHangs"}, found["slow failed"].Tests)
	require.Equal(t, "panic: test timed out after 2s", found["slow failed"].Why[0])
	require.Contains(t, found["slow failed"].Log, "begun")
	require.Equal(t, []string{"TestWaits", "TestLate", "TestOfTheTag", "FuzzSeeds", "ExampleRun"},
		found["slow unfinished"].Tests)
	require.Equal(t, []string{"TestStarts"}, found["panics failed"].Tests)
	require.Equal(t, []string{"panic: in a goroutine"}, found["panics failed"].Why)
	require.Equal(t, []string{"TestWaits", "TestLate"}, found["panics unfinished"].Tests)
	require.Contains(t, found["broken broken"].Log, "missing return")
	require.Contains(t, out.String(), "missing return")
	require.NotContains(t, out.String(), "=== RUN")
	require.Contains(t, log.String(), "=== RUN   TestGood", "the log has everything")
}
