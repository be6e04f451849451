package nodeapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const healthy = `{"cluster":"c","node":"n","healthy":true,"time":"2026-11-22T01:02:03Z","conditions":[{"name":"agent","state":"ok","reason":"runs"},{"name":"clock","state":"warning","reason":"no server"}],"quorums":[{"service":"kafka","of":["n"],"serves":true}]}`

func TestANodesHealth(t *testing.T) {
	h, err := ParseHealth([]byte(healthy), "c", "n")
	require.NoError(t, err)
	require.True(t, h.Healthy, "a warning is no failure")
	require.Equal(t, []Condition{{"agent", OK, "runs"}, {"clock", Warning, "no server"}}, h.Conditions)
	require.Equal(t, []Member{{Service: "kafka", Of: []string{"n"}, Serves: true}}, h.Quorums)
	h, err = ParseHealth([]byte(strings.NewReplacer("warning", "failing", "true,\"time", "false,\"time").Replace(healthy)), "c", "n")
	require.NoError(t, err)
	require.False(t, h.Healthy)
}

func TestWhatIsNoHealth(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"garbage":            {"hello", "its answer is malformed"},
		"nothing":            {"{}", `it answers for "" of cluster ""`},
		"another cluster":    {strings.Replace(healthy, `"c"`, `"d"`, 1), `of cluster "d"`},
		"another node":       {strings.Replace(healthy, `"n"`, `"m"`, 1), `it answers for "m"`},
		"an unknown state":   {strings.Replace(healthy, "warning", "fine", 1), "which this version does not know"},
		"no reason":          {strings.Replace(healthy, "no server", "", 1), "without name or reason"},
		"no name":            {strings.Replace(healthy, `"clock"`, `""`, 1), "without name or reason"},
		"a contradiction":    {strings.Replace(healthy, "warning", "failing", 1), "contradicts itself"},
		"no conditions":      {`{"cluster":"c","node":"n","healthy":true,"conditions":[]}`, "has 0 conditions"},
		"too many":           {`{"cluster":"c","node":"n","healthy":true,"conditions":[` + strings.Repeat(`{},`, maxConditions) + `{}]}`, "has 201 conditions"},
		"a time that is one": {strings.Replace(healthy, "2026-11-22T01:02:03Z", "today", 1), "its answer is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseHealth([]byte(tc.text), "c", "n")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAStatusLineIsThatOfTheNodeThatWasAsked(t *testing.T) {
	s, err := ParseStatus([]byte(`{"spore":1,"cluster":"plant","node":"n","system":"running","roles":["worker"],"more":{"to":"come"}}`), "plant", "n")
	require.NoError(t, err)
	require.Equal(t, Status{Spore: 1, Cluster: "plant", Node: "n", System: "running", Roles: []string{"worker"}}, s)
	for text, want := range map[string]string{
		`x`:           "its status line is malformed",
		`{}`:          "has the form 0",
		`{"spore":2}`: "has the form 2",
		`{"spore":1,"cluster":"plant","node":"m"}`: `belongs to "m" of cluster "plant"`,
		`{"spore":1,"cluster":"other","node":"n"}`: `belongs to "n" of cluster "other"`,
	} {
		_, err := ParseStatus([]byte(text), "plant", "n")
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseHealth(f *testing.F) {
	f.Add([]byte(healthy))
	f.Add([]byte(strings.Replace(healthy, "warning", "failing", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ParseHealth(data, "c", "n")
		if err != nil {
			return
		}
		require.NotEmpty(t, h.Conditions)
		for _, c := range h.Conditions {
			require.NotEmpty(t, c.Reason)
		}
		again, err := json.Marshal(h)
		require.NoError(t, err)
		_, err = ParseHealth(again, "c", "n")
		require.NoError(t, err)
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(`{"spore":1,"cluster":"plant","node":"n","held":[{"role":"a","reason":"b"}],"waiting":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseStatus(data, "plant", "n")
		if err == nil {
			require.Equal(t, 1, s.Spore)
		}
	})
}
