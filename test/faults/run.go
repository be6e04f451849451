package faults

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"spore/test/chance"
)

// Variables of the environment.
const (
	// AllVariable runs all rows: with the value "rest" those that are not in the record as they should be, with any other
	// value each of them.
	AllVariable = "SPORE_FAULTS"
	// RecordVariable is the file that keeps what each row saw.
	RecordVariable = "SPORE_FAULTS_RECORD"
	// PageVariable is the file that a whole run writes.
	PageVariable = "SPORE_FAULTS_PAGE"
)

// Matrix is a table of rows and what a run of it needs.
type Matrix[L any] struct {
	Rows []Row[L]
	// Budget is the CPU time of the rows that are drawn, Shared that of the machines of Row.Shares.
	Budget time.Duration
	Shared map[string]time.Duration
	// Lab makes what the rows share. It is called once, and only when a row needs it.
	Lab func(t *testing.T) L
	// Done, when not nil, is told when the last row with that word in Row.Shares has ended.
	Done func(t *testing.T, l L, shares string)
	// Keep takes the table of each run, also one that was not whole.
	Keep func(text string)
	// Accel says how machines run code.
	Accel string
}

// Run runs the rows: all of them, or those that the seed of this run draws. Rows that share a machine run one after the
// other, all others side by side.
func (m Matrix[L]) Run(t *testing.T) {
	t.Helper()
	if err := Check(m.Rows); err != nil {
		t.Fatal(err)
	}
	if err := checkTests(os.DirFS(root), m.Rows); err != nil {
		t.Fatal(err)
	}
	seed, all := chance.Seed(t), os.Getenv(AllVariable) != ""
	r := &run[L]{matrix: m, seen: make([]Seen, len(m.Rows)), seed: seed}
	for i, row := range m.Rows {
		r.seen[i] = Seen{Doing: row.Doing, Happens: row.Happens, Want: row.Want, Loses: row.Loses}
	}
	if path := os.Getenv(RecordVariable); path != "" {
		r.record = &record{path: path}
	}
	chosen, err := r.choose(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range chosen {
		t.Logf("row %d of %d: %s", i+1, len(m.Rows), m.Rows[i].name())
	}
	if len(chosen) > 0 {
		r.lab = m.Lab(t)
		t.Run("row", func(t *testing.T) { r.rows(t, chosen) })
	}
	r.tell(t, chosen, all)
}

// run is one run of a matrix.
type run[L any] struct {
	matrix Matrix[L]
	lab    L
	seed   uint64
	record *record
	mu     sync.Mutex
	seen   []Seen
}

// choose says which rows run: those that the seed draws, all, or all that the record does not have. What the record has
// of the others is what they saw.
func (r *run[L]) choose(all bool) ([]int, error) {
	if !all {
		return Draw(r.matrix.Rows, r.seed, r.matrix.Budget, r.matrix.Shared), nil
	}
	var before map[string]entry
	if os.Getenv(AllVariable) == "rest" {
		if r.record == nil {
			return nil, fmt.Errorf("%s=rest needs the file of %s", AllVariable, RecordVariable)
		}
		var err error
		if before, err = r.record.read(); err != nil {
			return nil, err
		}
	}
	var chosen []int
	for i, row := range r.matrix.Rows {
		e, ran := before[row.name()]
		if ran && e.Wrong == "" && row.check(e.Outcome) == "" {
			r.seen[i].Outcome, r.seen[i].Day, r.seen[i].Seed = &e.Outcome, e.Day, e.Seed
			continue
		}
		chosen = append(chosen, i)
	}
	return chosen, nil
}

func (r *run[L]) rows(t *testing.T, chosen []int) {
	groups := map[string][]int{}
	var names []string
	for _, i := range chosen {
		name := r.matrix.Rows[i].Shares
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], i)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if shares := r.matrix.Rows[groups[name][0]].Shares; shares != "" && r.matrix.Done != nil {
				t.Cleanup(func() { r.matrix.Done(t, r.lab, shares) })
			}
			for _, i := range groups[name] {
				t.Run(r.matrix.Rows[i].name(), func(t *testing.T) { r.row(t, i) })
			}
		})
	}
}

// row runs one row and keeps what it saw.
func (r *run[L]) row(t *testing.T, i int) {
	row := r.matrix.Rows[i]
	o := row.Run(t, r.lab)
	wrong := row.check(o)
	if wrong == "" && t.Failed() {
		wrong = "the test failed"
	}
	r.mu.Lock()
	seen := &r.seen[i]
	seen.Outcome, seen.Wrong, seen.Day, seen.Seed = &o, wrong, today(), r.seed
	r.mu.Unlock()
	if err := r.record.add(*seen); err != nil {
		t.Error(err)
	}
	t.Log(r.seen[i].line())
	if wrong != "" {
		t.Error(wrong)
	}
}

// tell prints the table of the rows that ran, and writes the page when all rows are as they should be.
func (r *run[L]) tell(t *testing.T, chosen []int, all bool) {
	var list []Seen
	for _, i := range chosen {
		list = append(list, r.seen[i])
	}
	text := fmt.Sprintf("\nFault matrix: %d of %d rows, SPORE_SEED=%d\n%s", len(list), len(r.seen), r.seed, Table(list))
	fmt.Print(text)
	r.matrix.Keep(text)
	page := os.Getenv(PageVariable)
	switch {
	case page == "":
	case !all || !whole(r.seen) || t.Failed():
		t.Logf("%s is as it was: not every row ran and is as it should be", page)
	default:
		if err := os.WriteFile(page, []byte(Page(r.seen, r.matrix.Accel)), 0o644); err != nil {
			t.Error(err)
		}
	}
}
