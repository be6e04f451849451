package syslog

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)

func TestMessages(t *testing.T) {
	for name, tt := range map[string]struct {
		message Message
		want    string
	}{
		"everything": {
			Message{Facility: 10, Severity: 6, Time: at, Host: "edge-01", Application: "sshd", Process: "42", ID: "x", Element: "a@1",
				Params: []Param{{"unit", "ssh.service"}, {"pod", ""}, {"node", "edge-01"}}, Text: "hello ü"},
			`<86>1 2026-01-02T03:04:05.000678Z edge-01 sshd 42 x [a@1 unit="ssh.service" node="edge-01"] hello ü`,
		},
		"nothing": {Message{}, `<0>1 - - - - - - `},
		"odd numbers": {Message{Facility: 24, Severity: -1, Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
			`<29>1 - - - - - - `},
		"hostile": {
			Message{Time: at, Host: "a b\n", Application: "\x00ü", Process: "1 2", ID: "]", Element: `a]= "b`,
				Params: []Param{{`k"=]`, `x"] \ [y`}, {"", "line\none"}}, Text: "one\ntwo\x00\x1b[2J\u202ethree\xff"},
			`<0>1 2026-01-02T03:04:05.000678Z ab - 12 ] [ab k="x\"\] \\ [y" -="line#012one"] one#012two#000#033[2J?three` + "\uFFFD",
		},
	} {
		require.Equal(t, tt.want, string(tt.message.Append(nil, MaxDatagram)), name)
		require.Equal(t, "before"+tt.want, string(tt.message.Append([]byte("before"), MaxDatagram)), name)
	}
}

func TestAMessageHasABound(t *testing.T) {
	long := strings.Repeat("ü\\", 10_000)
	m := Message{Time: at, Host: strings.Repeat("h", 300), Application: strings.Repeat("a", 300), Process: strings.Repeat("p", 300),
		ID: strings.Repeat("i", 300), Element: "a@1", Params: []Param{{"long", long}, {"short", "x"}}, Text: long}
	for _, most := range []int{0, Least, MaxDatagram, MaxStream} {
		got := m.Append(nil, most)
		require.LessOrEqual(t, len(got), max(most, Least))
		require.Greater(t, len(got), max(most, Least)-4)
		require.True(t, valid(got), "%s", got)
		require.NotContains(t, string(got), `long=`)
	}
	require.Contains(t, string(m.Append(nil, MaxDatagram)), `[a@1 short="x"]`)
}

// grammar is that of RFC 5424, section 6; values of structured data are read by their escapes.
var grammar = regexp.MustCompile(`^<(\d|[1-9]\d|1[0-8]\d|19[01])>1 ` +
	`(-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) [!-~]{1,255} [!-~]{1,48} [!-~]{1,128} [!-~]{1,32} ` +
	`(-|\[[^\x00-\x20="\]\x7f-\x{10FFFF}]{1,32}( [^\x00-\x20="\]\x7f-\x{10FFFF}]{1,32}="([^"\\\]]|\\["\\\]])*")*\]) [^\x00-\x1f\x7f]*$`)

func valid(b []byte) bool { return utf8.Valid(b) && grammar.Match(b) }

// Whatever an entry says, it is one valid message within its bound.
func FuzzMessage(f *testing.F) {
	f.Add(3, 6, int64(1767323045000678), "edge-01", "sshd", "42", "-", "a@1", "unit", "ssh.service", "hello", MaxDatagram)
	f.Add(-1, 99, int64(math.MinInt64), "\x00", "ü", "\n", "]", `="`, `]`, `\"]`, "\x1b]0;x\x07\u202e\xff", 0)
	f.Fuzz(func(t *testing.T, facility, severity int, µs int64, host, app, proc, id, element, key, value, text string, most int) {
		most = min(max(most, 0), 1<<16)
		m := Message{facility, severity, time.UnixMicro(µs), host, app, proc, id, element, []Param{{key, value}, {value, text}}, text}
		got := m.Append(nil, most)
		require.LessOrEqual(t, len(got), max(most, Least))
		require.True(t, valid(got), "%q", got)
		require.False(t, bytes.ContainsRune(got, '\n'))
	})
}
