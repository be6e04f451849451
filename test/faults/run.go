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
	// AllVariable set to anything runs all rows.
	AllVariable = "SPORE_FAULTS"
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
	chosen := make([]int, len(m.Rows))
	for i := range chosen {
		chosen[i] = i
	}
	if !all {
		chosen = Draw(m.Rows, seed, m.Budget, m.Shared)
	}
	for _, i := range chosen {
		t.Logf("row %d of %d: %s", i+1, len(m.Rows), m.Rows[i].name())
	}
	r := &run[L]{matrix: m, lab: m.Lab(t), seen: make([]Seen, len(m.Rows))}
	for i, row := range m.Rows {
		r.seen[i] = Seen{Doing: row.Doing, Happens: row.Happens, Want: row.Want, Loses: row.Loses}
	}
	t.Run("row", func(t *testing.T) { r.rows(t, chosen) })
	r.tell(t, chosen, seed, all)
}

// run is one run of a matrix.
type run[L any] struct {
	matrix Matrix[L]
	lab    L
	mu     sync.Mutex
	seen   []Seen
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
	r.mu.Lock()
	r.seen[i].Outcome, r.seen[i].Wrong = &o, wrong
	r.mu.Unlock()
	t.Log(r.seen[i].line())
	if wrong != "" {
		t.Error(wrong)
	}
}

// tell prints the table, and writes the page of a whole run.
func (r *run[L]) tell(t *testing.T, chosen []int, seed uint64, all bool) {
	var list []Seen
	for _, i := range chosen {
		list = append(list, r.seen[i])
	}
	text := fmt.Sprintf("\nFault matrix: %d of %d rows, SPORE_SEED=%d\n%s", len(list), len(r.seen), seed, Table(list))
	fmt.Print(text)
	r.matrix.Keep(text)
	page := os.Getenv(PageVariable)
	switch {
	case page == "":
	case !all || !whole(list) || t.Failed():
		t.Logf("%s is as it was: not every row ran and is as it should be", page)
	default:
		if err := os.WriteFile(page, []byte(Page(list, time.Now(), seed, r.matrix.Accel)), 0o644); err != nil {
			t.Error(err)
		}
	}
}
