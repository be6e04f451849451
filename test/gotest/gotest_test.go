package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
		file := filepath.Join(t.TempDir(), "skips")
		t.Setenv(skipsVariable, file)
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
		out.Reset()
		code, err := work(&out, []string{"skipped", file})
		require.NoError(t, err)
		require.Zero(t, code)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		require.Equal(t, "2 skipped: good.TestNeedsRoot, good.TestHasParts/one_part", lines[len(lines)-1])
		require.Contains(t, lines, "1 run elsewhere: good.TestIsLong (make soak)")
		require.Contains(t, lines, "skipped good.TestNeedsRoot: only root may")
	})
	t.Run("without a file the end says it", func(t *testing.T) {
		t.Setenv(skipsVariable, "")
		var out bytes.Buffer
		_, err := work(&out, []string{"-C", dir, "-v", "./good"})
		require.NoError(t, err)
		require.Contains(t, out.String(), "of a good test", "-v prints everything")
		end := "\n2 skipped: good.TestNeedsRoot, good.TestHasParts/one_part\n"
		require.True(t, strings.HasSuffix(out.String(), end), out.String())
	})
	t.Run("a package that fails, and one that does not compile", func(t *testing.T) {
		t.Setenv(skipsVariable, "")
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
}

func TestTheLastLineNamesWhatWasSkipped(t *testing.T) {
	root := skip{"spore/test/nspawn", "TestMasters", "only root may make the namespaces of containers"}
	soak := skip{"spore/test/nspawn", "TestLong", "elsewhere: make soak"}
	hint := "Those that take root run with: sudo env \"PATH=$PATH\" make test\n"
	for _, c := range []struct {
		name  string
		skips []skip
		uid   int
		want  string
	}{
		{"nothing", nil, 1000, "0 skipped\n"},
		{"what something else runs", []skip{soak}, 0, "1 run elsewhere: nspawn.TestLong (make soak)\n0 skipped\n"},
		{"without root", []skip{soak, root}, 1000,
			"skipped nspawn.TestMasters: only root may make the namespaces of containers\n" +
				"1 run elsewhere: nspawn.TestLong (make soak)\n" + hint + "1 skipped: nspawn.TestMasters\n"},
		{"as root, for another reason", []skip{{"m/web", "TestA", "the kernel has no IPv6"}}, 0,
			"skipped web.TestA: the kernel has no IPv6\n1 skipped: web.TestA\n"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, summary(c.skips, c.uid)) })
	}
}

func TestAFileOfSkipsThatIsBrokenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	require.NoError(t, os.WriteFile(file, []byte(`{"Package": "m"`), 0o644))
	_, err := work(&bytes.Buffer{}, []string{"skipped", file})
	require.ErrorContains(t, err, file)
	require.Zero(t, must(readSkips(filepath.Join(t.TempDir(), "none"))))
}

func must(s []skip, err error) int {
	if err != nil {
		panic(err)
	}
	return len(s)
}

// What is not an event is go's own, and printed.
func FuzzEvents(f *testing.F) {
	f.Add(`{"Action":"output","Package":"m","Test":"TestA","Output":"    a_test.go:1: why\n"}` + "\n" +
		`{"Action":"skip","Package":"m","Test":"TestA"}` + "\n")
	f.Add("go: downloading x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		p := printer{out: &out, verbose: true, packages: map[string]*pkg{}}
		require.NoError(t, p.read(strings.NewReader(text)))
		if !strings.Contains(text, "{") {
			require.Equal(t, text, out.String())
		}
	})
}
