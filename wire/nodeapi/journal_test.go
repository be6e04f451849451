package nodeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestTheNameOfAUnitIsNoPatternAndNoOption(t *testing.T) {
	for name, want := range map[string]string{
		"kafka": "kafka.service", "kafka.service": "kafka.service", "var.mount": "var.mount", "ceph-osd-disk@1": "ceph-osd-disk@1.service",
		`dev-disk-by\x2duuid.device`: `dev-disk-by\x2duuid.device`, "a.b": "a.b.service", "--help": "--help.service",
	} {
		got, err := UnitName(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"", "*", "kafka*", "kafka.ser?ice", "[k]afka", "a b", "a/b", "a\n", "ä", strings.Repeat("a", 300), "x=y", "'"} {
		_, err := UnitName(name)
		require.ErrorContains(t, err, "is not a name of a unit", "%q", name)
	}
}

func TestAQuestionForLogsSaysTheSameOnBothSides(t *testing.T) {
	for _, q := range []Logs{
		{Unit: "kafka.service", Lines: 100},
		{Unit: "kafka.service", Follow: true},
		{Unit: "var.mount", Lines: MaxLines, Follow: true, More: []string{"a.service", "b.timer"}},
		{Lines: 7, Since: time.UnixMicro(1795312345678901).UTC(), Until: time.Unix(1795312346, 0).UTC()},
		{Lines: 1, Priority: "3", Grep: `(?i)^a&b=\s`, Boot: "-1"},
	} {
		got, err := ParseLogs(q.Values())
		require.NoError(t, err)
		require.Equal(t, q, got)
	}
	got, err := ParseLogs(url.Values{"unit": {"kafka"}})
	require.NoError(t, err)
	require.Equal(t, Logs{Unit: "kafka.service", Lines: DefaultLines}, got)
	got, err = ParseLogs(url.Values{"priority": {"warning"}})
	require.NoError(t, err)
	require.Equal(t, Logs{Lines: DefaultLines, Priority: "4"}, got, "without a unit it is the journal of all")
	require.Empty(t, got.Units())
	want := Logs{Lines: 5, Pod: "default/web-1/nginx", Grep: "x"}
	got, err = ParseLogs(want.Values())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestWhatIsNoQuestionForLogs(t *testing.T) {
	for query, want := range map[string]string{
		"unit=":                  "is not a name of a unit",
		"unit=k*":                "is not a name of a unit",
		"unit=k&unit=*":          "is not a name of a unit",
		"lines=1&lines=2&unit=k": "appears 2 times",
		"unit=k" + strings.Repeat("&unit=k", maxUnits): "appears 101 times",
		"unit=k&lines=-1":                        "give 0 to 10000",
		"unit=k&lines=10001":                     "give 0 to 10000",
		"unit=k&lines=x":                         "give 0 to 10000",
		"unit=k&follow=perhaps":                  "give true or false",
		"since=yesterday":                        `since is "yesterday"`,
		"until=1960-01-01T00:00:00Z":             "until is",
		"since=2200-01-01T00:00:00Z":             "since is",
		"priority=8":                             "the priority is",
		"priority=urgent":                        "one of emerg, alert",
		"grep=(":                                 "is not one of RE2",
		"grep=(a%2B)\\1":                         "is not one of RE2",
		"grep=" + strings.Repeat("a", maxGrep+1): "at most 256",
		"boot=1":                                 "give 0 for the one that runs",
		"boot=-1001":                             "down to -1000",
		"boot=all":                               "the start is",
		"follow=true&until=2026-11-24T12:00:00Z": "give one of them",
		"unit=k&directory=/etc":                  `there is no parameter "directory"`,
		"pod=default":                            "write it as NAMESPACE/POD",
		"pod=default/*":                          "write it as NAMESPACE/POD",
		"pod=../../etc/x/y":                      "write it as NAMESPACE/POD",
		"pod=a/b&pod=a/c":                        "appears 2 times",
		"pod=a/b&unit=kubelet":                   "give pod without unit and boot",
		"pod=a/b&boot=0":                         "give pod without unit and boot",
		"unit=k&lines=99999999999999":            "give 0 to 10000",
	} {
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = ParseLogs(v)
		require.ErrorContains(t, err, want, query)
	}
}

func TestAnEntryOfTheJournal(t *testing.T) {
	at := time.UnixMicro(1795312345678901)
	for name, tc := range map[string]struct {
		line string
		want Entry
		text string
	}{
		"as usual": {
			`{"__REALTIME_TIMESTAMP":"1795312345678901","PRIORITY":"3","SYSLOG_IDENTIFIER":"kafka","_PID":"12","MESSAGE":"hello"}`,
			Entry{at, "kafka", "12", 3, "hello", ""}, "2026-11-22 01:52:25.678 kafka[12]: hello",
		},
		"several lines": {`{"__REALTIME_TIMESTAMP":"1795312345678901","SYSLOG_IDENTIFIER":"java","MESSAGE":"a\nb"}`, Entry{at, "java", "", 6, "a\nb", ""}, "2026-11-22 01:52:25.678 java: a\n    b"},
		"no text, which is bytes": {
			`{"__REALTIME_TIMESTAMP":"1795312345678901","SYSLOG_IDENTIFIER":"x","MESSAGE":[27, 91, 255]}`,
			Entry{at, "x", "", 6, "\x1b[\xff", ""}, `2026-11-22 01:52:25.678 x: \x1b[\xff`,
		},
		"fields of one name":           {`{"__REALTIME_TIMESTAMP":"1795312345678901","SYSLOG_IDENTIFIER":["a","b"],"MESSAGE":["one","two"]}`, Entry{at, "a", "", 6, "one", ""}, "2026-11-22 01:52:25.678 a: one"},
		"several, the first of bytes":  {`{"__REALTIME_TIMESTAMP":"1795312345678901","MESSAGE":[[104,105],"two"]}`, Entry{at, "", "", 6, "hi", ""}, "2026-11-22 01:52:25.678 : hi"},
		"too long, which is null":      {`{"__REALTIME_TIMESTAMP":"1795312345678901","MESSAGE":null}`, Entry{at, "", "", 6, "", ""}, "2026-11-22 01:52:25.678 : "},
		"a priority that is none":      {`{"__REALTIME_TIMESTAMP":"1795312345678901","PRIORITY":"9","MESSAGE":"x"}`, Entry{at, "", "", 6, "x", ""}, "2026-11-22 01:52:25.678 : x"},
		"what a terminal would obey":   {`{"__REALTIME_TIMESTAMP":"1795312345678901","SYSLOG_IDENTIFIER":"\u001b]0;x\u0007","MESSAGE":"\u001b[2J\u009b1m\r\u202e"}`, Entry{at, "\x1b]0;x\a", "", 6, "\x1b[2J\u009b1m\r\u202e", ""}, `2026-11-22 01:52:25.678 \x1b]0;x\x07: \x1b[2J\u009b1m\x0d\u202e`},
		"a name in the journals":       {`{"__CURSOR":"s=1;i=2","__REALTIME_TIMESTAMP":"1795312345678901"}`, Entry{at, "", "", 6, "", "s=1;i=2"}, "2026-11-22 01:52:25.678 : "},
		"deeper than journalctl goes":  {`{"__REALTIME_TIMESTAMP":"1795312345678901","MESSAGE":[[["x"]]]}`, Entry{at, "", "", 6, "", ""}, "2026-11-22 01:52:25.678 : "},
		"letters of all the languages": {`{"__REALTIME_TIMESTAMP":"1795312345678901","MESSAGE":"Grüße\t漢"}`, Entry{at, "", "", 6, "Grüße\t漢", ""}, "2026-11-22 01:52:25.678 : Grüße\t漢"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := ParseEntry([]byte(tc.line))
			require.NoError(t, err)
			require.True(t, tc.want.Time.Equal(e.Time))
			e.Time = tc.want.Time
			require.Equal(t, tc.want, e)
			require.Equal(t, tc.text, e.String())
		})
	}
	for _, line := range []string{"", "x", "[]", `"x"`, "{", `{"MESSAGE":}`, strings.Repeat(" ", MaxEntry+1)} {
		_, err := ParseEntry([]byte(line))
		require.ErrorContains(t, err, "an entry of the journal", "%.20q", line)
	}
}

func TestADeepEntryCostsNoMoreThanAnother(t *testing.T) {
	deep := strings.Repeat("[", 9000) + `"` + strings.Repeat("x", MaxEntry-30_000) + `"` + strings.Repeat("]", 9000)
	begun := time.Now()
	e, err := ParseEntry([]byte(`{"MESSAGE":` + deep + `}`))
	require.NoError(t, err)
	require.Empty(t, e.Message)
	require.Less(t, time.Since(begun), 10*time.Second, "reading each depth anew would take minutes")
}

func TestEntriesAreReadUntilTheAnswerEnds(t *testing.T) {
	read := func(text string) (messages []string, err error) {
		err = ReadEntries(strings.NewReader(text), func(_ []byte, e Entry) error {
			messages = append(messages, e.Message)
			return nil
		})
		return messages, err
	}
	messages, err := read(`{"MESSAGE":"a"}` + "\n\n\n" + `{"MESSAGE":"b"}` + "\n\n")
	require.NoError(t, err, "an empty line is the node's pulse")
	require.Equal(t, []string{"a", "b"}, messages)
	_, err = read(`{"MESSAGE":"a"}` + "\n" + `{"MESS`)
	require.ErrorContains(t, err, "is malformed", "cut off")
	_, err = read(`{"MESSAGE":"` + strings.Repeat("a", MaxEntry) + `"}`)
	require.ErrorContains(t, err, fmt.Sprintf("more than %d bytes", MaxEntry))
	stop := errors.New("enough")
	require.ErrorIs(t, ReadEntries(strings.NewReader(`{"MESSAGE":"a"}`), func([]byte, Entry) error { return stop }), stop)
}

func FuzzParseLogs(f *testing.F) {
	f.Add("unit=kafka&lines=10&follow=true")
	f.Add("unit=*")
	f.Add("since=2026-11-24T12:00:00.5%2B01:00&until=2026-11-24T12:00:00Z&priority=err&grep=a.*b&boot=-1")
	f.Fuzz(func(t *testing.T, query string) {
		v, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, err := ParseLogs(v)
		if err != nil {
			return
		}
		for _, unit := range q.Units() {
			require.Regexp(t, `^[A-Za-z0-9:_.\\@-]+$`, unit)
			require.LessOrEqual(t, len(unit), 255)
		}
		require.True(t, q.Lines >= 0 && q.Lines <= MaxLines)
		again, err := ParseLogs(q.Values())
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"1795312345678901","PRIORITY":"3","SYSLOG_IDENTIFIER":"kafka","_PID":"12","MESSAGE":"hello"}`))
	f.Add([]byte(`{"MESSAGE":[27,91,[1,"x"]]}`))
	f.Add([]byte(`{"MESSAGE":null,"PRIORITY":["1"]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := ParseEntry(line)
		if err != nil {
			return
		}
		for _, r := range e.String() {
			require.False(t, r < ' ' && r != '\t' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0, "%q reaches the terminal", r)
		}
	})
}

func TestAnObjectHasNothingThatATerminalObeys(t *testing.T) {
	for name, tc := range map[string]struct{ in, out string }{
		"text":                   {`{"MESSAGE":"Grüße, 日本 \u001b"}`, `{"MESSAGE":"Grüße, 日本 \u001b"}`},
		"controls above":         {"{\"MESSAGE\":\"\u009b2J\u0090\x7f\"}", `{"MESSAGE":"\u009b2J\u0090\u007f"}`},
		"the direction of text":  {"{\"_SYSTEMD_UNIT\":\"a\u202ecod.b\u2066\"}", `{"_SYSTEMD_UNIT":"a\u202ecod.b\u2066"}`},
		"beyond 16 bits":         {"{\"A\":\"\U000e0041😀\"}", `{"A":"\udb40\udc41😀"}`},
		"not text":               {"{\"A\":\"\xff\"}", `{"A":"\ufffd"}`},
		"an end between values":  {"{\"A\":\r\"b\",\t\"C\":\"d\"}", `{"A": "b", "C":"d"}`},
		"lines":                  {"[\n\t\"\u009b\"\r\n]\n", "[\n \"\\u009b\" \n]\n"},
		"in the name of a field": {"{\"\u009b\":\"x\"}", `{"\u009b":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			out := HarmlessJSON([]byte(tc.in))
			require.Equal(t, tc.out, string(out))
			require.JSONEq(t, tc.in, string(out))
		})
	}
}

func TestWhatNodesSayIsWrittenAsJSONThatNoTerminalObeys(t *testing.T) {
	var b strings.Builder
	value := map[string]any{"a": "\u009b\x1b[2J", "b": json.RawMessage("[ \"\u202e\"]")}
	require.NoError(t, WriteJSON(&b, value, ""))
	require.NoError(t, WriteJSON(&b, value, "  "))
	require.Equal(t, `{"a":"\u009b\u001b[2J","b":["\u202e"]}`+"\n"+
		"{\n  \"a\": \"\\u009b\\u001b[2J\",\n  \"b\": [\n    \"\\u202e\"\n  ]\n}\n", b.String())
	require.Error(t, WriteJSON(&b, json.RawMessage("{"), ""))
}

func FuzzAnObjectKeepsItsMeaning(f *testing.F) {
	for _, s := range []string{`{"a":"b"}`, "{\"a\":\"\u009b\u202e\U000e0041\xff\"}", "{\r\"a\":[1,\t2]}", "[]", `"\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after any
		if json.Unmarshal(data, &before) != nil {
			return
		}
		out := HarmlessJSON(data)
		require.NoError(t, json.Unmarshal(out, &after))
		require.Equal(t, before, after)
		for _, r := range string(out) {
			require.True(t, unicode.IsPrint(r) || r == '\n', "%U", r)
		}
		require.Equal(t, out, HarmlessJSON(out))
	})
}
