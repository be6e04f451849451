package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/chance"
)

func noRun(*testing.T, int) Outcome { return Outcome{} }

func someRows() []Row[int] {
	return []Row[int]{
		{Doing: Push, Happens: "a", Want: New, CPU: 10 * time.Second, Run: noRun},
		{Doing: Push, Happens: "b", Want: New, CPU: 20 * time.Second, Run: noRun},
		{Doing: Push, Happens: "c", Want: New, Shares: "running", Run: noRun},
		{Doing: Push, Happens: "d", Want: New, Shares: "running", Run: noRun},
		{Doing: Push, Happens: "e", Want: New, CPU: time.Second, Own: "TestE", Run: noRun},
		{Doing: Push, Happens: "f", Want: New, Run: noRun},
		{Doing: Push, Happens: "g", Want: New, CPU: time.Second, Soak: true, Run: noRun},
		{Doing: Push, Happens: "h", Want: New, Shares: "running", Soak: true, Run: noRun},
	}
}

func TestRowsAreDrawnBySeedWithinTheBudget(t *testing.T) {
	rows, shared := someRows(), map[string]time.Duration{"running": 30 * time.Second}
	cost := map[int]time.Duration{0: 10 * time.Second, 1: 20 * time.Second}
	drawnOnce := map[int]bool{}
	for seed := range uint64(200) {
		got := Draw(rows, seed, 40*time.Second, shared)
		require.Equal(t, got, Draw(rows, seed, 40*time.Second, shared), "the same seed")
		require.NotEmpty(t, got)
		require.IsIncreasing(t, append([]int{-1}, got...))
		sum, running := time.Duration(0), false
		for _, i := range got {
			drawnOnce[i] = true
			require.Less(t, i, 4, "what each run has anyway is not drawn, nor what only a run of all rows has")
			sum += cost[i]
			running = running || i >= 2
		}
		if running {
			sum += 30 * time.Second
		}
		require.LessOrEqual(t, sum, 40*time.Second)
	}
	require.Len(t, drawnOnce, 4, "each comes up")
	require.Len(t, Draw(rows, 1, 0, shared), 1, "one at least")
	require.Empty(t, Draw(rows[4:], 1, time.Hour, shared))
}

func TestARowThatNamesATestThatIsGoneIsFound(t *testing.T) {
	tree := fstest.MapFS{
		"agent/slot/slot_test.go": {Data: []byte("package slot\n\nfunc TestACut(t *testing.T) {}\nfunc helper() {}\n")},
		"agent/slot/more_test.go": {Data: []byte("package slot\n\nfunc TestARecordThatIsDamaged(t *testing.T) {}\n")},
	}
	for pattern, want := range map[string]string{
		"^TestACut$":                            "",
		"^TestACut$/^at_each_write$":            "",
		"^TestARecord":                          "",
		"^(TestACut|TestARecordThatIsDamaged)$": "",
		"^TestAFlush$":                          `row "push of configuration, a": agent/slot has no test TestAFlush; name the one that shows it now`,
		"^(TestACut|TestAFlush)$":               `row "push of configuration, a": agent/slot has no test TestAFlush; name the one that shows it now`,
	} {
		err := checkTests(tree, append(someRows(), Test[int](Push, "a", New, "./agent/slot", pattern)))
		if want == "" {
			require.NoError(t, err, pattern)
			continue
		}
		require.EqualError(t, err, want, pattern)
	}
}

func TestARowThatEndsOtherwiseIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		row  Row[int]
		seen Outcome
		want string
	}{
		"as wanted":             {Row[int]{Want: Whole}, Outcome{After: Whole}, ""},
		"with an expected loss": {Row[int]{Want: Whole, Loses: "a topic"}, Outcome{After: Whole, Lost: "a topic"}, ""},
		"another end":           {Row[int]{Want: Whole}, Outcome{After: NoRoles}, "the machine " + string(NoRoles) + "; wanted: " + string(Whole)},
		"a loss":                {Row[int]{Want: Whole}, Outcome{After: Whole, Lost: "a topic"}, "lost is a topic; wanted: nothing"},
		"a loss that was not":   {Row[int]{Want: Whole, Loses: "a topic"}, Outcome{After: Whole}, "lost is nothing; wanted: a topic"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.row.check(tt.seen)) })
	}
}

func TestTablesOfRowsThatCannotBeAPageAreRefused(t *testing.T) {
	require.NoError(t, Check(someRows()))
	for want, change := range map[string]func(*Row[int]){
		"the page has no place for":                     func(r *Row[int]) { r.Doing = "sleeping" },
		"Happens, Want and Run":                         func(r *Row[int]) { r.Run = nil },
		"neither | nor line ends":                       func(r *Row[int]) { r.Happens = "a|b" },
		`row "push of configuration, b" is there twice`: func(r *Row[int]) { r.Happens = "b" },
		`row "push of configuration, ": Happens`:        func(r *Row[int]) { r.Happens = "" },
		`row "push of configuration, a": Happens`:       func(r *Row[int]) { r.Want = "" },
	} {
		rows := someRows()
		change(&rows[0])
		require.ErrorContains(t, Check(rows), want)
	}
}

func TestThePageHasEveryRowUnderWhatTheMachineDid(t *testing.T) {
	list := []Seen{
		{Doing: Push, Happens: "power cut", Want: Either, Outcome: &Outcome{After: Either, Note: "agent/slot, 900 faults"}, Day: "2026-11-25", Seed: 7},
		{Doing: FirstBoot, Happens: "power cut", Want: Whole, Outcome: &Outcome{After: Whole, Took: 20 * time.Second}, Day: "2026-11-24", Seed: 7},
	}
	require.True(t, whole(list))
	text := Page(list, "tcg")
	for _, want := range []string{
		"# Faults\n", "all\n2 rows", "ran on 2026-11-24 and 2026-11-25, with SPORE_SEED=7.\n", "in QEMU (tcg).",
		"\n## First boot\n\n| what happens | the machine after | seconds | lost | seen |\n|---|---|--:|---|---|\n| power cut | runs all its roles | 20 | nothing |  |\n\n## Push of configuration\n",
		"| power cut | " + string(Either) + " | – | nothing | agent/slot, 900 faults |\n",
	} {
		require.Contains(t, text, want)
	}
	list[0].Wrong = "the machine stops"
	require.False(t, whole(list))
	require.Contains(t, Table(list), "**NOT AS WANTED**: the machine stops")
	list[0].Wrong, list[1].Outcome = "", nil
	require.False(t, whole(list))
	require.Contains(t, Table(list), "| power cut | did not end | – | – | wanted: runs all its roles |")
	require.False(t, whole(nil))
}

// A run that leaves rows out does not touch the page; a whole one writes it.
func TestOnlyAWholeRunWritesThePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "faults.md")
	t.Setenv(PageVariable, page)
	t.Setenv(chance.Variable, "1")
	var mu sync.Mutex // Rows run side by side.
	var ran []string
	rows := someRows()
	for i := range rows {
		want := rows[i].Want
		rows[i].Run = func(t *testing.T, l int) Outcome {
			require.Equal(t, 42, l)
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, rows[i].Happens)
			return Outcome{After: want}
		}
	}
	kept := ""
	m := Matrix[int]{
		Rows: rows, Budget: 10 * time.Second, Shared: map[string]time.Duration{"running": time.Second}, Lab: func(*testing.T) int { return 42 },
		Keep: func(text string) { kept = text }, Accel: "none",
	}
	t.Run("some", m.Run)
	require.NotEmpty(t, ran)
	require.NotContains(t, ran, "e")
	require.NoFileExists(t, page)
	require.Contains(t, kept, "of 8 rows, SPORE_SEED=")

	ran = nil
	t.Setenv(AllVariable, "1")
	t.Run("all", m.Run)
	require.ElementsMatch(t, []string{"a", "b", "c", "d", "e", "f", "g", "h"}, ran)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "This page lists what was done")
	require.Contains(t, kept, "Fault matrix: 8 of 8 rows")
}

// A run that breaks off, or in which rows end otherwise, goes on where it was.
func TestARunGoesOnWithTheRowsThatAreNotAsTheyShouldBe(t *testing.T) {
	dir := t.TempDir()
	page, kept := filepath.Join(dir, "faults.md"), filepath.Join(dir, "faults.jsonl")
	t.Setenv(PageVariable, page)
	t.Setenv(RecordVariable, kept)
	t.Setenv(AllVariable, "rest")
	now := chance.Seed(t)
	earlier := record{path: kept}
	seen := func(happens string, after State, wrong string) Seen {
		return Seen{Doing: Push, Happens: happens, Outcome: &Outcome{After: after}, Wrong: wrong, Day: "2026-11-24"}
	}
	for _, s := range []Seen{
		seen("a", New, ""), seen("b", New, ""), seen("c", Before, "the machine did not take it"), seen("d", New, "the test failed"),
		seen("e", New, ""), seen("e", Before, "the machine did not take it"), seen("f", Before, "x"), seen("f", New, ""),
		seen("a row that is gone", New, ""), seen("h", Before, ""),
	} {
		s.Seed = now
		require.NoError(t, earlier.add(s))
	}
	f, err := os.OpenFile(kept, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"Row":"push of configuration, g","Outc`)
	require.NoError(t, errors.Join(err, f.Close()))

	var mu sync.Mutex // Rows run side by side.
	var ran []string
	rows := someRows()
	for i := range rows {
		rows[i].Run = func(*testing.T, int) Outcome {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, rows[i].Happens)
			return Outcome{After: New}
		}
	}
	m := Matrix[int]{Rows: rows, Lab: func(*testing.T) int { return 0 }, Keep: func(string) {}, Accel: "none"}
	t.Run("the rest", m.Run)
	require.ElementsMatch(t, []string{"c", "d", "e", "g", "h"}, ran,
		"what ended otherwise, was cut, or is not what the row wants now")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "ran on 2026-11-24 and "+today()+fmt.Sprintf(", with SPORE_SEED=%d.\n", now))

	ran = nil
	m.Lab = func(*testing.T) int { panic("no row needs it") }
	t.Run("nothing", m.Run)
	require.Empty(t, ran)
}

func TestWhatATestSaysIsCounted(t *testing.T) {
	tried, passed := counts(`=== RUN   TestA
=== RUN   TestA/one
    slot_test.go:10: faults tried: 120
=== RUN   TestA/two
    slot_test.go:10: faults tried: 3
--- PASS: TestA (0.10s)
    --- PASS: TestA/one (0.05s)
    --- PASS: TestA/two (0.05s)
=== RUN   TestB
--- PASS: TestB (0.00s)
=== RUN   TestC
    --- SKIP: TestC (0.00s)
PASS
`)
	require.Equal(t, 123, tried)
	require.Equal(t, 3, passed, "tests with parts count by their parts")
	tried, passed = counts("testing: warning: no tests to run\nPASS\n")
	require.Zero(t, tried)
	require.Zero(t, passed)
}

// A row of Test runs go test for real: here, the one above.
func TestARowOfATestRunsIt(t *testing.T) {
	row := Test[int](Push, "a count", New, "./test/faults", "^TestWhatATestSaysIsCounted$")
	o := row.Run(t, 0)
	require.Empty(t, row.check(o))
	require.Equal(t, "test/faults, 1 case", o.Note)
	require.Equal(t, "./test/faults ^TestWhatATestSaysIsCounted$", row.Own)
}

func TestTheLongestTimeOfATestIsTheRowsOwn(t *testing.T) {
	require.Equal(t, 12300*time.Millisecond, took(`=== RUN   TestA
    a_test.go:1: from the fault until all was whole: 1.5s
    a_test.go:2: from the fault until all was whole: 12.3s
    a_test.go:3: from the fault until all was whole: soon
`))
	require.Zero(t, took("PASS\n"))
}

func TestARowOfAClusterIsNotDrawn(t *testing.T) {
	r := Cluster[int](Order, "a", Asked, "./test/nspawn", "^TestA$")
	require.NoError(t, Check([]Row[int]{r}))
	require.Empty(t, Draw([]Row[int]{r}, 1, time.Hour, nil), "make test runs it in a stage of its own")
	require.NotEmpty(t, r.Shares, "no two clusters run at the same time")
}
