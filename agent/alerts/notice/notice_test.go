package notice

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const posted = `{"version":"4","groupKey":"{}:{alertname=\"DiskFull\"}","status":"firing","receiver":"plc","groupLabels":{},
"alerts":[{"status":"firing","labels":{"alertname":"DiskFull","instance":"edge-01","severity":"critical","device":"vda"},
"annotations":{"summary":"edge-01 is full","description":"It is."},"startsAt":"2026-01-02T03:04:05.5+01:00","endsAt":"0001-01-01T00:00:00Z",
"generatorURL":"http://127.0.0.1:8880/x","fingerprint":"c0ffee"},
{"status":"resolved","labels":{"alertname":"DiskFull","instance":"edge-02"},"annotations":{},"startsAt":"2026-01-02T03:04:05Z","endsAt":"2026-01-02T04:00:00Z","fingerprint":"beef"}]}`

func TestAMessageOfAlertmanager(t *testing.T) {
	got, err := Parse([]byte(posted))
	require.NoError(t, err)
	require.Equal(t, []Alert{
		{
			Firing: true, Name: "DiskFull", Severity: "critical", Instance: "edge-01", Summary: "edge-01 is full", Description: "It is.",
			Since: time.Date(2026, 1, 2, 2, 4, 5, 5e8, time.UTC), Fingerprint: "c0ffee",
			Labels: map[string]string{"alertname": "DiskFull", "instance": "edge-01", "severity": "critical", "device": "vda"},
		},
		{
			Name: "DiskFull", Instance: "edge-02", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Until: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC),
			Fingerprint: "beef", Labels: map[string]string{"alertname": "DiskFull", "instance": "edge-02"},
		},
	}, got)
}

func TestMessagesThatAreRefused(t *testing.T) {
	one := `{"status":"firing","labels":{"alertname":"A"}}`
	for name, tt := range map[string]struct{ data, want string }{
		"nothing":        {``, "the message is malformed"},
		"another form":   {`[]`, "the message is malformed"},
		"a version more": {`{"version":"5","alerts":[` + one + `]}`, `the message is of version "5"; 4 is known`},
		"no alerts":      {`{"version":"4"}`, "the message has no alerts"},
		"an odd status":  {`{"version":"4","alerts":[{"status":"pending"}]}`, `an alert has the status "pending"; firing and resolved are known`},
		"too many":       {`{"version":"4","alerts":[` + strings.Repeat(one+",", 1000) + one + `]}`, "the message has 1001 alerts; at most 1000 are read"},
		"too long":       {strings.Repeat(" ", MaxSize+1), "the message has more than 4194304 bytes"},
		"an odd time":    {`{"version":"4","alerts":[{"status":"firing","startsAt":"now"}]}`, "the message is malformed"},
	} {
		_, err := Parse([]byte(tt.data))
		require.ErrorContains(t, err, tt.want, name)
	}
}

func TestHostileLabelsAreHeldToBounds(t *testing.T) {
	var labels strings.Builder
	for i := range 200 {
		fmt.Fprintf(&labels, `"l%03d":"x",`, i)
	}
	long := strings.Repeat("ä", 4000)
	got, err := Parse([]byte(`{"version":"4","alerts":[{"status":"firing","labels":{` + labels.String() +
		`"alertname":"a\nb\u0000c\u2028d\u202ee"},"annotations":{"summary":"` + long + `"}}]}`))
	require.NoError(t, err)
	require.Equal(t, "a b c d e", got[0].Name)
	require.Len(t, got[0].Labels, maxLabels)
	require.Equal(t, long[:maxText], got[0].Summary)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(posted))
	f.Add([]byte(`{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"\ud800\n"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Parse(data)
		if err != nil {
			return
		}
		for _, a := range got {
			for _, s := range []string{a.Name, a.Severity, a.Instance, a.Summary, a.Description, a.Fingerprint} {
				require.True(t, utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl), "%q", s)
				require.LessOrEqual(t, len(s), maxText)
			}
		}
	})
}
