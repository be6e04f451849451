package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/events"
	"spore/test/ledger"
)

// module is one that imports nothing but what each test has.
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

const good = `package good
import "testing"
func TestRuns(t *testing.T) { t.Log("of a good test") }
func TestNeedsRoot(t *testing.T) { t.Log("first"); t.Skip("only root may") }
func TestHasParts(t *testing.T) { t.Run("one part", func(t *testing.T) { t.Skip("the kernel has no IPv6") }) }
func TestIsLong(t *testing.T) { t.Skip("elsewhere: make soak") }
`

const bad = `package bad
import "testing"
func TestRuns(t *testing.T) { t.Log("of a good test") }
func TestBreaks(t *testing.T) { t.Run("part", func(t *testing.T) { t.Error("of a bad test") }) }
`

func TestWhatIsSkippedIsKeptAndTheRestIsPrintedAsByGoTest(t *testing.T) {
	dir := module(t, map[string]string{
		"good/good_test.go": good, "bad/bad_test.go": bad, "empty/empty.go": "package empty\n",
		"broken/broken_test.go": "package broken\nfunc x() int {}\n",
	})
	t.Run("a package that passes", func(t *testing.T) {
		l := ledger.Ledger(t.TempDir())
		t.Setenv(ledger.Variable, string(l))
		var out bytes.Buffer
		for range 2 { // as two stages that run the same
			code, err := work(&out, []string{"-C", dir, "./good", "./empty"})
			require.NoError(t, err)
			require.Zero(t, code)
		}
		require.Regexp(t, `(?m)^ok  	m/good	`, out.String())
		require.Contains(t, out.String(), "m/empty	[no test files]")
		require.NotContains(t, out.String(), "good test")
		require.NotContains(t, out.String(), "skipped", "that is for the end of all stages")
		skips, err := l.Skips()
		require.NoError(t, err)
		details, end := ledger.Skipped(skips, 0)
		require.Equal(t, "2 skipped: good.TestNeedsRoot, good.TestHasParts/one_part\n", end)
		require.Contains(t, details, "1 run elsewhere: good.TestIsLong (make soak)\n")
		require.Contains(t, details, "skipped good.TestNeedsRoot: only root may\n")
	})
	t.Run("without a run the end says it", func(t *testing.T) {
		t.Setenv(ledger.Variable, "")
		var out bytes.Buffer
		_, err := work(&out, []string{"-C", dir, "-v", "./good"})
		require.NoError(t, err)
		require.Contains(t, out.String(), "of a good test", "-v prints everything")
		end := "\n2 skipped: good.TestNeedsRoot, good.TestHasParts/one_part\n"
		require.True(t, strings.HasSuffix(out.String(), end), out.String())
	})
	t.Run("a package that fails, and one that does not compile", func(t *testing.T) {
		t.Setenv(ledger.Variable, "")
		var out bytes.Buffer
		code, err := work(&out, []string{"-C", dir, "./bad", "./broken"})
		require.NoError(t, err)
		require.Equal(t, 1, code)
		require.Contains(t, out.String(), "of a bad test")
		require.Contains(t, out.String(), "--- FAIL: TestBreaks/part")
		require.NotContains(t, out.String(), "of a good test")
		require.Contains(t, out.String(), "missing return")
		require.Regexp(t, `(?m)^FAIL	m/bad	`, out.String())
		require.Contains(t, out.String(), "FAIL	m/broken [build failed]")
	})
	t.Run("in a run they are left to its end", func(t *testing.T) {
		l := ledger.Ledger(filepath.Join(t.TempDir(), "run"))
		t.Setenv(ledger.Variable, string(l))
		t.Setenv(ledger.StageVariable, "a stage")
		t.Setenv("SPORE_RESULTS", "there")
		t.Setenv("A_TOKEN", "secret")
		code, err := work(&bytes.Buffer{}, []string{"-C", dir, "-timeout", "1m", "./bad", "./broken"})
		require.NoError(t, err)
		require.Zero(t, code)
		failures, err := l.Failures()
		require.NoError(t, err)
		require.Len(t, failures, 2)
		kinds := map[events.Kind]ledger.Failure{}
		for _, f := range failures {
			kinds[f.Kind] = f
			require.Equal(t, "a stage", f.Stage)
			require.Equal(t, dir, f.Args.Dir)
			require.Contains(t, f.Env, "SPORE_RESULTS=there")
			require.NotContains(t, f.Env, "A_TOKEN=secret")
			require.FileExists(t, f.File)
		}
		require.Equal(t, "bad.TestBreaks", kinds[events.Failed].Name())
		require.Equal(t, []string{"bad_test.go:4: of a bad test"}, kinds[events.Failed].Why)
		require.Equal(t, "broken", kinds[events.Broken].Name())
	})
}
