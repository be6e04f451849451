package elasticsearch

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

// server keeps documents by their ids, as Elasticsearch does with create; item may refuse one, and whole a request.
type server struct {
	*httptest.Server
	documents map[string]string
	asked     int
	whole     func(n int) (code int, text string)
	item      func(text string) (code int)
}

func newServer(t *testing.T) *server {
	s := &server{documents: map[string]string{}, item: func(string) int { return 201 }, whole: func(int) (int, string) { return 200, "" }}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked++
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.Method+r.URL.Path != "POST/logs-plant/_bulk" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		body, _ := io.ReadAll(z)
		lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		if code, text := s.whole(len(lines) / 2); code != 200 || text != "" {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
			return
		}
		var items []string
		for i := 0; i+1 < len(lines); i += 2 {
			var action struct {
				Create struct {
					ID string `json:"_id"`
				}
			}
			_ = json.Unmarshal([]byte(lines[i]), &action)
			code := s.item(lines[i+1])
			if _, found := s.documents[action.Create.ID]; found {
				code = 409
			}
			if code == 201 {
				s.documents[action.Create.ID] = lines[i+1]
			}
			items = append(items, fmt.Sprintf(`{"create":{"status":%d,"error":{"type":"x_exception","reason":"since %d"}}}`, code, code))
		}
		_, _ = io.WriteString(w, `{"errors":true,"items":[`+strings.Join(items, ",")+`]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) receiver(t *testing.T) *Receiver {
	r, err := New(post.Server{URL: s.URL}, "logs-plant")
	require.NoError(t, err)
	return r
}

func some(t *testing.T, n int) []parcel.Entry {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"_msg":"entry %d.","node":"a","__CURSOR":"i=%d"}`, i, i))
	}
	return entries(t, lines...)
}

func TestADocument(t *testing.T) {
	s := newServer(t)
	_, err := s.receiver(t).Give(t.Context(), entries(t,
		`{"_time":"2026-01-02T03:04:05.000678Z","_msg":"<hello>\n","cluster":"plant","node":"edge-01","role":"worker","_SPORE_SOURCE":"journal","_SYSTEMD_UNIT":"ssh.service","SYSLOG_IDENTIFIER":"sshd","_PID":"42","_UID":"0","_COMM":"sshd","PRIORITY":"4","__CURSOR":"s=a;i=1","MY_FIELD":"x\u0000"}`,
		`{"_PID":"no"}`))
	require.NoError(t, err)
	var got []string
	for id, d := range s.documents {
		require.Len(t, id, 40)
		got = append(got, d)
	}
	if strings.Contains(got[0], `"no"`) {
		got[0], got[1] = got[1], got[0]
	}
	require.JSONEq(t, `{"@timestamp":"2026-01-02T03:04:05.000678000Z","message":"<hello>\n","ecs":{"version":"8.17.0"},
		"log":{"level":"warning","syslog":{"severity":{"code":4},"appname":"sshd"}},"orchestrator":{"cluster":{"name":"plant"}},
		"host":{"name":"edge-01"},"event":{"dataset":"journal"},"systemd":{"unit":"ssh.service"},"user":{"id":"0"},
		"process":{"pid":42,"name":"sshd"},"journal":{"role":"worker","__CURSOR":"s=a;i=1","MY_FIELD":"x\u0000"}}`, got[0])
	require.JSONEq(t, `{"@timestamp":"1970-01-01T00:00:00.000000000Z","message":"","ecs":{"version":"8.17.0"},
		"log":{"level":"info","syslog":{"severity":{"code":6}}},"journal":{"_PID":"no"}}`, got[1])
}

func TestWhatIsSentTwiceIsThereOnce(t *testing.T) {
	s := newServer(t)
	for range 2 {
		out, err := s.receiver(t).Give(t.Context(), some(t, 2*maxEntries+1))
		require.NoError(t, err)
		require.Empty(t, out.Left)
		require.Zero(t, out.Refused)
	}
	require.Len(t, s.documents, 2*maxEntries+1)
	require.Equal(t, 6, s.asked)
	other := entries(t, `{"_msg":"entry 0.","node":"b","__CURSOR":"i=0"}`, `{"_msg":"x"}`, `{"_msg":"y"}`)
	_, err := s.receiver(t).Give(t.Context(), other)
	require.NoError(t, err)
	require.Len(t, s.documents, 2*maxEntries+4, "of another node, and without a cursor")
}

func TestOnlyWhatIsNotTakenNowIsSentAgain(t *testing.T) {
	s := newServer(t)
	s.item = func(text string) int {
		switch {
		case strings.Contains(text, "entry 1."):
			return 429
		case strings.Contains(text, "entry 2."):
			return 400
		}
		return 201
	}
	out, err := s.receiver(t).Give(t.Context(), some(t, 4))
	require.EqualError(t, err, "the server did not take 1 entries now: 429 x_exception: since 429")
	require.Len(t, out.Left, 1)
	require.Equal(t, "entry 1.", out.Left[0].Text)
	require.Equal(t, 1, out.Refused)
	require.Equal(t, "400 x_exception: since 400", out.Why)
	s.item = func(string) int { return 201 }
	out, err = s.receiver(t).Give(t.Context(), out.Left)
	require.NoError(t, err)
	require.Empty(t, out.Left)
	require.Len(t, s.documents, 3)
}

func TestServersThatTakeNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		text string
		want string
	}{
		"full":            {429, "slow", "the HTTP server answers 429: slow"},
		"a bad request":   {400, "no", "the HTTP server answers 400: no"},
		"who asks":        {401, "", "the HTTP server answers 401"},
		"elsewhere":       {302, "", "the HTTP server answers 302"},
		"nonsense":        {200, "hello", "the answer of the server is malformed"},
		"another answer":  {200, "{}", "the server answers for 0 entries of 2; is it Elasticsearch?"},
		"too many":        {200, `{"items":[{},{},{}]}`, "the server answers for 3 entries of 2"},
		"without numbers": {200, `{"items":[{},{}]}`, "the server answers 0 for an entry"},
	} {
		s := newServer(t)
		s.whole = func(int) (int, string) { return tt.code, tt.text }
		out, err := s.receiver(t).Give(t.Context(), some(t, 2))
		require.ErrorContains(t, err, tt.want, name)
		require.Len(t, out.Left, 2, name)
		require.Zero(t, out.Refused, name)
		var rejected *parcel.Rejected
		require.Equal(t, tt.code == 400, errors.As(err, &rejected), name)
	}
}

func TestARequestThatIsTooLongBecomesTwo(t *testing.T) {
	s := newServer(t)
	s.whole = func(n int) (int, string) {
		if n > 1 {
			return 413, ""
		}
		return 200, ""
	}
	_, err := s.receiver(t).Give(t.Context(), some(t, 4))
	require.NoError(t, err)
	require.Len(t, s.documents, 4)
	s.whole = func(int) (int, string) { return 413, "" }
	out, err := s.receiver(t).Give(t.Context(), some(t, 4))
	require.NoError(t, err)
	require.Equal(t, 4, out.Refused)
}
