package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/events"
	"spore/test/ledger"
)

func failure(kind events.Kind, pkg string, tests ...string) ledger.Failure {
	return ledger.Failure{Stage: "one", Failure: events.Failure{Kind: kind, Package: pkg, Tests: tests}}
}

func TestWhatHasNoSecondRun(t *testing.T) {
	fine := []ledger.Stage{{Name: "one"}}
	a, b := failure(events.Failed, "m/p", "TestA"), failure(events.Failed, "m/p", "TestB")
	for _, c := range []struct {
		name     string
		stages   []ledger.Stage
		failures []ledger.Failure
		want     string
	}{
		{"nothing failed", fine, nil, ""},
		{"a test", fine, []ledger.Failure{a}, ""},
		{"as many as may", fine, []ledger.Failure{a, b}, ""},
		{"one of them in two stages", fine, []ledger.Failure{a, b, a}, ""},
		{"tests that never came to their end do not count", fine,
			[]ledger.Failure{a, b, failure(events.Unfinished, "m/p", "TestC", "TestD")}, ""},
		{"too many", fine, []ledger.Failure{a, b, failure(events.Failed, "m/q", "TestA")}, "3 tests failed: this is not a race"},
		{"a package that does not build", fine, []ledger.Failure{a, failure(events.Broken, "m/q")},
			"q failed outside of its tests"},
		{"a stage that is not of tests", []ledger.Stage{{Name: "lint", Code: 2}, {Name: "one"}}, []ledger.Failure{a},
			"lint failed, which no test can make good"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, refuse(c.stages, c.failures, 2)) })
	}
}

func TestASecondRunWantsEachTestByItsName(t *testing.T) {
	for _, c := range []struct {
		name string
		kind events.Kind
		o    events.Outcome
		want bool
	}{
		{"it passed", events.Failed, events.Outcome{Passed: []events.Test{{Package: "m/p", Name: "TestA"}}}, true},
		{"nothing ran", events.Failed, events.Outcome{}, false},
		{"another ran", events.Failed, events.Outcome{Passed: []events.Test{{Package: "m/p", Name: "TestB"}}}, false},
		{"it was skipped", events.Failed, events.Outcome{Skips: []events.Skip{{Package: "m/p", Test: "TestA"}}}, false},
		{"it never had a first run and was skipped", events.Unfinished,
			events.Outcome{Skips: []events.Skip{{Package: "m/p", Test: "TestA"}}}, true},
		{"of what never had a first run, only a part was skipped", events.Unfinished,
			events.Outcome{Skips: []events.Skip{{Package: "m/p", Test: "TestA/part"}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, allPassed(failure(c.kind, "m/p", "TestA"), c.o)) })
	}
}

func TestSecondRunsEndBeforeTheDeadline(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name          string
		timeout, left time.Duration
		want          time.Duration
		ok            bool
	}{
		{"there is time", time.Hour, 2 * time.Hour, time.Hour, true},
		{"there is less", time.Hour, 30*time.Minute + time.Millisecond, 30 * time.Minute, true},
		{"a stage without a time limit", 0, 30 * time.Minute, 30 * time.Minute, true},
		{"there is too little", time.Hour, 59 * time.Second, 59 * time.Second, false},
		{"there is none", time.Hour, -time.Hour, -time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := allowed(c.timeout, now.Add(c.left), now)
			require.Equal(t, c.want, got)
			require.Equal(t, c.ok, ok)
		})
	}
	got, ok := allowed(time.Hour, time.Time{}, now)
	require.Equal(t, time.Hour, got)
	require.True(t, ok, "no deadline")
}

func TestASecondRunHasTheSeedAndAFolderForItsResults(t *testing.T) {
	dir := t.TempDir()
	f := failure(events.Failed, "m/p", "TestA")
	f.File, f.Env = filepath.Join(dir, "p.TestA.first.log"), []string{"SPORE_SOAK=3", "SPORE_RESULTS=/of/the/first"}
	require.NoError(t, os.WriteFile(f.File, []byte("    a_test.go:1: SPORE_SEED=1234 repeats this run\n"), 0o644))
	env, err := environment(f)
	require.NoError(t, err)
	results := filepath.Join(dir, "p.TestA.results")
	require.Equal(t, append(f.Env, "SPORE_RESULTS="+results, "SPORE_SEED=1234"), env[len(env)-4:])
	require.DirExists(t, results)
}

// lucky keeps in a file that it ran: TestSecondTime passes in its second run, and prints its seed.
const lucky = `package lucky
import ("fmt"; "os"; "testing")
func first(name string) bool {
	_, err := os.Stat(os.Getenv("SPORE_COUNT") + name)
	os.WriteFile(os.Getenv("SPORE_COUNT") + name, nil, 0o644)
	return err != nil
}
func TestGood(t *testing.T) {}
func TestSecondTime(t *testing.T) {
	fmt.Println("seed", os.Getenv("SPORE_SEED"))
	t.Log("SPORE_SEED=77 repeats this run")
	t.Run("part", func(t *testing.T) { if first("lucky") { t.Fatal("lost a race") } })
}
`

// hangs does so in its first run only, which leaves TestLate out.
const hangs = `package hangs
import ("os"; "testing"; "time")
func TestHangs(t *testing.T) {
	name := os.Getenv("SPORE_COUNT") + "hangs"
	if _, err := os.Stat(name); err != nil { os.WriteFile(name, nil, 0o644); time.Sleep(time.Hour) }
}
func TestLate(t *testing.T) {}
`

const unlucky = `package unlucky
import "testing"
func TestNever(t *testing.T) { t.Error("is wrong") }
`

// A whole run of stages, with real packages.
func TestTheEndOfARun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "lucky/a_test.go": lucky,
		"hangs/a_test.go": hangs, "unlucky/a_test.go": unlucky, "broken/a_test.go": "package broken\nfunc x() int {}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, c := range []struct {
		name     string
		packages []string
		command  []string // of a stage before
		limit    time.Duration
		red      bool
		flaky    string // without the date
		text     []string
		verdict  string
	}{
		{name: "all pass", packages: []string{"-run", "Good", "./lucky"}, verdict: "passed"},
		{name: "a test passes the second time", packages: []string{"./lucky"},
			flaky: "lucky.TestSecondTime: a_test.go:12: lost a race\n",
			text: []string{"lucky.TestSecondTime failed in tests, and passed alone in ",
				":\n    a_test.go:12: lost a race\n  first log:  ", "lucky.TestSecondTime.second.log",
				"CPU  1 of 1 passed\n", "CPU  ok in second runs: lucky.TestSecondTime\n"},
			verdict: "passed, but only in a second run: lucky.TestSecondTime"},
		{name: "a test fails twice", packages: []string{"./lucky", "./unlucky"}, red: true,
			flaky: "lucky.TestSecondTime: a_test.go:12: lost a race\n",
			text: []string{"unlucky.TestNever failed in tests, and failed alone in ",
				"    a_test.go:3: is wrong\n", "CPU  1 of 2 passed\n",
				"CPU  FAILED lucky.TestSecondTime, unlucky.TestNever\n"},
			verdict: "FAILED: unlucky.TestNever"},
		{name: "a test hangs and hides another", packages: []string{"-timeout", "2s", "./hangs"},
			flaky: "hangs.TestHangs: panic: test timed out after 2s running tests: TestHangs (2s)\n",
			text: []string{"hangs.TestHangs failed in tests, and passed alone",
				"hangs.unfinished (TestLate) did not come to their end in tests, and passed alone"},
			verdict: "passed, but only in a second run: hangs.TestHangs, hangs.unfinished"},
		{name: "a package does not build", packages: []string{"./lucky", "./broken"}, red: true,
			text: []string{"lucky.TestSecondTime failed in tests and was not run once more (broken failed outside of its tests)",
				"\nbroken failed in tests outside of its tests:\n", "missing return"}},
		{name: "another stage fails", packages: []string{"./lucky"}, command: []string{"false"}, red: true,
			text:    []string{"FAILED\n", "was not run once more (other failed, which no test can make good)"},
			verdict: "FAILED: lucky.TestSecondTime, other"},
		{name: "another stage has no program", packages: []string{"-run", "Good", "./lucky"}, red: true,
			command: []string{"/no/such/program"}, verdict: "FAILED: other"},
		{name: "no time is left", packages: []string{"./lucky"}, limit: time.Second, red: true,
			text:    []string{"was not run once more (no time was left for a second run)"},
			verdict: "FAILED: lucky.TestSecondTime"},
	} {
		t.Run(c.name, func(t *testing.T) {
			work := t.TempDir()
			l := ledger.Ledger(filepath.Join(work, "run"))
			count := filepath.Join(work, "count.")
			t.Setenv("SPORE_SEED", "")
			t.Setenv("SPORE_COUNT", count)
			var out bytes.Buffer
			require.NoError(t, l.Begin(time.Now()))
			if c.command != nil {
				code, err := run(&out, l, "other", c.command)
				require.NoError(t, err)
				require.Zero(t, code, "later stages run")
			}
			tests(t, l, append([]string{"-C", dir, "-vet=off"}, c.packages...))

			out.Reset()
			flaky := filepath.Join(work, "results", "flaky.md")
			code, err := end(context.Background(), &out, l, options{limit: c.limit, most: 5, flaky: flaky})
			require.NoError(t, err)
			require.Equal(t, c.red, code != 0, out.String())
			for _, text := range c.text {
				require.Contains(t, out.String(), text)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			require.Equal(t, "0 skipped", lines[len(lines)-1])
			require.Regexp(t, `\nsum +[0-9.]+ s wall +[0-9.]+ s CPU  in [0-9.]+ s from begin to end\n`, out.String())
			if c.verdict != "" {
				require.Equal(t, c.verdict, lines[len(lines)-2])
			}
			data, _ := os.ReadFile(flaky)
			if c.flaky == "" {
				require.Empty(t, data)
			} else {
				require.Equal(t, "- "+time.Now().Format(time.DateOnly)+" "+c.flaky, string(data))
			}
			if strings.Contains(c.flaky, "lucky") {
				data, err := os.ReadFile(filepath.Join(string(l), "lucky.TestSecondTime.second.log"))
				require.NoError(t, err)
				require.Contains(t, string(data), "seed 77", "the second run has the seed of the first")
				require.NotContains(t, string(data), "TestGood")
			}
		})
	}
}

// tests is a stage that runs test/gotest.
func tests(t *testing.T, l ledger.Ledger, args []string) {
	t.Helper()
	o, err := events.Run(&bytes.Buffer{}, nil, nil, args)
	require.NoError(t, err)
	for _, f := range o.Failures {
		require.NoError(t, l.AddFailure(ledger.Failure{Stage: "tests", Failure: f, Args: events.ParseArgs(args)}))
	}
	require.NoError(t, l.AddStage(ledger.Stage{Name: "tests"}))
}

func TestAStageByItselfHasTheExitCodeOfItsCommand(t *testing.T) {
	for _, c := range []struct {
		command []string
		code    int
		line    string
	}{
		{[]string{"sh", "-c", `echo "in $SPORE_STAGE"`}, 0, `CPU  ok\n$`},
		{[]string{"sh", "-c", "exit 3"}, 3, `CPU  FAILED\n$`},
	} {
		var out bytes.Buffer
		code, err := work(context.Background(), &out, "", append([]string{"run", "a name"}, c.command...))
		require.NoError(t, err)
		require.Equal(t, c.code, code)
		require.Regexp(t, `^== a name\n`, out.String())
		require.Regexp(t, c.line, out.String())
	}
	for _, args := range [][]string{{"begin"}, {"end"}, {"run", "a name"}, nil} {
		_, err := work(context.Background(), &bytes.Buffer{}, "", args)
		require.Error(t, err, args)
	}
}

func TestARunWithoutAnyStageIsAnError(t *testing.T) {
	l := ledger.Ledger(filepath.Join(t.TempDir(), "run"))
	_, err := end(context.Background(), &bytes.Buffer{}, l, options{})
	require.ErrorContains(t, err, "when the run began")
	require.NoError(t, l.Begin(time.Now()))
	_, err = end(context.Background(), &bytes.Buffer{}, l, options{})
	require.ErrorContains(t, err, "no stage")
}

func TestAnInterruptEndsSecondRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	all, err := rerunAll(ctx, &bytes.Buffer{}, []ledger.Failure{failure(events.Failed, "m/p", "TestA")}, time.Time{})
	require.NoError(t, err)
	require.Equal(t, "interrupted", all[0].why)
	require.False(t, all[0].passed)
}
