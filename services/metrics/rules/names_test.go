package rules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/stretchr/testify/require"

	"spore/services/metrics"
)

// ofPrograms are families that come from elsewhere than the node's collector: the store tells them of what it asks,
// and of itself.
var ofPrograms = []string{"up", "scrape_samples_scraped", "vm_storage_is_read_only"}

// row is a row of docs/reference/metrics.md: name, type, labels.
var row = regexp.MustCompile("^\\| `([a-zA-Z0-9_]+)` \\| ([a-z]+) \\| ([^|]+) \\|")

// families are the rows of the reference, which is made of the code (package agent/metrics/reference). A family of
// several programs has the labels of all.
func families(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	require.NoError(t, err)
	out := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		of := []string{"instance", "job", "program"}
		for l := range strings.SplitSeq(m[3], ", ") {
			of = append(of, strings.Trim(l, "`"))
		}
		name := m[1]
		if m[2] == "histogram" {
			name, of = name+"_bucket", append(of, "le")
		}
		out[name] = append(out[name], of...)
	}
	require.NotEmpty(t, out)
	return out
}

// selectors are the selectors of series of an expression.
func selectors(t *testing.T, expr string) []*metricsql.MetricExpr {
	t.Helper()
	e, err := metricsql.Parse(expr)
	require.NoError(t, err)
	var out []*metricsql.MetricExpr
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		if m, ok := e.(*metricsql.MetricExpr); ok {
			out = append(out, m)
		}
	})
	return out
}

// familiesOf are the names of the families that an expression looks at.
func familiesOf(t *testing.T, expr string) []string {
	t.Helper()
	var out []string
	for _, s := range selectors(t, expr) {
		require.Len(t, s.LabelFilterss, 1, expr)
		require.Equal(t, "__name__", s.LabelFilterss[0][0].Label, expr)
		out = append(out, s.LabelFilterss[0][0].Value)
	}
	return out
}

// TestRulesLookAtWhatNodesTell holds each selector to the reference: the family and its labels exist, and it takes
// series of nodes alone.
func TestRulesLookAtWhatNodesTell(t *testing.T) {
	known := families(t)
	for name, r := range all(t) {
		for _, s := range selectors(t, r.Expr) {
			filters := s.LabelFilterss[0]
			family := filters[0].Value
			of := slices.IndexFunc(filters, func(f metricsql.LabelFilter) bool { return f.Label == "job" })
			require.Positive(t, of, "%s: %s without job", name, family)
			if slices.Contains(ofPrograms, family) {
				continue
			}
			require.Equal(t, "node", filters[of].Value, "%s: %s of another job", name, family)
			require.Contains(t, known, family, "%s looks at what no node tells", name)
			for _, f := range filters[1:] {
				require.Contains(t, known[family], f.Label, "%s: %s has no such label", name, family)
			}
		}
	}
}

func TestRecordedSeriesAreThoseThatNodesTell(t *testing.T) {
	label := regexp.MustCompile(`([A-Za-z_]+)="`)
	known := families(t)
	for file, list := range read(t) {
		for _, r := range list {
			for name := range r.Series {
				family, labels, _ := strings.Cut(name, "{")
				if slices.Contains(ofPrograms, family) {
					continue
				}
				require.Contains(t, known, family, "%s: %s", file, r.Alert)
				for _, m := range label.FindAllStringSubmatch(labels, -1) {
					require.Contains(t, known[family], m[1], "%s: %s: %s", file, r.Alert, family)
				}
			}
		}
	}
}

// TestTheListOfOthersIsNotTooLong has no family that the reference has, too.
func TestTheListOfOthersIsNotTooLong(t *testing.T) {
	known := families(t)
	used := map[string]bool{}
	for _, r := range all(t) {
		for _, m := range familiesOf(t, r.Expr) {
			used[m] = true
		}
	}
	for _, name := range ofPrograms {
		require.NotContains(t, known, name)
		require.True(t, used[name], "no rule looks at %s", name)
	}
}

// TestEveryWindowHasTwoSamples holds each window of a rule, and each time that it looks back, to the longest interval
// at which nodes may be asked: of one sample, nobody knows what changed.
func TestEveryWindowHasTwoSamples(t *testing.T) {
	const most = metrics.MaxInterval * time.Second
	seen := 0
	for name, r := range all(t) {
		e, err := metricsql.Parse(r.Expr)
		require.NoError(t, err)
		metricsql.VisitAll(e, func(e metricsql.Expr) {
			rollup, ok := e.(*metricsql.RollupExpr)
			if !ok || rollup.Window == nil {
				return
			}
			seen++
			window := time.Duration(rollup.Window.Duration(most.Milliseconds())) * time.Millisecond
			require.GreaterOrEqual(t, window, 2*most, "%s: %s", name, rollup.AppendString(nil))
		})
		// What has to hold for a while is seen twice, too, so that one sample is not told of as something that lasts.
		if r.For > 0 && r.For < most {
			t.Errorf("%s lasts for %s, less than the time between two samples", name, r.For)
		}
	}
	require.Greater(t, seen, 20)
}
