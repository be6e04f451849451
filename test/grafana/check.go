package grafana

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/VictoriaMetrics/metricsql"

	"spore/agent/metrics/family"
)

// schemaVersion is that of Grafana 11.0; later ones read it and bring it up to date themselves.
const schemaVersion = 39

// units are Grafana's names of the units that the dashboards use (grafana-data, valueFormats/categories).
var units = []string{
	"none", "short", "percentunit", "bytes", "Bps", "pps", "s", "ms", "celsius", "ops", "reqps", "cps",
}

// kinds are the panels that the dashboards use; all are built into Grafana.
var kinds = []string{"timeseries", "stat", "table", "bargauge"}

// Others are families that come from elsewhere than the node: up is Prometheus' own.
func Others() []family.Family { return []family.Family{{Name: "up", Type: family.Gauge}} }

// Known is what each series may be called, with the labels that it has, of these families.
func Known(families []family.Family) map[string][]string {
	out := map[string][]string{}
	for _, f := range families {
		names := []string{f.Name}
		switch f.Type {
		case family.Histogram:
			names = []string{f.Name + "_bucket", f.Name + "_sum", f.Name + "_count"}
		case family.Summary:
			names = []string{f.Name, f.Name + "_sum", f.Name + "_count"}
			out[f.Name] = append(out[f.Name], "quantile")
		}
		for _, name := range names {
			out[name] = append(out[name], f.Labels...)
			out[name] = append(out[name], "instance", "job", "program")
			if strings.HasSuffix(name, "_bucket") {
				out[name] = append(out[name], "le")
			}
		}
	}
	return out
}

// checker collects what is wrong with a dashboard.
type checker struct {
	d     *Dashboard
	known map[string][]string
	errs  []string
}

func (c *checker) errorf(format string, a ...any) {
	c.errs = append(c.errs, c.d.Name+": "+fmt.Sprintf(format, a...))
}

// Check is what is wrong with a dashboard. Known are the series that there can be.
func Check(d *Dashboard, known map[string][]string) []string {
	c := checker{d: d, known: known}
	if d.UID != "spore-"+d.Name {
		c.errorf("its uid is %q; links of other dashboards need spore-%s", d.UID, d.Name)
	}
	if d.Title == "" || d.Description == "" {
		c.errorf("it needs a title and a description")
	}
	if d.SchemaVersion != schemaVersion {
		c.errorf("its schemaVersion is %d, not %d", d.SchemaVersion, schemaVersion)
	}
	if !slices.Contains(d.Tags, "spore") {
		c.errorf("it lacks the tag spore, by which dashboards lead to each other")
	}
	c.variables()
	ids, titles := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		if p.ID < 1 || ids[p.ID] {
			c.errorf("%q: the id %d is less than 1, or another panel has it", p.Title, p.ID)
		}
		if p.Title == "" || titles[p.Title] {
			c.errorf("panel %d: the title %q is empty, or another panel has it", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		c.panel(p)
	}
	c.places()
	return c.errs
}

func (c *checker) variables() {
	names := map[string]bool{}
	for i, v := range c.d.Templating.List {
		if v.Name == "" || v.Label == "" || names[v.Name] {
			c.errorf("variable %d: it needs a name of its own and a label", i+1)
		}
		names[v.Name] = true
		switch {
		case i == 0:
			if v.Name != "datasource" || v.Type != "datasource" || string(v.Query) != `"prometheus"` {
				c.errorf("the first variable has to be datasource, of the type datasource, for prometheus")
			}
		case v.Type != "query":
			c.errorf("variable %s: its type is %q, not query", v.Name, v.Type)
		default:
			c.source("variable "+v.Name, v.Datasource)
			c.values(v, names)
		}
	}
	if !names["datasource"] || !names["instance"] {
		c.errorf("it needs the variables datasource and instance")
	}
}

// labelValues is the query of a variable (grafana.com, Prometheus template variables), limited by a variable before it.
var labelValues = regexp.MustCompile(`^label_values\(([a-z_]+)(?:\{([a-z]+)=~"\$([a-z]+)"\})?, ([a-z_]+)\)$`)

// values looks at a variable that has the values of a label. All of them have to be those of nodes of Spore: the same
// Prometheus may have other machines, whose families have the same names, and which a value of .* would show, too.
func (c *checker) values(v Variable, before map[string]bool) {
	m := labelValues.FindStringSubmatch(v.Definition)
	if m == nil || c.known[m[1]] == nil || !slices.Contains(c.known[m[1]], m[4]) {
		c.errorf("variable %s: %q is not label_values of a family and one of its labels", v.Name, v.Definition)
		return
	}
	if m[3] == v.Name || m[3] != "" && !before[m[3]] || m[1] == "up" && m[3] == "" {
		c.errorf("variable %s: %q needs a variable before it that chooses the job", v.Name, v.Definition)
	}
	if v.AllValue != "" {
		c.errorf("variable %s: all of them are %q, which other machines have, too", v.Name, v.AllValue)
	}
	var query struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal(v.Query, &query); err != nil || query.Query != v.Definition {
		c.errorf("variable %s: its query and its definition differ", v.Name)
	}
}

func (c *checker) source(who string, s Datasource) {
	if s != (Datasource{Type: "prometheus", UID: "${datasource}"}) {
		c.errorf("%s: it asks %v, not the variable datasource", who, s)
	}
}

func (c *checker) panel(p Panel) {
	if !slices.Contains(kinds, p.Type) {
		c.errorf("%q: panels of the type %q are not tested", p.Title, p.Type)
	}
	if !strings.HasSuffix(p.Description, ".") {
		c.errorf("%q: its description is not a sentence", p.Title)
	}
	if !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
		c.errorf("%q: %q is not a unit that is known here", p.Title, p.FieldConfig.Defaults.Unit)
	}
	c.source(p.Title, p.Datasource)
	if len(p.Targets) == 0 {
		c.errorf("%q: it has no query", p.Title)
	}
	ids := map[string]bool{}
	for _, t := range p.Targets {
		if len(t.RefID) != 1 || ids[t.RefID] {
			c.errorf("%q: the name %q of a query is not a letter of its own", p.Title, t.RefID)
		}
		ids[t.RefID] = true
		c.source(p.Title, t.Datasource)
		if t.Instant == t.Range || t.Range != (p.Type == "timeseries") {
			c.errorf("%q: lines are of a time, and everything else of a moment", p.Title)
		}
		if (t.Format == "table") != (p.Type == "table") {
			c.errorf("%q: a table needs the format table, and nothing else does", p.Title)
		}
		c.query(p.Title, t)
	}
}

// places are those of panels: within 24 columns, and without one over another.
func (c *checker) places() {
	for i, p := range c.d.Panels {
		a := p.GridPos
		if a.X < 0 || a.Y < 0 || a.W < 1 || a.H < 1 || a.X+a.W > 24 {
			c.errorf("%q: its place %+v is outside of 24 columns", p.Title, a)
		}
		for _, q := range c.d.Panels[:i] {
			b := q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				c.errorf("%q lies over %q", p.Title, q.Title)
			}
		}
	}
}

var legend = regexp.MustCompile(`\{\{([^}]*)\}\}`)

// query looks at one query. What finds data whatever the store has, or none while all is well, cannot be tested:
// comparisons have to be of bool, and neither or nor functions without series are taken.
func (c *checker) query(title string, t Target) {
	values := map[string]string{}
	for _, v := range c.d.Templating.List {
		values[v.Name] = "x"
	}
	expr := Expand(t.Expr, values)
	if strings.Contains(expr, "$") {
		c.errorf("%q: %s uses a variable that the dashboard does not have", title, t.Expr)
		return
	}
	e, err := metricsql.Parse(expr)
	if err != nil {
		c.errorf("%q: %s: %v", title, t.Expr, err)
		return
	}
	labels, grouped := map[string]bool{}, []string{}
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			c.series(title, e, labels)
		case *metricsql.AggrFuncExpr:
			grouped = append(grouped, e.Modifier.Args...)
		case *metricsql.BinaryOpExpr:
			grouped = slices.Concat(grouped, e.GroupModifier.Args, e.JoinModifier.Args)
			if compares[e.Op] && !e.Bool || e.Op == "or" || e.Op == "default" {
				c.errorf("%q: %s cannot be told from a query that finds nothing", title, e.Op)
			}
		case *metricsql.FuncExpr:
			if slices.Contains([]string{"vector", "absent", "absent_over_time"}, e.Name) {
				c.errorf("%q: %s finds data where there is none", title, e.Name)
			}
		}
	})
	for _, l := range grouped {
		if !labels[l] {
			c.errorf("%q: it is grouped by the label %s, which its series do not have", title, l)
		}
	}
	left, grouping := remaining(e)
	for _, m := range legend.FindAllStringSubmatch(t.LegendFormat, -1) {
		if !labels[m[1]] || grouping && !slices.Contains(left, m[1]) {
			c.errorf("%q: the legend has the label %s, which its series do not have", title, m[1])
		}
	}
}

// remaining are the labels that the series of a query can have after it has grouped them, if it has.
func remaining(e metricsql.Expr) (labels []string, grouping bool) {
	switch e := e.(type) {
	case *metricsql.AggrFuncExpr:
		if chooses := strings.HasSuffix(e.Name, "topk") || strings.HasSuffix(e.Name, "bottomk"); chooses && len(e.Args) == 2 {
			return remaining(e.Args[1])
		}
		if e.Modifier.Op == "without" {
			return nil, false
		}
		return e.Modifier.Args, true
	case *metricsql.BinaryOpExpr:
		labels, grouping := remaining(e.Left)
		if _, isNumber := e.Left.(*metricsql.NumberExpr); isNumber {
			labels, grouping = remaining(e.Right)
		}
		return slices.Concat(labels, e.JoinModifier.Args), grouping
	case *metricsql.FuncExpr:
		if len(e.Args) > 0 {
			return remaining(e.Args[len(e.Args)-1])
		}
	}
	return nil, false
}

var compares = map[string]bool{"==": true, "!=": true, "<": true, "<=": true, ">": true, ">=": true}

// series looks at a selector, and adds the labels of its family.
func (c *checker) series(title string, e *metricsql.MetricExpr, labels map[string]bool) {
	if len(e.LabelFilterss) != 1 {
		c.errorf("%q: a selector has no name, or is none of PromQL", title)
		return
	}
	filters := e.LabelFilterss[0]
	if len(filters) == 0 || filters[0].Label != "__name__" || filters[0].IsRegexp || filters[0].IsNegative {
		c.errorf("%q: a selector has no name", title)
		return
	}
	name, chosen := filters[0].Value, false
	have, ok := c.known[name]
	if !ok {
		c.errorf("%q: nobody tells %s", title, name)
		return
	}
	for _, f := range filters[1:] {
		if !slices.Contains(have, f.Label) {
			c.errorf("%q: %s has no label %s", title, name, f.Label)
		}
		chosen = chosen || f.Label == "instance" && f.IsRegexp && !f.IsNegative
	}
	if !chosen {
		c.errorf("%q: %s is not limited to the chosen nodes", title, name)
	}
	for _, l := range have {
		labels[l] = true
	}
}
