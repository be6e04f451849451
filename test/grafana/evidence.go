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
		Answers: "real etcd, API server, controllers, scheduler, Felix, Ceph, CoreDNS, Mosquitto; the test's machine",
		Without: map[string][]string{
			"ceph":       nil,
			"cluster":    list("3A 4A 5A 6A 7A 8A 9A 10A 13A 14A 18A 24A"),
			"kubernetes": list("3A 5A 15A 18A 20A 21A 22A 23A 24A 25A 26A 29A"),
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
			"kubernetes": list("1A 4A 7A 8A 9A 10A 11A 12A 12B 13A 14A 14B 16A 17A 19A 27A 28A 28B 30A"),
			"mqtt-dns": list(`1A 2A 3A 4A 5A 6A 7A 7B 8A 8B 9A 10A 11A 13A 14A 15A 16A 17B 18A 19A 20A 21A 21B
				22A`),
			"node": list("28A"),
		},
	}
	// Brokers has three nodes with Kafka in containers, of which one keeps the metrics.
	Brokers = Evidence{
		Test:    "test/nspawn TestThreeBrokers",
		Answers: "three nodes with real brokers of Kafka",
		// Containers may not ask for the state of the clock, keep no updates, and have no sensors. Their disks are
		// the host's.
		Without: map[string][]string{
			"cluster": list("4A 5A 22A"),
			"kafka":   list("6A 7A"),
			"node":    list("2A 3A 4A 18A 23A 23B 24A 25A 26A 27A 27B 28A"),
		},
	}
)

func list(keys string) []string { return strings.Fields(keys) }

// All are all tests that evaluate queries.
func All() []Evidence { return []Evidence{Recorded, Made, Brokers} }

// Query asks a store of VictoriaMetrics at a moment, and returns the labels of the series that it found.
type Query func(expr string) (series []map[string]string, err error)

// maxQuestion bounds a query that asks several at once, in bytes: an argument of the node's API has at most 4 KiB.
const maxQuestion = 3500

// Silent evaluates the queries of dashboards that this test finds data for, and returns those that fail or find
// nothing, with the reason. Values are those of the variables. Many are asked at once, since each question of an
// operator is a program that starts: count tells for each whether there is anything, under a label with its key.
func (e Evidence) Silent(dashboards []Dashboard, values map[string]string, query Query) []string {
	var out []string
	for i := range dashboards {
		d := &dashboards[i]
		without, ok := e.Without[d.Name]
		if !ok {
			continue
		}
		var keys, counts []string
		length := 0
		ask := func() {
			out = append(out, d.silent(keys, counts, query)...)
			keys, counts, length = nil, nil, 0
		}
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				k := key(p, t)
				if slices.Contains(without, k) {
					continue
				}
				count := fmt.Sprintf("label_set(count(%s), \"query\", %q)", Expand(t.Expr, values), k)
				if length+len(count) > maxQuestion {
					ask()
				}
				keys, counts, length = append(keys, k), append(counts, count), length+len(count)+len(", ")
			}
		}
		ask()
	}
	return out
}

// silent asks for counts at once, and returns which keys found nothing.
func (d *Dashboard) silent(keys, counts []string, query Query) []string {
	if len(keys) == 0 {
		return nil
	}
	series, err := query("union(" + strings.Join(counts, ", ") + ")")
	if err != nil {
		return []string{fmt.Sprintf("%s %v: %v", d.Name, keys, err)}
	}
	found := map[string]bool{}
	for _, labels := range series {
		found[labels["query"]] = true
	}
	var out []string
	for _, k := range keys {
		if !found[k] {
			out = append(out, d.Name+" "+k+": no data")
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
