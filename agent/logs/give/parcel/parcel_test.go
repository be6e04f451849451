package parcel

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLinesOfTheQueue(t *testing.T) {
	got, malformed := Parse([]byte(`{"_time":"2026-01-02T03:04:05.000678Z","_msg":"hello","node":"edge-01","PRIORITY":"3","MESSAGE":"old"}

{"_time":"1767323045000678","MESSAGE":"bare","PRIORITY":"x"}
{"__REALTIME_TIMESTAMP":"1767323045000678","_msg":"","MESSAGE":"not this","N":5,"a":["x"]}
nonsense
null
[1]
{"_msg":"cut
{}`))
	require.Equal(t, 4, malformed)
	require.Len(t, got, 4)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
	for i, want := range []struct {
		text     string
		priority int
		names    string
		at       time.Time
	}{
		{"hello", 3, "PRIORITY node", at},
		{"bare", 6, "PRIORITY", at},
		{"", 6, "N __REALTIME_TIMESTAMP a", at},
		{"", 6, "", time.Time{}},
	} {
		require.Equal(t, want.text, got[i].Text, i)
		require.Equal(t, want.priority, got[i].Importance(), i)
		require.Equal(t, want.names, strings.Join(got[i].Names(), " "), i)
		require.Equal(t, want.at, got[i].Time, i)
	}
	require.Equal(t, "edge-01", got[0].Get(Node))
	require.Equal(t, `["x"]`, got[2].Get("a"))
	require.Empty(t, got[0].Get(Cluster))
}

func TestHowManyGoTogether(t *testing.T) {
	ten := Entry{Line: "0123456789"}
	e := []Entry{ten, ten, ten}
	for _, tt := range []struct{ most, bytes, want int }{{5, 100, 3}, {2, 100, 2}, {5, 20, 2}, {5, 19, 1}, {5, 0, 1}, {0, 0, 1}} {
		require.Equal(t, tt.want, First(e, tt.most, tt.bytes), tt)
	}
	require.Zero(t, First(nil, 5, 5))
	require.Equal(t, "aü", Cut("aüb", 3))
	require.Equal(t, "a", Cut("aüb", 2))
}

// What is read fast is what encoding/json reads.
func TestPlainLines(t *testing.T) {
	for line, plain := range map[string]bool{
		`{"a":"b"}`: true, `{"a":"","":"x"}`: true, `{"a":"\"\\\n\u0000\ud83d\ude00ü"}`: true,
		`{}`: false, `{"a": "b"}`: false, `{"a":1}`: false, `{"a":"b"`: false, `{"a":"b"}}`: false, `{"a":"b",}`: false,
		`{"a":"b\`: false, `{"a":"\x"}`: false, "{\"a\":\"\x01\"}": false, "{\"a\":\"\xff\"}": false, `"a"`: false, `{"a"`: false, `{`: false,
	} {
		_, got := texts(line)
		require.Equal(t, plain, got, line)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"_time":"2026-01-02T03:04:05Z","_msg":"x","PRIORITY":"3"}` + "\n{}\n[\n"))
	f.Add([]byte(`{"a":"\"\\\ud800","b":"\x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, malformed := Parse(data)
		require.LessOrEqual(t, len(got)+malformed, strings.Count(string(data), "\n")+1)
		for _, e := range got {
			require.True(t, e.Importance() >= 0 && e.Importance() <= 7)
			fields, plain := texts(e.Line)
			if !plain {
				continue
			}
			want := map[string]string{}
			require.NoError(t, json.Unmarshal([]byte(e.Line), &want))
			for name, value := range want {
				require.Equal(t, value, Entry{fields: fields}.Get(name))
			}
		}
	})
}
