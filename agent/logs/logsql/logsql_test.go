package logsql

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFilterChoosesWhatItNames(t *testing.T) {
	for name, c := range map[string]struct {
		filter Filter
		want   string
	}{
		"everything":        {Filter{}, `*`},
		"nodes and sources": {Filter{Nodes: []string{"a", "b"}, Sources: []string{"journal"}}, `{node in ("a", "b"), _SPORE_SOURCE in ("journal")}`},
		"all nodes but":     {Filter{Without: []string{"a"}}, `{node not_in ("a")}`},
		"units": {Filter{Units: []string{"a.service", "b.service"}}, `({_SYSTEMD_UNIT in ("a.service", "b.service")} or ` +
			`({_SYSTEMD_UNIT="init.scope"} (UNIT:in("a.service", "b.service"))))`},
		"instances of a template": {Filter{Units: []string{"c.d@.service", "a.service"}}, `({_SYSTEMD_UNIT in ("a.service") or ` +
			`_SYSTEMD_UNIT=~"^c\\.d@.*\\.service$"} or ({_SYSTEMD_UNIT="init.scope"} (UNIT:in("a.service") or UNIT:~"^c\\.d@.*\\.service$")))`},
		"a container": {Filter{Namespace: "n", Pod: "p", Container: "c"},
			`{KUBERNETES_NAMESPACE in ("n"), KUBERNETES_POD in ("p"), KUBERNETES_CONTAINER in ("c")}`},
		"no audit of the kernel": {Filter{WithoutKernelAudit: true},
			`(_TRANSPORT:in("driver", "journal", "kernel", "stdout", "syslog") or {_SPORE_SOURCE not_in ("journal")})`},
		"what is urgent":           {Filter{Priority: "2"}, `PRIORITY:in("0", "1", "2")`},
		"info and what has none":   {Filter{Priority: "6"}, `!PRIORITY:="7"`},
		"all priorities":           {Filter{Priority: "7"}, `*`},
		"starts":                   {Filter{Boots: []string{"f0"}}, `_BOOT_ID:in("f0")`},
		"a text":                   {Filter{Grep: "out of memory"}, `_msg:*"out of memory"*`},
		"a whole word":             {Filter{Grep: `\bxyzzy\b`}, `_msg:"xyzzy"`},
		"whole words":              {Filter{Grep: `\bout of memory\b`}, `_msg:"out of memory"`},
		"half a word":              {Filter{Grep: `\bxyz`}, `_msg:~"\\bxyz"`},
		"a bound that is no word":  {Filter{Grep: `\b(x)\b`}, `_msg:~"\\b(x)\\b"`},
		"a word that ends in none": {Filter{Grep: `\bx!\b`}, `_msg:~"\\bx!\\b"`},
		"a word of other letters":  {Filter{Grep: `\bprüfé\b`}, `_msg:~"\\bprüfé\\b"`},
		"whatever case":            {Filter{Grep: `(?i)error`}, `_msg:~"(?i)error"`},
		"an escaped text":          {Filter{Grep: `a\.b`}, `_msg:*"a.b"*`},
		"an expression":            {Filter{Grep: `"a|b"`}, `_msg:~"\"a|b\""`},
		"alternatives":             {Filter{Grep: `(xy+zzy|plugh)`}, `(_msg:*"zzy"* or _msg:*"plugh"*) _msg:~"(xy+zzy|plugh)"`},
		"one without a text":       {Filter{Grep: `xy+zzy|x+|plugh`}, `_msg:~"xy+zzy|x+|plugh"`},
		"one in whatever case":     {Filter{Grep: `xy+zzy|(?i:plugh)`}, `_msg:~"xy+zzy|(?i:plugh)"`},
		"bounds of lines":          {Filter{Grep: `(?m)^two$`}, `_msg:*"two"*`},
		"bounds of no text":        {Filter{Grep: `(?m)^(a|b)`}, `*`},
		"bounds of the text":       {Filter{Grep: `^two$`}, `_msg:~"^two$"`},
		"together":                 {Filter{Nodes: []string{"a"}, Priority: "0", Grep: "x"}, `{node in ("a")} PRIORITY:in("0") _msg:*"x"*`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.filter.String()) })
	}
}

func TestQuestionsOfAFilter(t *testing.T) {
	f := Filter{Nodes: []string{"a"}}
	require.True(t, strings.HasPrefix(f.Entries(), `{node in ("a")} | fields _time, _msg, node, `), f.Entries())
	require.Equal(t, `{node in ("a")} | stats by (node) max(_time) newest`, f.Newest())
	require.Equal(t, `{node in ("a")} _BOOT_ID:* | stats by (node, _BOOT_ID) max(_time) newest`, f.BootsOf())
}

// skeleton is a question with nothing in its quotes, as VictoriaLogs finds them: "" and ` and ' begin one, # a comment.
func skeleton(t *testing.T, query string) (out string, quoted []string) {
	t.Helper()
	for query != "" {
		switch query[0] {
		case '`', '\'', '#':
			t.Fatalf("outside of quotes there is %q in %q", query[0], query)
		case '"':
			prefix, err := strconv.QuotedPrefix(query)
			require.NoError(t, err, query)
			text, err := strconv.Unquote(prefix)
			require.NoError(t, err)
			out, quoted, query = out+`""`, append(quoted, text), query[len(prefix):]
		default:
			out, query = out+query[:1], query[1:]
		}
	}
	return out, quoted
}

// No text of a caller leaves its quotes: whatever it is, the question has the form that it has with a harmless one, and
// what VictoriaLogs reads between the quotes is that text.
func FuzzNoTextLeavesItsQuotes(f *testing.F) {
	for _, s := range []string{`a`, `"`, "`", `'`, `\`, `\"`, `a") or (*`, "\n#", "\x00\xff", `*`, `"} | delete {"`, `\b"\b`, `x\b`, `(?m)^a.b$`, `@.`, `a@.") or "service`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" {
			return
		}
		filter := func(s string) Filter {
			return Filter{
				Nodes: []string{s}, Without: []string{s}, Sources: []string{s}, Namespace: s, Pod: s, Container: s, Boots: []string{s},
			}
		}
		got, quoted := skeleton(t, filter(s).Entries())
		want, _ := skeleton(t, filter("a").Entries())
		require.Equal(t, want, got)
		for _, q := range quoted {
			require.Equal(t, s, q)
		}
		// A unit may be a template, and an expression three kinds of filters.
		got, _ = skeleton(t, Filter{Units: []string{s}}.String())
		of := func(f Filter) string { text, _ := skeleton(t, f.String()); return text }
		require.Contains(t, []string{of(Filter{Units: []string{"a"}}), of(Filter{Units: []string{"a@.b"}})}, got)
		got, _ = skeleton(t, Filter{Grep: s}.String())
		if strings.Contains(s, "m") {
			got = strings.ReplaceAll(got, of(Filter{Grep: "a"})+" ", "") // An expression for lines may have several texts.
		}
		if rest, alternatives := strings.CutPrefix(got, "("); alternatives { // One text of each comes first.
			texts, expression, _ := strings.Cut(rest, ") ")
			require.Empty(t, strings.ReplaceAll(" or "+texts, " or "+of(Filter{Grep: "a"}), ""))
			got = expression
		}
		require.Contains(t, []string{of(Filter{Grep: "a"}), of(Filter{Grep: `\ba\b`}), of(Filter{Grep: "a|b"}), "*"}, got)
		// A malformed priority chooses nothing.
		_, quoted = skeleton(t, Filter{Priority: s}.String())
		for _, q := range quoted {
			require.Contains(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, q)
		}
	})
}
