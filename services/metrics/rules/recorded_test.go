package rules

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/services/metrics"
	"spore/services/metrics/rules/shipped"
)

// recorded are series with which an alert fires and those with which it does not, of testdata/*.yaml.
type recorded struct {
	Alert string
	// Every is the time between two samples, and between two looks at the rule.
	Every string
	// Series are what is told, in the notation of promtool.
	Series map[string]string
	// At the times of Quiet it does not fire yet, at those of Fires it does, and at those of Resolved not any more.
	Quiet, Fires, Resolved []string
	// Labels are those of what fires, besides the severity.
	Labels map[string]string
	// Below are series in place of some of Series with which it fires at no time.
	Below []map[string]string
}

func (r recorded) every() string {
	if r.Every == "" {
		return "30s"
	}
	return r.Every
}

// read are the recorded series by the names of the files of rules.
func read(t *testing.T) map[string][]recorded {
	t.Helper()
	out := map[string][]recorded{}
	for _, file := range shipped.Files() {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err, "recorded series of %s", file)
		d := yaml.NewDecoder(strings.NewReader(string(data)))
		d.KnownFields(true)
		var all []recorded
		require.NoError(t, d.Decode(&all), file)
		out[file] = all
	}
	return out
}

// all are the rules that come with the image, by their names.
func all(t *testing.T) map[string]Rule {
	t.Helper()
	out := map[string]Rule{}
	groups, err := Shipped()
	require.NoError(t, err)
	for _, g := range groups {
		require.GreaterOrEqual(t, g.Interval, 30*time.Second, g.Name)
		for _, r := range g.Rules {
			require.NotContains(t, out, r.Alert)
			out[r.Alert] = r
		}
	}
	return out
}

// The files that promtool takes (Prometheus, unit testing for rules).
type (
	testFile struct {
		Rules []string   `yaml:"rule_files"`
		Every string     `yaml:"evaluation_interval"`
		Tests []testCase `yaml:"tests"`
	}
	testCase struct {
		Every  string   `yaml:"interval"`
		Series []series `yaml:"input_series"`
		Alerts []expect `yaml:"alert_rule_test"`
	}
	series struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	expect struct {
		At     string   `yaml:"eval_time"`
		Alert  string   `yaml:"alertname"`
		Alerts []labels `yaml:"exp_alerts,omitempty"`
	}
	labels struct {
		Labels map[string]string `yaml:"exp_labels"`
	}
)

func told(all map[string]string) []series {
	var out []series
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, series{name, all[name]})
	}
	return out
}

// cases are the tests of one rule.
func (r recorded) cases(severity string) []testCase {
	fault := testCase{Every: r.every(), Series: told(r.Series)}
	of := maps.Clone(r.Labels)
	if of == nil {
		of = map[string]string{}
	}
	of["severity"] = severity
	for _, at := range slices.Concat(r.Quiet, r.Resolved) {
		fault.Alerts = append(fault.Alerts, expect{At: at, Alert: r.Alert})
	}
	for _, at := range r.Fires {
		fault.Alerts = append(fault.Alerts, expect{At: at, Alert: r.Alert, Alerts: []labels{{of}}})
	}
	out := []testCase{fault}
	for _, below := range r.Below {
		with := maps.Clone(r.Series)
		maps.Copy(with, below)
		c := testCase{Every: r.every(), Series: told(with)}
		for _, at := range slices.Concat(r.Quiet, r.Fires, r.Resolved) {
			c.Alerts = append(c.Alerts, expect{At: at, Alert: r.Alert})
		}
		out = append(out, c)
	}
	return out
}

// written is a file of rules without annotations, whose texts have values that nobody has to repeat in a test.
func written(t *testing.T, path string, rules ...Rule) {
	t.Helper()
	type rule struct {
		Alert  string            `yaml:"alert"`
		Expr   string            `yaml:"expr"`
		For    string            `yaml:"for"`
		Labels map[string]string `yaml:"labels"`
	}
	var list []rule
	for _, r := range rules {
		list = append(list, rule{r.Alert, r.Expr, Short(r.For), r.Labels})
	}
	write(t, path, map[string]any{"groups": []map[string]any{{"name": "tested", "rules": list}}})
}

func write(t *testing.T, path string, what any) {
	t.Helper()
	data, err := yaml.Marshal(what)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

func promtool(t *testing.T, files ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	require.NoError(t, err, "run make deps")
	cmd := exec.Command(program, append([]string{"test", "rules"}, files...)...)
	out, err := cmd.CombinedOutput()
	good := func(s string) bool { return strings.Contains(s, "  SUCCESS") }
	bad := slices.DeleteFunc(strings.Split(string(out), "\n\n"), good)
	require.NoError(t, err, "%s", strings.Join(bad, "\n"))
}

// TestEveryAlertFiresInTimeAndResolves has promtool of Debian work on each rule with recorded series: it fires within
// its bound, does not with series just below, and ends.
func TestEveryAlertFiresInTimeAndResolves(t *testing.T) {
	dir := t.TempDir()
	rules := all(t)
	var files []string
	for file, list := range read(t) {
		for _, r := range list {
			rule, ok := rules[r.Alert]
			require.True(t, ok, "%s: there is no alert %s", file, r.Alert)
			if r.Alert != metrics.Watchdog {
				require.NotEmpty(t, r.Quiet, r.Alert)
				require.NotEmpty(t, r.Fires, r.Alert)
				require.NotEmpty(t, r.Resolved, r.Alert)
				require.NotEmpty(t, r.Below, r.Alert)
			}
			written(t, filepath.Join(dir, r.Alert+".rules.yaml"), rule)
			test := filepath.Join(dir, r.Alert+".yaml")
			write(t, test, testFile{Rules: []string{r.Alert + ".rules.yaml"}, Every: r.every(), Tests: r.cases(rule.Severity())})
			files = append(files, test)
		}
	}
	slices.Sort(files)
	promtool(t, files...)
}

func TestEveryAlertHasRecordedSeries(t *testing.T) {
	rules := all(t)
	var have []string
	for file, list := range read(t) {
		for _, r := range list {
			require.Contains(t, string(shipped.Read(file)), "- alert: "+r.Alert+"\n", "%s is of another file", r.Alert)
			have = append(have, r.Alert)
		}
	}
	slices.Sort(have)
	require.Equal(t, slices.Sorted(maps.Keys(rules)), slices.Compact(have))
	require.GreaterOrEqual(t, len(have), 40)
}

// TestNothingFiresOnAHealthyCluster lets all rules look at two hours of a cluster without a fault.
func TestNothingFiresOnAHealthyCluster(t *testing.T) {
	dir := t.TempDir()
	rules := all(t)
	names := slices.Sorted(maps.Keys(rules))
	var list []Rule
	for _, name := range names {
		list = append(list, rules[name])
	}
	written(t, filepath.Join(dir, "rules.yaml"), list...)
	data, err := os.ReadFile("testdata/healthy/series.yaml")
	require.NoError(t, err)
	var healthy map[string]string
	require.NoError(t, yaml.Unmarshal(data, &healthy))
	c := testCase{Every: "1m", Series: told(healthy)}
	for _, at := range []string{"1m", "10m", "35m", "41m", "44m", "1h5m", "2h"} {
		for _, name := range names {
			e := expect{At: at, Alert: name}
			if name == metrics.Watchdog {
				e.Alerts = []labels{{map[string]string{"severity": "info"}}}
			}
			c.Alerts = append(c.Alerts, e)
		}
	}
	file := filepath.Join(dir, "healthy.yaml")
	write(t, file, testFile{Rules: []string{"rules.yaml"}, Every: "1m", Tests: []testCase{c}})
	promtool(t, file)
	for name, r := range rules {
		for _, m := range familiesOf(t, r.Expr) {
			has := slices.ContainsFunc(c.Series, func(s series) bool { return strings.HasPrefix(s.Series, m+"{") })
			require.True(t, has, "the healthy cluster does not tell %s, which %s looks at", m, name)
		}
	}
}

// TestTextsHaveTheLabelsOfWhatFires writes out the annotations with the labels of the recorded series.
func TestTextsHaveTheLabelsOfWhatFires(t *testing.T) {
	same := func(v any) string { return fmt.Sprint(v) }
	funcs := template.FuncMap{"humanize": same, "humanize1024": same, "humanizeDuration": same, "humanizePercentage": same}
	rules := all(t)
	for _, list := range read(t) {
		for _, r := range list {
			rule := rules[r.Alert]
			require.Equal(t, "alerts#"+strings.ToLower(r.Alert), rule.Annotations["runbook"], r.Alert)
			has := slices.Sorted(maps.Keys(rule.Annotations))
			require.Equal(t, []string{"description", "runbook", "summary"}, has, r.Alert)
			require.Equal(t, []string{"severity"}, slices.Collect(maps.Keys(rule.Labels)), r.Alert)
			for name, text := range rule.Annotations {
				of, err := template.New(name).Funcs(funcs).Option("missingkey=error").Parse(
					"{{ $value := .Value }}{{ $labels := .Labels }}" + text)
				require.NoError(t, err, r.Alert)
				var b strings.Builder
				require.NoError(t, of.Execute(&b, map[string]any{"Value": 1.5, "Labels": r.Labels}), "%s: %s", r.Alert, name)
				if name != "runbook" {
					require.True(t, strings.HasSuffix(b.String(), "."), "%s: %s is no sentence: %s", r.Alert, name, b.String())
				}
				if name == "summary" && r.Labels["instance"] != "" && r.Labels["namespace"] == "" && r.Labels["job"] == "node" {
					instance := r.Labels["instance"]
					require.True(t, strings.Contains(b.String()+rule.Annotations["description"], instance) ||
						strings.Contains(rule.Annotations["description"], "$labels.instance"), r.Alert)
				}
			}
		}
	}
}
