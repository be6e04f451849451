package grafana

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/agent/metrics/serve"
)

const folder = "../../docs/grafana"

func known() map[string][]string { return Known(slices.Concat(serve.Families(), Others())) }

func load(t *testing.T) []Dashboard {
	t.Helper()
	all, err := Load(folder)
	require.NoError(t, err)
	return all
}

func TestTheSixDashboards(t *testing.T) {
	var names, uids []string
	for _, d := range load(t) {
		require.Empty(t, Check(&d, known()), d.Name)
		names, uids = append(names, d.Name), append(uids, d.UID)
	}
	require.Equal(t, []string{"ceph", "cluster", "kafka", "kubernetes", "mqtt-dns", "node"}, names)
	slices.Sort(uids)
	require.Len(t, slices.Compact(uids), len(names))
}

// TestAnswersAreThoseThatNodesGive has no family and no label in the recorded answers that nodes do not tell.
func TestAnswersAreThoseThatNodesGive(t *testing.T) {
	sample := regexp.MustCompile(`(?m)^([a-zA-Z0-9_]+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([A-Za-z_]+)="[^"]*"`)
	series := known()
	files, err := answers.ReadDir("testdata")
	require.NoError(t, err)
	for _, f := range files {
		text, err := answers.ReadFile("testdata/" + f.Name())
		require.NoError(t, err)
		samples := sample.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, samples, f.Name())
		for _, s := range samples {
			require.Contains(t, series, s[1], f.Name())
			for _, l := range label.FindAllStringSubmatch(s[2], -1) {
				require.Contains(t, series[s[1]], l[1], "%s: %s", f.Name(), s[0])
			}
		}
	}
}

func TestEachQueryIsEvaluatedByATest(t *testing.T) {
	for _, d := range load(t) {
		require.Empty(t, Unproven(&d, All()))
	}
}

func TestThePageTellsOfEachDashboard(t *testing.T) {
	page, err := os.ReadFile(folder + "/README.md")
	require.NoError(t, err)
	for _, d := range load(t) {
		require.Contains(t, string(page), "]("+d.Name+".json)")
	}
}

// What Grafana reads from its folder of provisioning (grafana.com, Provision Grafana).
func TestTheSourcesOfGrafana(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct{ Name, Type, Access, URL, UID string }
	}
	data, err := os.ReadFile(folder + "/datasource.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &sources))
	require.Equal(t, 1, sources.APIVersion)
	require.Len(t, sources.Datasources, 1)
	require.Equal(t, "prometheus", sources.Datasources[0].Type)
	require.Equal(t, "proxy", sources.Datasources[0].Access)
	require.NotEmpty(t, sources.Datasources[0].URL)

	var dashboards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	data, err = os.ReadFile(folder + "/dashboards.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &dashboards))
	require.Equal(t, 1, dashboards.APIVersion)
	require.Len(t, dashboards.Providers, 1)
	require.Equal(t, "file", dashboards.Providers[0].Type)
	require.NotEmpty(t, dashboards.Providers[0].Options.Path)
}

const sound = `{"uid":"spore-t","title":"T","description":"D.","tags":["spore"],"schemaVersion":39,
"templating":{"list":[{"name":"datasource","type":"datasource","label":"L","query":"prometheus"},
{"name":"instance","type":"query","label":"L","datasource":{"type":"prometheus","uid":"${datasource}"},
"definition":"label_values(spore_role, instance)","query":{"query":"label_values(spore_role, instance)"}}]},
"panels":[{"id":1,"type":"stat","title":"A","description":"D.","datasource":{"type":"prometheus","uid":"${datasource}"},
"gridPos":{"x":0,"y":0,"w":4,"h":4},"fieldConfig":{"defaults":{"unit":"none"}},
"targets":[{"refId":"A","datasource":{"type":"prometheus","uid":"${datasource}"},"instant":true,
"legendFormat":"{{mode}}",
"expr":"sum by (mode) (rate(node_cpu_seconds_total{instance=~\"$instance\"}[$__rate_interval]))"}]}]}`

func TestFaultsOfDashboardsAreFound(t *testing.T) {
	read := func(text string) *Dashboard {
		d := Dashboard{Name: "t"}
		require.NoError(t, json.Unmarshal([]byte(text), &d))
		return &d
	}
	require.Empty(t, Check(read(sound), known()))
	const expr = `sum by (mode) (rate(node_cpu_seconds_total{instance=~\"$instance\"}[$__rate_interval]))`
	const query = `"targets":[{"refId":"A","datasource":`
	const panels = `"panels":[{`
	const source = `{"type":"prometheus","uid":"${datasource}"}`
	for name, tt := range map[string]struct{ from, to, want string }{
		"another uid":               {"spore-t", "t", `its uid is "t"`},
		"without a title":           {`"title":"T"`, `"title":""`, "needs a title"},
		"an older schema":           {`"schemaVersion":39`, `"schemaVersion":16`, "schemaVersion is 16"},
		"without its tag":           {`["spore"]`, `[]`, "lacks the tag"},
		"a source that is fixed":    {query + source, query + `{"uid":"P1"}`, "not the variable datasource"},
		"a variable of nothing":     {"spore_role, instance", "spore_rule, instance", "not label_values"},
		"a query that is old":       {`"query":"label_values(spore_role`, `"query":"label_values(up`, "differ"},
		"all machines there are":    {"label_values(spore_role,", "label_values(up,", "chooses the job"},
		"a job that comes later":    {"label_values(spore_role,", `label_values(up{job=~\"$job\"},`, "chooses the job"},
		"all is all machines":       {`"L","datasource"`, `"L","allValue":".*","datasource"`, "other machines have"},
		"a type that is gone":       {`"type":"stat"`, `"type":"graph"`, "are not tested"},
		"no description":            {`"title":"A","description":"D."`, `"title":"A","description":""`, "not a sentence"},
		"an unknown unit":           {`"unit":"none"`, `"unit":"parsecs"`, "not a unit"},
		"a place outside":           {`"x":0`, `"x":21`, "outside of 24 columns"},
		"no query":                  {panels, panels + `"id":2,"type":"stat","title":"B"},{`, "it has no query"},
		"the id of another":         {panels, panels + `"id":1,"type":"stat","title":"B"},{`, "another panel has it"},
		"over another":              {panels, panels + `"id":2,"gridPos":{"x":3,"y":3,"w":2,"h":2}},{`, "lies over"},
		"a moment as lines":         {`"type":"stat"`, `"type":"timeseries"`, "lines are of a time"},
		"a table without its form":  {`"type":"stat"`, `"type":"table"`, "the format table"},
		"a family of nobody":        {"node_cpu_seconds_total", "node_cpu_seconds", "nobody tells node_cpu_seconds"},
		"a label of nobody":         {`total{`, `total{core=\"1\",`, "no label core"},
		"a legend of nobody":        {"{{mode}}", "{{core}}", "has the label core"},
		"a group of nobody":         {"sum by (mode)", "sum by (mode, core)", "grouped by the label core"},
		"a legend of what is gone":  {"sum by (mode)", "sum by (cpu)", "has the label mode"},
		"a legend of a sum":         {expr, "1 - topk(3, sort(sum(node_load1)))", "has the label mode"},
		"all nodes":                 {`{instance=~\"$instance\"}`, ``, "not limited to the chosen nodes"},
		"a variable of nobody":      {`$instance\"`, `$node\"`, "does not have"},
		"an expression that is cut": {expr, "sum(", "sum("},
		"always data":               {expr, expr + " or vector(0)", "or cannot be told"},
		"a constant":                {expr, "vector(0)", "vector finds data"},
		"data while it is bad":      {expr, expr + " > 1", "> cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, sound, tt.from)
			errs := Check(read(strings.ReplaceAll(sound, tt.from, tt.to)), known())
			require.Contains(t, strings.Join(errs, "\n"), tt.want)
		})
	}
}

func TestAQueryWithoutATestIsFound(t *testing.T) {
	d := Dashboard{Name: "x", Panels: []Panel{{ID: 1, Targets: []Target{{RefID: "A"}, {RefID: "B"}}}}}
	one := func(without ...string) Evidence {
		return Evidence{Test: "T", Without: map[string][]string{"x": without}}
	}
	require.Empty(t, Unproven(&d, []Evidence{one()}))
	require.Empty(t, Unproven(&d, []Evidence{one("1A"), one("1B")}))
	require.Equal(t, []string{"x 1B: no test evaluates it"}, Unproven(&d, []Evidence{one("1B"), one("1B")}))
	require.Equal(t, []string{"x 1A: no test evaluates it", "x 1B: no test evaluates it"}, Unproven(&d, nil))
	require.Equal(t, []string{"x 2A: T leaves out a query that there is not"}, Unproven(&d, []Evidence{one("2A")}))
}

func TestAQueryWithoutDataIsFound(t *testing.T) {
	all := []Dashboard{
		{Name: "x", Panels: []Panel{{ID: 1, Targets: []Target{
			{RefID: "A", Expr: "a$v"}, {RefID: "B", Expr: "b"}, {RefID: "C", Expr: "c"},
		}}}},
		{Name: "y", Panels: []Panel{{ID: 1, Targets: []Target{{RefID: "A", Expr: "d"}}}}},
	}
	var asked []string
	answer := func(err error, found ...string) Query {
		return func(expr string) (out []map[string]string, _ error) {
			asked = append(asked, expr)
			for _, k := range found {
				out = append(out, map[string]string{"query": k})
			}
			return out, err
		}
	}
	values := map[string]string{"v": "1"}
	e := Evidence{Without: map[string][]string{"x": {"1B"}}}
	require.Empty(t, e.Silent(all, values, answer(nil, "1A", "1C")))
	require.Equal(t, []string{`union(label_set(count(a1), "query", "1A"), label_set(count(c), "query", "1C"))`}, asked)
	require.Equal(t, []string{"x 1A: no data"}, e.Silent(all, values, answer(nil, "1C")))
	require.Equal(t, []string{"x [1A 1C]: away"}, e.Silent(all, values, answer(errors.New("away"), "1A")))

	asked, all[0].Panels[0].Targets[2].Expr = nil, strings.Repeat("c", maxQuestion)
	require.Equal(t, []string{"x 1C: no data"}, e.Silent(all, values, answer(nil, "1A")))
	require.Len(t, asked, 2, "a query that is long is asked alone")
}

func TestVariablesHaveTheirValues(t *testing.T) {
	values := map[string]string{"instance": "a|b", "job": "node"}
	require.Equal(t, `x{instance=~"a|b",job="node"}[2m]`,
		Expand(`x{instance=~"$instance",job="${job}"}[$__rate_interval]`, values))
	require.Equal(t, "$other", Expand("$other", values))
}
