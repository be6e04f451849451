package grafana

import (
	"fmt"
	"slices"
	"strings"
)

// Evidence is a test that evaluates the queries of dashboards in a live store and wants data of each.
type Evidence struct {
	// Test is its name, Answers is what the store has.
	Test, Answers string
	// Without are the queries of each dashboard that find nothing there, such as 12A. A dashboard that is not named
	// is not evaluated by this test.
	Without map[string][]string
}

// The tests. Who adds a panel has nothing to add here: each of them evaluates it, and fails where it finds no data. A
// query that one of them cannot find data for goes into its list, and has to be found by another one.
var (
	// Recorded has answers of real programs that were recorded once (testdata), and of the kernel below the test.
	Recorded = Evidence{
		Test:    "test/services TestEachPanelFindsData, recorded",
		Answers: "a real etcd, API server, controller manager, scheduler, Ceph, CoreDNS and Mosquitto; the test's machine",
		Without: map[string][]string{
			"ceph":       nil,
			"cluster":    list("3A 4A 5A 6A 7A 8A 9A 10A 13A 14A 18A 24A"),
			"kubernetes": list("3A 5A 15A 18A 20A 21A 22A 23A 24A 25A 26A 27A 28A 28B 29A"),
			"mqtt-dns":   list("12A 17A"),
			"node":       list("1A 3A 4A 5A 6A 18A 23A 23B 24A 25A 26A 29A 30A 31A"),
		},
	}
	// Made has answers that were written by hand, in the form that the programs' sources say.
	Made = Evidence{
		Test:    "test/services TestEachPanelFindsData, made",
		Answers: "written by hand",
		Without: map[string][]string{
			"cluster":    nil,
			"kafka":      nil,
			"kubernetes": list("1A 4A 7A 8A 9A 10A 11A 12A 12B 13A 14A 14B 16A 17A 19A 30A"),
			"mqtt-dns":   list("1A 2A 3A 4A 5A 6A 7A 7B 8A 8B 9A 10A 11A 13A 14A 15A 16A 17B 18A 19A 20A"),
			"node":       list("28A"),
		},
	}
	// Brokers has three nodes with Kafka in containers, of which one keeps the metrics.
	Brokers = Evidence{
		Test:    "test/nspawn TestThreeBrokers",
		Answers: "three nodes with real brokers of Kafka",
		Without: map[string][]string{"cluster": {}, "kafka": {}, "node": {}},
	}
)

func list(keys string) []string { return strings.Fields(keys) }

// All are all tests that evaluate queries.
func All() []Evidence { return []Evidence{Recorded, Made, Brokers} }

// Query asks a store at a moment, and returns how many series it found.
type Query func(expr string) (series int, err error)

// Silent evaluates the queries of dashboards that this test finds data for, and returns those that fail or find
// nothing, with the reason. Values are those of the variables.
func (e Evidence) Silent(dashboards []Dashboard, values map[string]string, query Query) []string {
	var out []string
	for i := range dashboards {
		d := &dashboards[i]
		without, ok := e.Without[d.Name]
		if !ok {
			continue
		}
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				if slices.Contains(without, key(p, t)) {
					continue
				}
				n, err := query(Expand(t.Expr, values))
				switch {
				case err != nil:
					out = append(out, fmt.Sprintf("%s %s (%s): %v", d.Name, key(p, t), p.Title, err))
				case n == 0:
					out = append(out, fmt.Sprintf("%s %s (%s): no data", d.Name, key(p, t), p.Title))
				}
			}
		}
	}
	return out
}

// Unproven are the queries of a dashboard that no test evaluates, and the entries of lists that no query has.
func Unproven(d *Dashboard, all []Evidence) []string {
	var out []string
	queries := d.Queries()
	for q := range queries {
		if !slices.ContainsFunc(all, func(e Evidence) bool {
			without, ok := e.Without[d.Name]
			return ok && !slices.Contains(without, q)
		}) {
			out = append(out, d.Name+" "+q+": no test evaluates it")
		}
	}
	for _, e := range all {
		for _, q := range e.Without[d.Name] {
			if _, ok := queries[q]; !ok {
				out = append(out, d.Name+" "+q+": "+e.Test+" leaves out a query that there is not")
			}
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
