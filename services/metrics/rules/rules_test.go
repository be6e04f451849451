package rules

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/metrics/rules/shipped"
)

// own is the rule that tests change.
const own = `groups:
  - name: press
    interval: 1m
    rules:
      - alert: PressTooHot
        expr: press_oil_celsius{job="press"} > 80
        for: 2m
        keep_firing_for: 1m
        labels:
          severity: critical
          hall: "3"
        annotations:
          summary: The oil of {{ $labels.instance }} is too hot.
          description: It has {{ $value | humanize }} °C.
`

func TestRulesOfAPlantAreRead(t *testing.T) {
	groups, err := Parse("press.yaml", []byte(own))
	require.NoError(t, err)
	require.Equal(t, []Group{{Name: "press", Interval: time.Minute, Rules: []Rule{{
		Alert: "PressTooHot", Line: 5, Expr: `press_oil_celsius{job="press"} > 80`, For: 2 * time.Minute, Keep: time.Minute,
		Labels: map[string]string{"severity": "critical", "hall": "3"},
		Annotations: map[string]string{
			"summary": "The oil of {{ $labels.instance }} is too hot.", "description": "It has {{ $value | humanize }} °C.",
		},
	}}}}, groups)
	require.Equal(t, "critical", groups[0].Rules[0].Severity())
}

func TestTheExampleOfThePageIsTaken(t *testing.T) {
	_, rest, ok := strings.Cut(page(t), "## Rules of your own\n")
	require.True(t, ok)
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	groups, err := Parse("press.yaml", []byte(example))
	require.NoError(t, err)
	require.Len(t, groups, 1)
}

func TestWhatIsWrongWithRulesIsToldWithItsLine(t *testing.T) {
	change := func(from, to string) string {
		require.Contains(t, own, from)
		return strings.Replace(own, from, to, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no text":               {"", `a.yaml:1:1: the file is empty; write groups, or remove it`},
		"a comment alone":       {"# nothing\n", `a.yaml:1:1: the file is empty; write groups, or remove it`},
		"a list":                {"- a\n", `a.yaml:1:1: the file is a list; write a mapping with groups`},
		"no groups":             {"{}\n", `a.yaml:1:1: the file has no groups; write groups with rules`},
		"groups are a text":     {"groups: a\n", `a.yaml:1:9: groups is a single value; write a list`},
		"groups are empty":      {"groups: []\n", `a.yaml:1:9: groups is empty; write one, or remove it`},
		"two documents":         {own + "---\ngroups: []\n", `a.yaml:15:1: the file has a second document; write one`},
		"YAML that is none":     {own + "\t- x\n", `a.yaml:15:2: not valid YAML: found a tab character that violates indentation; indent with spaces`},
		"a control character":   {change("press\n", "pre\x01ss\n"), `a.yaml:2:14: the control character 0x01 does not belong in YAML; remove it`},
		"an alias":              {"groups: &a\n  - *a\n", `a.yaml:2:5: a group is an alias; write a mapping with name, interval, rules`},
		"the environment":       {change("{{ $value | humanize }}", "%{HOME}"), `a.yaml:14:1: %{ is replaced by the environment of the program on the node; write it otherwise`},
		"an unknown key":        {change("interval", "intervall"), `a.yaml:3:5: a group has no key "intervall"; did you mean "interval"?; it can have name, interval, rules`},
		"a limit":               {change("interval: 1m", "limit: 1"), `a.yaml:3:5: a group has no key "limit"; it can have name, interval, rules`},
		"a key twice":           {change("interval: 1m", "name: b"), `a.yaml:3:5: the key name is there twice; remove one`},
		"no name":               {change("name: press", "interval: 1m"), `a.yaml:2:5: the group has no name; write one`},
		"a name with a slash":   {change("name: press", "name: a/b"), `a.yaml:2:11: the name "a/b" is not valid; write 1 to 64 letters, digits, -, _ and .`},
		"a short interval":      {change("interval: 1m", "interval: 1s"), `a.yaml:3:15: the interval 1s is out of bounds; write one from 5s to 1h`},
		"no duration":           {change("for: 2m", "for: two"), `a.yaml:7:14: for "two" is not a duration; write one such as 30s, 5m, 1h30m or 2d`},
		"a long wait":           {change("for: 2m", "for: 5w"), `a.yaml:7:14: for 5w is out of bounds; write one from 0s to 31d`},
		"a duration too large":  {change("for: 2m", "for: 99999999999999d"), `is not a duration`},
		"a recording rule":      {change("alert: PressTooHot", "record: press:hot"), `a.yaml:5:9: a rule that records is not taken; write alert in place of record, and the expression where it is used`},
		"an alert with a space": {change("PressTooHot", "Press too hot"), `a.yaml:5:16: the name "Press too hot" of the alert is not valid; write 1 to 64 letters, digits and _, the first a letter`},
		"an alert of the image": {change("PressTooHot", "NodeSilent"), `a.yaml:5:16: the alert NodeSilent comes with the image; take another name, and put that one off in services/metrics.yaml`},
		"a rule twice":          {own + strings.Replace(own[strings.Index(own, "  - name"):], "press\n", "b\n", 1), `a.yaml:18:16: the alert PressTooHot is in line 5, too; give it another name`},
		"a group twice":         {own + strings.Replace(own[strings.Index(own, "  - name"):], "PressTooHot", "B", 1), `a.yaml:15:5: the group press is there twice; put its rules together`},
		"no expression":         {change("expr: press_oil_celsius{job=\"press\"} > 80\n        ", ""), `a.yaml:5:9: the rule has no expression; write expr: with one`},
		"half an expression":    {change("> 80", ">"), `a.yaml:6:15: the expression: it is not valid MetricsQL: `},
		"no such function":      {change("press_oil_celsius{job=\"press\"} > 80", "rat(a[5m]) > 1"), `a.yaml:6:15: the expression: it is not valid MetricsQL`},
		"only a number":         {change("press_oil_celsius{job=\"press\"} > 80", "1 > 0"), `a.yaml:6:15: the expression: it selects no series; write one such as up{job="node"} == 0`},
		"a template of queries": {change("press_oil_celsius{job=\"press\"} > 80", "WITH (a = up) a == 0"), `a.yaml:6:15: the expression: WITH is not taken; write the expression out`},
		"a large expression":    {change("> 80", "> 80 or "+strings.Repeat("a or ", 1000)+"a"), `a.yaml:6:15: the expression has 5040 bytes; at most 4096 are possible`},
		"no labels":             {change("        labels:\n          severity: critical\n          hall: \"3\"\n", ""), `a.yaml:5:9: the rule has no labels; write severity: critical, warning or info`},
		"no severity":           {change("severity: critical\n          ", ""), `a.yaml:10:11: the rule has no label severity; write severity: critical, warning or info`},
		"an unknown severity":   {change("critical", "criticl"), `a.yaml:10:11: the severity "criticl" does not exist; did you mean "critical"?; write severity: critical, warning or info`},
		"a label of its own":    {change("hall", "alertname"), `a.yaml:10:11: the label alertname is set by the program itself; take another name`},
		"a label with a dash":   {change("hall", "the-hall"), `a.yaml:11:11: the name "the-hall" of a label is not valid; write letters, digits and _`},
		"a label twice":         {change("hall", "severity"), `a.yaml:11:11: severity is there twice; remove one`},
		"a label that is null":  {change(`"3"`, "null"), `a.yaml:11:17: a label is a single value; write a text`},
		"no summary":            {change("summary", "sum"), `a.yaml:13:11: the rule has no annotation summary; write summary: with one sentence`},
		"no annotations":        {own[:strings.Index(own, "        annotations")], `a.yaml:5:9: the rule has no annotations; write summary: with one sentence`},
		"a template cut off":    {change("{{ $value | humanize }}", "{{ $value"), `a.yaml:14:24: the template of description: `},
		"no such variable":      {change("$value", "$values"), `undefined variable "$values"`},
		"a template that asks":  {change("$value | humanize", `query "up"`), `function "query" not defined`},
		"a template that loops": {change("{{ $value | humanize }}", "{{ range 100000000 }}x{{ end }}"), `the template of description: "{{range 100000000}}`},
		"a define":              {change("{{ $value | humanize }}", `{{ define "a" }}x{{ end }}`), `define is not taken; write the text where it is used`},
		"a define of itself":    {change("{{ $value | humanize }}", `{{ template "a" }}`), `is not taken; write values, if and with`},
		"too many rules":        {"groups:\n- name: a\n  rules:\n" + strings.Repeat("  - {}\n", 101), `a.yaml:4:3: rules has 101 entries; at most 100 are possible`},
		"a large file":          {"# " + strings.Repeat("x", MaxFile), `a.yaml:1:1: the file has 256 KiB; at most 256 are possible: divide it`},
	} {
		t.Run(name, func(t *testing.T) {
			groups, err := Parse("a.yaml", []byte(c.text))
			require.ErrorContains(t, err, c.want)
			require.Nil(t, groups)
			for _, p := range err.(Problems) {
				require.Positive(t, p.Line)
				require.Positive(t, p.Column)
			}
		})
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	text := strings.NewReplacer("> 80", ">", "critical", "bad", "summary", "sum", "for: 2m", "for: x").Replace(own)
	_, err := Parse("a.yaml", []byte(text))
	require.Len(t, err, 4)
	require.Equal(t, 3, strings.Count(err.Error(), "\n"))
}

func TestAnAlertIsInOneFile(t *testing.T) {
	got, err := All(map[string][]byte{"a.yaml": []byte(own), "b.yaml": []byte(strings.Replace(own, "PressTooHot", "B", 1))})
	require.NoError(t, err)
	require.Len(t, got, 2)
	_, err = All(map[string][]byte{"a.yaml": []byte(own), "b.yaml": []byte(own), "c.yaml": nil})
	require.EqualError(t, err, "b.yaml:5:1: the alert PressTooHot is in a.yaml:5, too; give it another name\n"+
		"c.yaml:1:1: the file is empty; write groups, or remove it")
	many := map[string][]byte{}
	for i := range MaxFiles + 1 {
		many[fmt.Sprintf("%03d.yaml", i)] = []byte(strings.Replace(own, "PressTooHot", fmt.Sprintf("A%d", i), 1))
	}
	_, err = All(many)
	require.EqualError(t, err,
		"064.yaml:1:1: there are 65 files of alerts; at most 64 are possible: put alerts together into one")
}

func TestDurationsAreThoseOfPrometheus(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1w1s": 168*time.Hour + time.Second,
	} {
		d, ok := Duration(text)
		require.True(t, ok, text)
		require.Equal(t, want, d, text)
		again, ok := Duration(Short(d))
		require.True(t, ok, text)
		require.Equal(t, want, again, text)
	}
	for _, text := range []string{"", "5", "m", "-5m", "5m1h", "1.5h", "1y", "5ms", "1h 30m"} {
		_, ok := Duration(text)
		require.False(t, ok, text)
	}
}

func TestAlertsThatArePutOffAreLeftOut(t *testing.T) {
	require.Contains(t, shipped.Names(), "NodeSilent")
	same, err := shipped.Without("node.yaml", []string{"KafkaCopiesShort"})
	require.NoError(t, err)
	require.Equal(t, shipped.Read("node.yaml"), same)
	for _, file := range shipped.Files() {
		before, err := parse(file, shipped.Read(file), nil)
		require.NoError(t, err)
		off := before[0].Rules[0].Alert
		data, err := shipped.Without(file, []string{off})
		require.NoError(t, err)
		if len(before[0].Rules) == 1 {
			require.Nil(t, data)
			continue
		}
		after, err := parse(file, data, nil)
		require.NoError(t, err)
		require.Len(t, after[0].Rules, len(before[0].Rules)-1)
		for i := range after[0].Rules {
			want := before[0].Rules[i+1]
			want.Line = after[0].Rules[i].Line
			require.Equal(t, want, after[0].Rules[i])
		}
		require.Equal(t, before[0].Interval, after[0].Interval)
	}
	require.Nil(t, shipped.Read("../rules.go"))
}

// TestNodesDoNotLinkTheParser looks at what the agent's programs import.
func TestNodesDoNotLinkTheParser(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps",
		"spore/agent", "spore/agent/spore-metrics", "spore/services/metrics/rules/shipped").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "spore/services/metrics/rules/shipped\n")
	require.NotContains(t, string(out), "spore/services/metrics/rules\n")
	require.NotContains(t, string(out), "VictoriaMetrics/metricsql")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(own))
	for _, file := range shipped.Files() {
		f.Add(shipped.Read(file))
	}
	for _, text := range []string{
		"groups: &a\n  - *a\n", "groups:\n- name: a\n  rules:\n  - {alert: A, expr: 'with (a=b) a', labels: {severity: info}}\n",
		"{groups: [{name: a, rules: [{expr: '((((a', annotations: {summary: '{{ if }}'}}]}]}", "%{x}", "\xff", "---\n---\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		groups, err := Parse("a.yaml", data)
		if err != nil {
			require.Nil(t, groups)
			require.IsType(t, Problems{}, err)
			return
		}
		for _, g := range groups {
			require.NotEmpty(t, g.Rules)
			for _, r := range g.Rules {
				require.NotEmpty(t, r.Alert)
				require.Contains(t, Severities, r.Severity())
				require.LessOrEqual(t, len(r.Expr), maxExpr)
			}
		}
	})
}
