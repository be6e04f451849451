package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"spore/cluster/check"
	"spore/cluster/yamlfile"
)

// reader gathers what is wrong with one file.
type reader struct {
	file     string
	taken    []string
	alerts   map[string]int // the lines of the file's own alerts
	problems Problems
}

func (r *reader) errorf(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, yamlfile.Fault{
		Line: max(1, n.Line), Column: max(1, n.Column), Message: fmt.Sprintf(format, args...),
	}})
}

// parse reads a file. Alerts may not have the names that are taken.
func parse(file string, data []byte, taken []string) ([]Group, error) {
	r := &reader{file: file, taken: taken, alerts: map[string]int{}}
	root := r.document(data)
	var groups []Group
	if root != nil {
		groups = r.groups(root)
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, r.problems
	}
	return groups, nil
}

// placeholder is what vmalert replaces by its environment (lib/envtemplate).
const placeholder = "%{"

func (r *reader) document(data []byte) *yaml.Node {
	top := &yaml.Node{}
	if len(data) > MaxFile {
		r.errorf(top, "the file has %d KiB; at most %d are possible: divide it", len(data)>>10, MaxFile>>10)
		return nil
	}
	if f := yamlfile.CheckText(data); f != nil {
		r.problems = append(r.problems, Problem{r.file, *f})
		return nil
	}
	if i := bytes.Index(data, []byte(placeholder)); i >= 0 {
		r.errorf(&yaml.Node{Line: 1 + bytes.Count(data[:i], []byte("\n"))},
			"%s is replaced by the environment of the program on the node; write it otherwise", placeholder)
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		r.errorf(top, "the file is empty; write groups, or remove it")
		return nil
	case err != nil:
		r.problems = append(r.problems, Problem{r.file, *yamlfile.SyntaxFault(data, err)})
		return nil
	}
	if err := d.Decode(&more); err == nil {
		r.errorf(&more, "the file has a second document; write one")
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.problems = append(r.problems, Problem{r.file, *yamlfile.SyntaxFault(data, err)})
		return nil
	}
	if len(doc.Content) == 0 {
		r.errorf(top, "the file is empty; write groups, or remove it")
		return nil
	}
	return doc.Content[0]
}

// fields are the values of a mapping by their keys. Unknown keys and keys that are there twice are refused.
func (r *reader) fields(n *yaml.Node, what string, known ...string) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		r.errorf(n, "%s is %s; write a mapping with %s", what, kindOf(n), strings.Join(known, ", "))
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
			r.errorf(key, "%s has no key %q%s; it can have %s", what, check.Clip(key.Value),
				check.Suggest(key.Value, known), strings.Join(known, ", "))
		case out[key.Value] != nil:
			r.errorf(key, "the key %s is there twice; remove one", key.Value)
		default:
			out[key.Value] = value
		}
	}
	return out
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return "a single value"
}

// list are the values of a list of one to most.
func (r *reader) list(n *yaml.Node, what string, most int) []*yaml.Node {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.errorf(n, "%s is %s; write a list", what, kindOf(n))
		return nil
	case len(n.Content) == 0:
		r.errorf(n, "%s is empty; write one, or remove it", what)
	case len(n.Content) > most:
		r.errorf(n, "%s has %d entries; at most %d are possible", what, len(n.Content), most)
		return nil
	}
	return n.Content
}

// text is a value in one piece of at most so many bytes.
func (r *reader) text(n *yaml.Node, what string, most int) string {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		r.errorf(n, "%s is %s; write a text", what, kindOf(n))
	case strings.TrimSpace(n.Value) == "":
		r.errorf(n, "%s is empty; write a text", what)
	case len(n.Value) > most:
		r.errorf(n, "%s has %d bytes; at most %d are possible", what, len(n.Value), most)
	default:
		return n.Value
	}
	return ""
}

// duration is one such as 5m between two bounds.
func (r *reader) duration(n *yaml.Node, what string, least, most time.Duration) time.Duration {
	text := r.text(n, what, 32)
	if text == "" {
		return 0
	}
	d, ok := Duration(text)
	switch {
	case !ok:
		r.errorf(n, "%s %q is not a duration; write one such as 30s, 5m, 1h30m or 2d", what, check.Clip(text))
	case d < least || d > most:
		r.errorf(n, "%s %s is out of bounds; write one from %s to %s", what, text, Short(least), Short(most))
	}
	return d
}

// durationForm is that of Prometheus without years and milliseconds.
var durationForm = regexp.MustCompile(`^(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?$`)

var units = []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second}

// Duration reads a duration as rules have it, such as 1h30m or 2d.
func Duration(text string) (time.Duration, bool) {
	m := durationForm.FindStringSubmatch(text)
	if m == nil || text == "" {
		return 0, false
	}
	var d time.Duration
	for i, unit := range units {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return 0, false
		}
		d += time.Duration(n) * unit
	}
	return d, true
}

// Short writes a duration as rules have it.
func Short(d time.Duration) string {
	var b strings.Builder
	for i, unit := range units[1:] {
		if n := d / unit; n > 0 {
			fmt.Fprintf(&b, "%d%c", n, "dhms"[i])
			d -= n * unit
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

func (r *reader) groups(root *yaml.Node) []Group {
	f := r.fields(root, "the file", "groups")
	if f["groups"] == nil {
		if len(r.problems) == 0 {
			r.errorf(root, "the file has no groups; write groups with rules")
		}
		return nil
	}
	var out []Group
	names := map[string]bool{}
	for _, n := range r.list(f["groups"], "groups", maxGroups) {
		g := r.group(n)
		if g.Name != "" && names[g.Name] {
			r.errorf(n, "the group %s is there twice; put its rules together", check.Clip(g.Name))
		}
		names[g.Name] = true
		out = append(out, g)
	}
	return out
}

// groupName, alertName and labelName are what names have to be. Prometheus and vmalert take more; these can stand in a
// command, an anchor and a topic.
var (
	groupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	alertName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)
	labelName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

func (r *reader) group(n *yaml.Node) Group {
	var g Group
	f := r.fields(n, "a group", "name", "interval", "rules")
	if f == nil {
		return g
	}
	if f["name"] == nil {
		r.errorf(n, "the group has no name; write one")
	} else if g.Name = r.text(f["name"], "the name", maxText); g.Name != "" && !groupName.MatchString(g.Name) {
		r.errorf(f["name"], "the name %q is not valid; write 1 to 64 letters, digits, -, _ and .", check.Clip(g.Name))
	}
	if v := f["interval"]; v != nil {
		g.Interval = r.duration(v, "the interval", minInterval, maxInterval)
	}
	if f["rules"] == nil {
		r.errorf(n, "the group has no rules; write some, or remove it")
		return g
	}
	for _, one := range r.list(f["rules"], "rules", maxRules) {
		g.Rules = append(g.Rules, r.rule(one))
	}
	return g
}

func (r *reader) rule(n *yaml.Node) Rule {
	rule := Rule{Line: n.Line}
	if n.Kind == yaml.MappingNode && yamlfile.Find(n, "record") != nil {
		r.errorf(n, "a rule that records is not taken; write alert in place of record, and the expression where it is used")
		return rule
	}
	f := r.fields(n, "a rule", "alert", "expr", "for", "keep_firing_for", "labels", "annotations")
	if f == nil {
		return rule
	}
	if f["alert"] == nil {
		r.errorf(n, "the rule has no name; write alert: with one")
	} else {
		rule.Alert = r.name(f["alert"])
	}
	if f["expr"] == nil {
		r.errorf(n, "the rule has no expression; write expr: with one")
	} else if rule.Expr = r.text(f["expr"], "the expression", maxExpr); rule.Expr != "" {
		if err := checkExpr(rule.Expr); err != nil {
			r.errorf(f["expr"], "the expression: %s", err)
		}
	}
	if v := f["for"]; v != nil {
		rule.For = r.duration(v, "for", 0, maxFor)
	}
	if v := f["keep_firing_for"]; v != nil {
		rule.Keep = r.duration(v, "keep_firing_for", 0, maxFor)
	}
	rule.Labels = r.labels(n, f["labels"])
	rule.Annotations = r.annotations(n, f["annotations"])
	return rule
}

func (r *reader) name(n *yaml.Node) string {
	name := r.text(n, "the name of the alert", maxText)
	switch {
	case name == "":
	case !alertName.MatchString(name):
		r.errorf(n, "the name %q of the alert is not valid; write 1 to 64 letters, digits and _, the first a letter",
			check.Clip(name))
		return ""
	case slices.Contains(r.taken, name):
		r.errorf(n, "the alert %s comes with the image; take another name, and put that one off in services/metrics.yaml",
			name)
	case r.alerts[name] != 0:
		r.errorf(n, "the alert %s is in line %d, too; give it another name", name, r.alerts[name])
	default:
		r.alerts[name] = n.Line
	}
	return name
}

func (r *reader) labels(rule, n *yaml.Node) map[string]string {
	const write = "write severity: critical, warning or info"
	if n == nil {
		r.errorf(rule, "the rule has no labels; %s", write)
		return nil
	}
	out := r.texts(n, "a label")
	for key := range out {
		if strings.HasPrefix(key, "__") || key == "alertname" || key == "alertgroup" {
			r.errorf(n, "the label %s is set by the program itself; take another name", key)
		}
	}
	if severity, ok := out["severity"]; !ok {
		r.errorf(n, "the rule has no label severity; %s", write)
	} else if !slices.Contains(Severities, severity) {
		r.errorf(n, "the severity %q does not exist%s; %s", check.Clip(severity), check.Suggest(severity, Severities), write)
	}
	return out
}

func (r *reader) annotations(rule, n *yaml.Node) map[string]string {
	const write = "write summary: with one sentence"
	if n == nil {
		r.errorf(rule, "the rule has no annotations; %s", write)
		return nil
	}
	out := r.texts(n, "an annotation")
	if _, ok := out["summary"]; !ok {
		r.errorf(n, "the rule has no annotation summary; %s", write)
	}
	return out
}

// texts is a mapping of names to templates.
func (r *reader) texts(n *yaml.Node, what string) map[string]string {
	out := map[string]string{}
	if n.Kind != yaml.MappingNode {
		r.errorf(n, "%s has no name: this is %s; write a mapping", what, kindOf(n))
		return out
	}
	if len(n.Content)/2 > maxLabels {
		r.errorf(n, "there are %d entries; at most %d are possible", len(n.Content)/2, maxLabels)
		return out
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || !labelName.MatchString(key.Value) {
			r.errorf(key, "the name %q of %s is not valid; write letters, digits and _", check.Clip(key.Value), what)
			continue
		}
		if _, ok := out[key.Value]; ok {
			r.errorf(key, "%s is there twice; remove one", key.Value)
			continue
		}
		text := r.text(value, what, maxText)
		out[key.Value] = text
		if err := checkTemplate(text); err != nil {
			r.errorf(value, "the template of %s: %s", key.Value, err)
		}
	}
	return out
}
