package events

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script makes events of lines such as "run TestA" or "output TestA text"; a dot is the package itself.
func script(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for l := range strings.Lines(strings.TrimSpace(text)) {
		fields := strings.SplitN(strings.TrimSpace(l), " ", 3)
		e := event{Action: fields[0], Package: "m/p"}
		if fields[1] != "." {
			e.Test = fields[1]
		}
		if len(fields) == 3 {
			e.Output = strings.ReplaceAll(fields[2], `\t`, "\t") + "\n"
		}
		require.NoError(t, json.NewEncoder(&b).Encode(e))
	}
	return b.String()
}

// What failed, and what was said of it, of a package that declares TestA to TestE.
func TestFailuresOfAPackage(t *testing.T) {
	for _, c := range []struct {
		name, events string
		passed       []string
		want         []Failure // without logs
	}{
		{"a test that fails is to blame, one that passes and one that is skipped are not", `
			run TestA
			output TestA     a_test.go:1: a note
			pass TestA
			run TestB
			output TestB     a_test.go:2: a note
			output TestB     a_test.go:3: wrong
			output TestB         in two lines
			output TestB --- FAIL: TestB (0.00s)
			fail TestB
			run TestC
			skip TestC
			run TestD
			pass TestD
			run TestE
			pass TestE
			output . FAIL
			fail .`, []string{"TestA", "TestD", "TestE"},
			[]Failure{{Kind: Failed, Tests: []string{"TestB"}, Why: []string{"a_test.go:3: wrong", "in two lines"}}}},
		{"an assertion goes before what a test logs as it ends", `
			run TestA
			output TestA     a_test.go:5: a note
			output TestA     a_test.go:7: 
			output TestA         \tError Trace:\t/m/a_test.go:7
			output TestA         \t            \t/m/b_test.go:8
			output TestA         \tError:      \tNot equal: 
			output TestA         \t            \texpected: 1
			output TestA         \tTest:       \tTestA
			output TestA     a_test.go:6: the console of the machine
			fail TestA
			run TestB
			pass TestB
			run TestC
			pass TestC
			run TestD
			pass TestD
			run TestE
			pass TestE
			fail .`, []string{"TestB", "TestC", "TestD", "TestE"},
			[]Failure{{Kind: Failed, Tests: []string{"TestA"},
				Why: []string{"a_test.go:7:", "Error: Not equal:", "expected: 1"}}}},
		{"a part that fails makes its test run again as a whole, and says why", `
			run TestA
			run TestA/one
			output TestA/one     a_test.go:1: fine
			pass TestA/one
			run TestA/two
			output TestA/two     a_test.go:2: wrong
			fail TestA/two
			output TestA     a_test.go:3: the note of the whole
			fail TestA
			run TestB
			pass TestB
			run TestC
			pass TestC
			run TestD
			pass TestD
			run TestE
			pass TestE
			fail .`, []string{"TestB", "TestC", "TestD", "TestE"},
			[]Failure{{Kind: Failed, Tests: []string{"TestA"}, Why: []string{"a_test.go:2: wrong"}}}},
		{"parallel tests whose words alternate", `
			run TestA
			pause TestA
			run TestB
			pause TestB
			run TestC
			pass TestC
			run TestD
			pass TestD
			run TestE
			pass TestE
			cont TestA
			cont TestB
			output TestA     a_test.go:1: wrong in A
			output TestB     a_test.go:2: wrong in B
			fail TestB
			fail TestA
			fail .`, []string{"TestC", "TestD", "TestE"},
			[]Failure{{Kind: Failed, Tests: []string{"TestA"}, Why: []string{"a_test.go:1: wrong in A"}},
				{Kind: Failed, Tests: []string{"TestB"}, Why: []string{"a_test.go:2: wrong in B"}}}},
		{"the time limit: what ran is to blame, what waited or was not begun is unfinished", `
			run TestA
			pass TestA
			run TestB
			pause TestB
			run TestC
			pause TestC
			cont TestC
			run TestC/part
			output TestC/part     a_test.go:1: begun
			output TestC/part panic: test timed out after 1s
			output TestC/part \trunning tests:
			output TestC/part \t\tTestC/part (1s)
			output TestC/part 
			output TestC/part goroutine 7 [running]:
			output . FAIL\tm/p\t1.0s
			fail .`, []string{"TestA"},
			[]Failure{{Kind: Failed, Tests: []string{"TestC"},
				Why: []string{"panic: test timed out after 1s", "running tests:", "TestC/part (1s)"}},
				{Kind: Unfinished, Tests: []string{"TestB", "TestD", "TestE"},
					Why: []string{"panic: test timed out after 1s", "running tests:", "TestC/part (1s)"}}}},
		{"a panic: its test is to blame, those that ran beside it are unfinished", `
			run TestA
			run TestB
			output TestA     a_test.go:1: a note
			output TestA --- FAIL: TestA (0.00s)
			output TestA panic: nil map [recovered, repanicked]
			output TestA goroutine 7 [running]:
			fail TestA
			output . FAIL\tm/p\t1.0s
			fail .`, nil,
			[]Failure{{Kind: Failed, Tests: []string{"TestA"}, Why: []string{"panic: nil map [recovered, repanicked]"}},
				{Kind: Unfinished, Tests: []string{"TestB", "TestC", "TestD", "TestE"},
					Why: []string{"panic: nil map [recovered, repanicked]"}}}},
		{"a panic that a test only quotes ends nothing", `
			run TestA
			output TestA panic: of a machine
			output TestA     a_test.go:1: wrong
			fail TestA
			run TestB
			pass TestB
			run TestC
			pass TestC
			run TestD
			pass TestD
			run TestE
			pass TestE
			output . FAIL
			fail .`, []string{"TestB", "TestC", "TestD", "TestE"},
			[]Failure{{Kind: Failed, Tests: []string{"TestA"}, Why: []string{"a_test.go:1: wrong"}}}},
		{"a package that ends before its first test is broken", `
			output . prepare: no image
			output . FAIL\tm/p\t1.0s
			fail .`, nil,
			[]Failure{{Kind: Broken, Why: []string{"prepare: no image", "FAIL m/p 1.0s"}}}},
		{"a package that fails after all its tests passed is broken", `
			run TestA
			pass TestA
			run TestB
			pass TestB
			run TestC
			pass TestC
			run TestD
			pass TestD
			run TestE
			pass TestE
			output . PASS
			output . a process is left
			fail .`, []string{"TestA", "TestB", "TestC", "TestD", "TestE"},
			[]Failure{{Kind: Broken, Why: []string{"PASS", "a process is left"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, log bytes.Buffer
			p := newPrinter(&out, &log, false)
			p.declared = func(string) ([]string, error) {
				return []string{"TestA", "TestB", "TestC", "TestD", "TestE"}, nil
			}
			require.NoError(t, p.read(strings.NewReader(script(t, c.events))))
			p.exit(1)
			var passed []string
			for _, test := range p.outcome.Passed {
				passed = append(passed, test.Name)
			}
			require.Equal(t, c.passed, passed)
			for i := range p.outcome.Failures {
				f := &p.outcome.Failures[i]
				require.Equal(t, "m/p", f.Package)
				require.NotEmpty(t, f.Log)
				f.Package, f.Log = "", ""
			}
			require.Equal(t, c.want, p.outcome.Failures)
		})
	}
}

func TestTheLogOfATestIsItsOwnAndThatOfItsPackage(t *testing.T) {
	p := newPrinter(&bytes.Buffer{}, nil, false)
	require.NoError(t, p.read(strings.NewReader(script(t, `
		output . of the package
		run TestA
		output TestA of A
		run TestA/part
		output TestA/part of the part
		fail TestA
		run TestB
		output TestB of B
		output TestB panic: in a goroutine
		output TestB goroutine 7
		fail .`))))
	require.Equal(t, "of the package\nof A\nof the part\npanic: in a goroutine\ngoroutine 7\n", p.outcome.Failures[0].Log)
}

// Where go test has no result for a package, or did not come to it, no second run of tests makes it good.
func TestGoTestThatEndsEarlyIsBroken(t *testing.T) {
	failed := `
		run TestA
		fail TestA
		fail .`
	for _, c := range []struct {
		name, events string
		code         int
		want         []Kind
	}{
		{"it passes", "pass .", 0, nil},
		{"a test fails", failed, 1, []Kind{Failed}},
		{"a signal ends it between two packages", failed, -1, []Kind{Failed, Broken}},
		{"it is ended while a test runs", "run TestA", 1, []Kind{Failed, Broken}},
		{"it refuses its arguments", "", 2, []Kind{Broken}},
		{"it finds no package", "", 1, []Kind{Broken}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPrinter(&bytes.Buffer{}, nil, false)
			if c.events != "" {
				require.NoError(t, p.read(strings.NewReader(script(t, c.events))))
			}
			p.exit(c.code)
			var kinds []Kind
			for _, f := range p.outcome.Failures {
				kinds = append(kinds, f.Kind)
			}
			require.Equal(t, c.want, kinds)
		})
	}
}

// What is not an event is go's own, and printed.
func FuzzEvents(f *testing.F) {
	f.Add(`{"Action":"output","Package":"m","Test":"TestA","Output":"    a_test.go:1: why\n"}` + "\n" +
		`{"Action":"skip","Package":"m","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"m"}` + "\n")
	f.Add("go: downloading x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		p := newPrinter(&out, nil, true)
		require.NoError(t, p.read(strings.NewReader(text)))
		if !strings.Contains(text, "{") {
			require.Equal(t, text, out.String())
		}
		p.exit(1)
		require.NotEmpty(t, p.outcome.Failures)
	})
}
