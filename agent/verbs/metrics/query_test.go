package metrics

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// store is a node with a store that answers as the test says.
type store struct {
	t       *testing.T
	m       *node.Machine
	cluster *facts.Cluster
	asked   []*http.Request
	forms   []url.Values
	at      Store
}

func newStore(t *testing.T, answer http.HandlerFunc) *store {
	s := &store{t: t, m: node.New("test", paths.Root(t.TempDir())), cluster: &facts.Cluster{
		Members: map[string][]string{metrics.Role: {"observer-01"}}, Services: spec.Services{&metrics.Settings{}},
	}}
	s.m.Now = func() time.Time { return time.Unix(1_800_000_000, 0) }
	file := s.m.Root.At(filepath.Join(paths.Secrets, metrics.Program, metrics.PasswordEntry))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("swordfish\n"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, r.ParseForm())
		s.asked, s.forms = append(s.asked, r), append(s.forms, r.Form)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	s.at = Store{Address: strings.TrimPrefix(server.URL, "http://")}
	return s
}

func (s *store) query(arguments map[string]string) ([]machine.Series, string, error) {
	s.t.Helper()
	events, done, err := verbstest.Do(s.t, s.m, s.cluster, &facts.Node{Name: "observer-01"}, s.at.Query, nodeapi.Order{Arguments: arguments})
	var all []machine.Series
	for _, e := range events {
		var part []machine.Series
		require.NoError(s.t, json.Unmarshal(e.Result, &part))
		all = append(all, part...)
	}
	return all, done, err
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func TestTheStoreIsAskedWithItsPassword(t *testing.T) {
	s := newStore(t, says(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1800000000.5,"1"]}]}}`))
	got, done, err := s.query(map[string]string{"query": "up"})
	require.NoError(t, err)
	require.Equal(t, "1 series", done)
	require.Equal(t, []machine.Series{{Labels: map[string]string{"__name__": "up"}, Samples: []machine.Sample{{At: 1800000000.5, Value: "1"}}}}, got)
	user, password, _ := s.asked[0].BasicAuth()
	require.Equal(t, [2]string{"spore", "swordfish"}, [2]string{user, password})
	require.Equal(t, "/api/v1/query", s.asked[0].URL.Path)
	require.Equal(t, url.Values{"query": {"up"}}, s.forms[0])
}

func TestAQueryOverATimeHasAStep(t *testing.T) {
	for name, c := range map[string]struct {
		arguments map[string]string
		want      string
		err       string
	}{
		"as given":                 {map[string]string{"from": "1000", "until": "2000", "step": "10"}, "end=2000&query=up&start=1000&step=10", ""},
		"until now":                {map[string]string{"from": "1799985000"}, "end=1800000000&query=up&start=1799985000&step=30", ""},
		"a week":                   {map[string]string{"from": "1799395200"}, "end=1800000000&query=up&start=1799395200&step=1209", ""},
		"a moment":                 {map[string]string{"until": "2000"}, "query=up&time=2000", ""},
		"a step without a begin":   {map[string]string{"step": "10"}, "", "a step is for a time with a begin; give that, too"},
		"an end before the begin":  {map[string]string{"from": "2000", "until": "1000"}, "", "the end is before the begin"},
		"more points than allowed": {map[string]string{"from": "0", "step": "1"}, "", "that are more than 10000 points; take a longer step"},
		"one point more":           {map[string]string{"from": "0", "until": "10000", "step": "1"}, "", "that are more than 10000 points; take a longer step"},
		"as many as allowed":       {map[string]string{"from": "0", "until": "9999", "step": "1"}, "end=9999&query=up&start=0&step=1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, says(`{"status":"success","data":{"resultType":"matrix","result":[]}}`))
			c.arguments["query"] = "up"
			got, _, err := s.query(c.arguments)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				require.Empty(t, s.asked)
				return
			}
			require.NoError(t, err)
			require.Empty(t, got)
			require.Equal(t, c.want, s.forms[0].Encode())
		})
	}
}

func TestWhatTheStoreRefusesIsTold(t *testing.T) {
	series := func(n int) string {
		one := `{"metric":{"instance":"edge-01"},"values":[` + strings.TrimSuffix(strings.Repeat(`[1,"1"],`, n), ",") + `]}`
		return `{"status":"success","data":{"resultType":"matrix","result":[` + one + `]}}`
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"a query that is none": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":"error","errorType":"422","error":"unparsed data left: \")\""}`)
		}, `the store says: unparsed data left: ")"`},
		"another password": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "the store says: HTTP 401: "},
		"no JSON":          {says("<html>\xff"), "the store says: HTTP 200: <html>?"},
		"another form":     {says(`{"status":"success","data":{"resultType":"vector","result":[{"value":[1]}]}}`), "the store's answer is malformed: a sample has 1 parts instead of 2"},
		"another type":     {says(`{"status":"success","data":{"resultType":"tensor","result":[]}}`), `the store's answer is of the type "tensor", which is none`},
		"too many samples": {says(series(maxSamples + 1)), "a series has more than 10000 samples; take a longer step"},
		"without end": {func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer>>20 + 1 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, "the answer has more than 32 MiB; ask for less"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := newStore(t, c.answer).query(map[string]string{"query": "up"})
			require.EqualError(t, err, c.err)
			require.Empty(t, got)
		})
	}

	s := newStore(t, says(""))
	s.cluster.Members = nil
	_, _, err := s.query(map[string]string{"query": "up"})
	require.EqualError(t, err, "observer-01 has no store of metrics; ask a node with the role metrics-store")
}

func TestManySeriesComeInSeveralParts(t *testing.T) {
	const number = 20_000
	one := `{"metric":{"__name__":"node_filesystem_avail_bytes","instance":"edge-01","mountpoint":"/var/lib/kafka"},"value":[1800000000,"12345678"]},`
	s := newStore(t, says(`{"status":"success","data":{"resultType":"vector","result":[`+strings.TrimSuffix(strings.Repeat(one, number), ",")+`]}}`))
	got, done, err := s.query(map[string]string{"query": "node_filesystem_avail_bytes"})
	require.NoError(t, err)
	require.Len(t, got, number)
	require.Equal(t, "20000 series", done)
}

// Labels are what targets say: such ones take six times their length as JSON.
func TestLongLabelsOfTargetsFitIntoTheAnswer(t *testing.T) {
	one := `{"metric":{"a":"` + strings.Repeat("<", 4000) + `"},"value":[1800000000,"1"]},`
	s := newStore(t, says(`{"status":"success","data":{"resultType":"vector","result":[`+strings.TrimSuffix(strings.Repeat(one, 100), ",")+`]}}`))
	got, _, err := s.query(map[string]string{"query": "a"})
	require.NoError(t, err)
	require.Len(t, got, 100)
	require.Equal(t, strings.Repeat("<", 4000), got[99].Labels["a"])
}

func TestThePasswordGoesToTheStoreAlone(t *testing.T) {
	s := newStore(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, _, err := s.query(map[string]string{"query": "up"})
	require.ErrorContains(t, err, "the store says: HTTP 307")
	require.Len(t, s.asked, 1)
}

// A store is a program that reads what others say; its answer is held to its form.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1.5,"1"]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"1"],[2,"2"]]}]}}`))
	f.Add([]byte(`{"status":"error","error":"\u001b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parse(200, data)
		if err != nil {
			return
		}
		for _, s := range all {
			require.LessOrEqual(t, len(s.Samples), maxSamples)
		}
	})
}

func (s *store) page(arguments map[string]string) ([]machine.Page, string, error) {
	s.t.Helper()
	events, done, err := verbstest.Do(s.t, s.m, s.cluster, &facts.Node{Name: "observer-01"}, s.at.Page, nodeapi.Order{Arguments: arguments})
	var all []machine.Page
	for _, e := range events {
		var part machine.Page
		require.NoError(s.t, json.Unmarshal(e.Result, &part))
		all = append(all, part)
	}
	return all, done, err
}

func TestThePageIsHandedOutInParts(t *testing.T) {
	text := strings.Repeat("0123456789", maxPart/5) // two parts
	s := newStore(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/css")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, text)
	})
	parts, done, err := s.page(map[string]string{"path": "/vmui/a.css", "query": "x=1&y=%20"})
	require.NoError(t, err)
	require.Equal(t, "Accepted", done)
	require.Len(t, parts, 2)
	require.Equal(t, [2]any{202, "text/css"}, [2]any{parts[0].Status, parts[0].Type})
	require.Zero(t, parts[1].Status)
	require.Equal(t, text, string(parts[0].Body)+string(parts[1].Body))
	user, password, _ := s.asked[0].BasicAuth()
	require.Equal(t, [2]string{"spore", "swordfish"}, [2]string{user, password})
	require.Equal(t, [2]string{"GET", "/vmui/a.css?x=1&y=%20"}, [2]string{s.asked[0].Method, s.asked[0].RequestURI})
}

func TestThePageHasBounds(t *testing.T) {
	s := newStore(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", strings.Repeat("x", maxType+1))
	})
	parts, _, err := s.page(map[string]string{"path": "/vmui/"})
	require.NoError(t, err)
	require.Equal(t, []machine.Page{{Status: 200}}, parts, "an answer without a body, and without a type that is too long")

	s = newStore(t, func(w http.ResponseWriter, r *http.Request) {
		for range maxAnswer>>20 + 1 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	})
	parts, _, err = s.page(map[string]string{"path": "/vmui/"})
	require.ErrorContains(t, err, "the answer has more than 32 MiB")
	require.Len(t, parts, maxAnswer/maxPart, "what came before was handed out")

	// The store has gone in the middle of its answer.
	cut := newStore(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	})
	_, _, err = cut.page(map[string]string{"path": "/vmui/"})
	require.ErrorContains(t, err, "read what the store answers: unexpected EOF")

	s.cluster.Members = nil
	_, _, err = s.page(map[string]string{"path": "/vmui/"})
	require.EqualError(t, err, "observer-01 has no store of metrics; ask a node with the role metrics-store")
}
