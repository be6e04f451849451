package faults

import (
	"bufio"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// root is the source tree, seen from the package that runs the matrix.
const root = "../.."

// Test is a row that a test beside the code stands for: it cuts or disturbs the real step at each of its writes and
// flushes, on a disk of its own, and fails where the machine would not be what want says. pkg is the package, such
// as ./agent/slot, and pattern what go test -run takes. The test says by Tried how many faults it tried. Unit tests
// run it in each run.
func Test[L any](doing Doing, happens string, want State, pkg, pattern string) Row[L] {
	return test[L](Row[L]{Doing: doing, Happens: happens, Want: want, pkg: pkg, pattern: pattern})
}

// Cluster is Test for a test that runs several nodes, or real programs, and that `make test` runs in a stage of its
// own. The test says by Took how long it took until all was whole. Two of them do not run at the same time.
func Cluster[L any](doing Doing, happens string, want State, pkg, pattern string) Row[L] {
	return test[L](Row[L]{Doing: doing, Happens: happens, Want: want, Shares: "a cluster", pkg: pkg, pattern: pattern}, "-tags=e2e", "-timeout=40m")
}

func test[L any](r Row[L], options ...string) Row[L] {
	pkg, pattern, want := r.pkg, r.pattern, r.Want
	r.Own = pkg + " " + pattern
	r.Run = func(t *testing.T, _ L) Outcome {
		t.Helper()
		args := append([]string{"test", "-count=1", "-v", "-run", pattern}, options...)
		cmd := exec.Command("go", append(args, pkg)...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s of %s: %v\n%s", pattern, pkg, err, out)
			return Outcome{}
		}
		tried, passed := counts(string(out))
		if passed == 0 {
			t.Errorf("%s of %s ran no test:\n%s", pattern, pkg, out)
			return Outcome{}
		}
		o := Outcome{After: want, Took: took(string(out)), Note: fmt.Sprintf("%s, %s", strings.TrimPrefix(pkg, "./"), plural(passed, "case"))}
		switch {
		case tried > 0:
			o.Note = fmt.Sprintf("%s, %s", strings.TrimPrefix(pkg, "./"), plural(tried, "fault"))
		case len(options) > 0:
			o.Note = strings.Trim(strings.TrimPrefix(pattern, "^Test"), "$")
		}
		return o
	}
	return r
}

var (
	testOf     = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	testsNamed = regexp.MustCompile(`Test\w+`)
)

// checkTests says which rows of Test name a test that is not beside the code any more. tree is the source tree.
func checkTests[L any](tree fs.FS, rows []Row[L]) error {
	known := map[string][]string{}
	for _, r := range rows {
		if r.pkg == "" {
			continue
		}
		dir := path.Clean(r.pkg)
		if known[dir] == nil {
			names, err := testsIn(tree, dir)
			if err != nil {
				return fmt.Errorf("row %q: read the tests of %s: %w", r.name(), dir, err)
			}
			known[dir] = names
		}
		for _, name := range testsNamed.FindAllString(r.pattern, -1) {
			if !slices.ContainsFunc(known[dir], func(s string) bool { return strings.HasPrefix(s, name) }) {
				return fmt.Errorf("row %q: %s has no test %s; name the one that shows it now", r.name(), dir, name)
			}
		}
	}
	return nil
}

func testsIn(tree fs.FS, dir string) ([]string, error) {
	files, err := fs.Glob(tree, path.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, f := range files {
		text, err := fs.ReadFile(tree, f)
		if err != nil {
			return nil, err
		}
		for _, m := range testOf.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// mark begins the line by which a test says how many faults it tried.
const mark = "faults tried: "

// Tried says how many faults a test tried; the page has the sum.
func Tried(t *testing.T, n int) {
	t.Helper()
	t.Logf("%s%d", mark, n)
}

// tookMark begins the line by which a test says how long it took from a fault until all was whole.
const tookMark = "from the fault until all was whole: "

// Took says how long it took from a fault until all was whole; of several times the page has the longest.
func Took(t *testing.T, d time.Duration) {
	t.Helper()
	t.Logf("%s%s", tookMark, d.Round(time.Millisecond))
}

// took reads the longest time that a test has said.
func took(output string) (longest time.Duration) {
	lines := bufio.NewScanner(strings.NewReader(output))
	for lines.Scan() {
		if _, text, is := strings.Cut(lines.Text(), tookMark); is {
			if d, err := time.ParseDuration(text); err == nil {
				longest = max(longest, d)
			}
		}
	}
	return longest
}

var (
	triedLine  = regexp.MustCompile(mark + `(\d+)$`)
	passedLine = regexp.MustCompile(`^ *--- PASS: (\S+)`)
)

// counts reads the output of go test -v: how many faults were tried, and how many tests without parts of their own
// passed.
func counts(output string) (tried, passed int) {
	var names []string
	lines := bufio.NewScanner(strings.NewReader(output))
	for lines.Scan() {
		if m := triedLine.FindStringSubmatch(lines.Text()); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				tried += n
			}
		}
		if m := passedLine.FindStringSubmatch(lines.Text()); m != nil {
			names = append(names, m[1])
		}
	}
	for _, name := range names {
		leaf := true
		for _, other := range names {
			leaf = leaf && !strings.HasPrefix(other, name+"/")
		}
		if leaf {
			passed++
		}
	}
	return tried, passed
}
