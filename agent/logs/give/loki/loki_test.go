package loki

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/give/parcel"
	"spore/agent/logs/give/post"
)

func entries(t *testing.T, lines ...string) []parcel.Entry {
	t.Helper()
	got, malformed := parcel.Parse([]byte(strings.Join(lines, "\n")))
	require.Zero(t, malformed)
	return got
}

// server answers with what says in turn, then 204, and keeps what it was sent.
type server struct {
	*httptest.Server
	says []func(http.ResponseWriter)
	got  []string
	head http.Header
}

func newServer(t *testing.T, says ...func(http.ResponseWriter)) *server {
	s := &server{says: says}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.Method+r.URL.Path != "POST/loki/api/v1/push" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		body, _ := io.ReadAll(z)
		s.got, s.head = append(s.got, string(body)), r.Header
		if len(s.says) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		say := s.says[0]
		s.says = s.says[1:]
		say(w)
	}))
	t.Cleanup(s.Close)
	return s
}

func says(code int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

func (s *server) receiver(t *testing.T, tenant string) *Receiver {
	r, err := New(post.Server{URL: s.URL}, tenant)
	require.NoError(t, err)
	return r
}

func TestStreamsOfEntries(t *testing.T) {
	s := newServer(t)
	out, err := s.receiver(t, "plant").Give(t.Context(), entries(t,
		`{"_time":"2026-01-02T03:04:05.000002Z","_msg":"second","cluster":"plant","node":"a","_SPORE_SOURCE":"journal","_SYSTEMD_UNIT":"ssh@1-2.service","PRIORITY":"4","__CURSOR":"s=x;i=10;b=y"}`,
		`{"_time":"2026-01-02T03:04:05.000001Z","_msg":"first\n","cluster":"plant","node":"a","_SPORE_SOURCE":"journal","_SYSTEMD_UNIT":"ssh@3-4.service","_PID":"7"}`,
		`{"_time":"2026-01-02T03:04:05.123456789Z","_msg":"","node":"a","_SPORE_SOURCE":"pod","KUBERNETES_NAMESPACE":"default","KUBERNETES_POD":"web-0","KUBERNETES_CONTAINER":"web"}`,
		`{}`,
	))
	require.NoError(t, err)
	require.Equal(t, parcel.Outcome{Left: []parcel.Entry{}}, out)
	require.Len(t, s.got, 1)
	require.JSONEq(t, `{"streams":[
		{"stream":{"cluster":"plant","node":"a","source":"journal","unit":"ssh@.service"},"values":[
			["1767323045000001000","first\n",{"unit_name":"ssh@3-4.service","pid":"7"}],
			["1767323045000002016","second",{"unit_name":"ssh@1-2.service","priority":"4","cursor":"s=x;i=10;b=y"}]]},
		{"stream":{"node":"a","source":"pod","namespace":"default","container":"web"},"values":[["1767323045123456789","",{"pod":"web-0"}]]},
		{"stream":{"source":"unknown"},"values":[["0","",{}]]}]}`, s.got[0])
	require.Equal(t, "plant", s.head.Get("X-Scope-OrgID"))
}

func TestLabelsHaveABound(t *testing.T) {
	for unit, want := range map[string]string{
		"ssh.service": "ssh.service", "user@1000.service": "user@.service", "session-4.scope": "", "run-u12.service": "",
		"cri-containerd-0123.scope": "", "var-lib-x.mount": "", "": "",
	} {
		require.Equal(t, want, service(unit))
	}
	r := &Receiver{known: map[string]bool{}}
	for i := range maxStreams + 10 {
		labels, _ := r.labels(entries(t, fmt.Sprintf(`{"node":"a","KUBERNETES_NAMESPACE":"n%d"}`, i))[0])
		require.Equal(t, i < maxStreams, labels["namespace"] != "")
		require.Equal(t, "a", labels["node"])
	}
	require.Len(t, r.known, maxStreams)
	labels, _ := (&Receiver{known: map[string]bool{}}).labels(entries(t, `{"node":"`+strings.Repeat("x", 5000)+`"}`)[0])
	require.Len(t, labels["node"], maxLabel)
}

func TestEntriesOfOneMicrosecondStayTwo(t *testing.T) {
	e := entries(t,
		`{"_time":"2026-01-02T03:04:05.000001Z","__CURSOR":"s=x;i=3e9"}`, `{"_time":"2026-01-02T03:04:05.000001Z","__CURSOR":"file=1;offset=2"}`,
		`{"_time":"2026-01-02T03:04:05.000001Z","__CURSOR":"nonsense;i=zz"}`)
	require.Equal(t, int64(1767323045000001001), nanoseconds(e[0]))
	require.Equal(t, int64(1767323045000001002), nanoseconds(e[1]))
	require.Equal(t, int64(1767323045000001000), nanoseconds(e[2]))
}

func some(t *testing.T, n int) []parcel.Entry {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"_msg":"%d","node":"a"}`, i))
	}
	return entries(t, lines...)
}

func TestWhatLokiRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		says []func(http.ResponseWriter)
		// given, left and refused are how many of three.
		left, refused int
		want          string
		after         time.Duration
		asked         int
	}{
		"too old": {[]func(http.ResponseWriter){says(400,
			"entry with timestamp 2020 ignored, reason: 'entry too far behind',\nuser 'x', total ignored: 2 out of 3 for stream: {}")}, 0, 2, "", 0, 1},
		"something else":       {[]func(http.ResponseWriter){says(400, "no")}, 3, 0, "the HTTP server answers 400: no", 3 * time.Second, 1},
		"no such content":      {[]func(http.ResponseWriter){says(422, "no")}, 3, 0, "the HTTP server answers 422: no", 3 * time.Second, 1},
		"lies":                 {[]func(http.ResponseWriter){says(400, "total ignored: 99 out of 100")}, 3, 0, "total ignored: 99", 3 * time.Second, 1},
		"too much":             {[]func(http.ResponseWriter){says(429, "slow")}, 3, 0, "the HTTP server answers 429: slow", 3 * time.Second, 1},
		"it is starting":       {[]func(http.ResponseWriter){says(503, "")}, 3, 0, "the HTTP server answers 503", 3 * time.Second, 1},
		"who asks":             {[]func(http.ResponseWriter){says(401, "")}, 3, 0, "the HTTP server answers 401", 3 * time.Second, 1},
		"another server":       {[]func(http.ResponseWriter){says(404, "")}, 3, 0, "the HTTP server answers 404", 3 * time.Second, 1},
		"a request too long":   {[]func(http.ResponseWriter){says(413, "")}, 0, 0, "", 0, 4},
		"an entry too long":    {[]func(http.ResponseWriter){says(413, ""), says(413, "")}, 0, 1, "", 0, 4},
		"in the second of two": {[]func(http.ResponseWriter){says(413, ""), says(204, ""), says(500, "")}, 2, 0, "answers 500", 3 * time.Second, 3},
	} {
		s := newServer(t, tt.says...)
		out, err := s.receiver(t, "").Give(t.Context(), some(t, 3))
		if tt.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tt.want, name)
			var later *parcel.Later
			require.True(t, errors.As(err, &later), name)
			require.Equal(t, tt.after, later.After, name)
		}
		require.Len(t, out.Left, tt.left, name)
		require.Equal(t, tt.refused, out.Refused, name)
		require.Len(t, s.got, tt.asked, name)
	}
}

func TestLokiSaysWhetherItMeansEntries(t *testing.T) {
	for text, certain := range map[string]bool{
		"entry for stream '{node=\"a\"}' has timestamp too old: 2020-01-01T00:00:00Z, oldest acceptable timestamp is: 2026-01-01T00:00:00Z":  true,
		"max entry size '262144' bytes exceeded for stream '{node=\"a\"}' while adding an entry with length '300000' bytes":                  true,
		"stream '{node=\"a\"}' includes structured metadata, but this feature is disallowed. Please see `limits_config.structured_metadata`": false,
		"no": false,
	} {
		out, err := newServer(t, says(400, text)).receiver(t, "").Give(t.Context(), some(t, 3))
		var rejected *parcel.Rejected
		require.ErrorAs(t, err, &rejected, text)
		require.Equal(t, 3, rejected.N)
		require.Equal(t, certain, rejected.Certain, text)
		require.Len(t, out.Left, 3)
	}
}

func TestRequestsHaveABound(t *testing.T) {
	s := newServer(t)
	_, err := s.receiver(t, "").Give(t.Context(), some(t, 2*maxEntries+1))
	require.NoError(t, err)
	require.Len(t, s.got, 3)
	var r struct{ Streams []struct{ Values [][]any } }
	require.NoError(t, json.Unmarshal([]byte(s.got[2]), &r))
	require.Len(t, r.Streams[0].Values, 1)
}
