package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestASearchAsksTheStore(t *testing.T) {
	p := newPlant(t, "store-1", "store-2")
	p.answers["store-2 "+query] = answers(
		`{"result":[{"__REALTIME_TIMESTAMP":"5000000","MESSAGE":"`+strings.Repeat("x", maxMessage+1)+`","_SYSTEMD_UNIT":"kafka.service","PRIORITY":"3","node":"edge-02"},`+
			`{"__REALTIME_TIMESTAMP":"6000000","MESSAGE":"Started.","_SYSTEMD_UNIT":"init.scope","UNIT":"ssh.service","node":"edge-01"},`+
			`{"__REALTIME_TIMESTAMP":"7000000","MESSAGE":"hot","KUBERNETES_NAMESPACE":"a","KUBERNETES_POD":"b","KUBERNETES_CONTAINER":"c","node":"edge-01"}]}`,
		fresh("edge-01"), done)
	found, err := Search(t.Context(), p.c, Question{Nodes: []string{"edge-01", "edge-02"}, Since: "1h", Priority: "err", Pattern: "a|b", Lines: 2}, time.Now())
	require.NoError(t, err)
	require.NoError(t, found.Problem)
	require.Equal(t, "store-2", found.Store)
	require.Len(t, found.Lines, 2, "the last ones")
	require.Equal(t, "ssh.service", found.Lines[0].Unit)
	require.Equal(t, "a/b/c", found.Lines[1].Pod)
	require.Contains(t, strings.Join(found.Said, "\n"), "store-1: it answers 503")
	require.Contains(t, strings.Join(found.Said, "\n"), "edge-02: the store has had no line", "it is not in what the store says is new")
	require.Equal(t, map[string]string{"nodes": "edge-01,edge-02", "priority": "3", "grep": "a|b", "lines": "2"}, without(p.orders[0].Arguments, "since"))
	found, err = Search(t.Context(), p.c, Question{Nodes: []string{"edge-02"}, Lines: 10}, time.Now())
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", maxMessage)+" …", found.Lines[0].Message)
	require.Equal(t, 3, found.Lines[0].Priority)
}

func without(all map[string]string, name string) map[string]string {
	delete(all, name)
	return all
}

func TestASearchWithoutAStoreAsksTheNodes(t *testing.T) {
	p := newPlant(t)
	p.answers["edge-01 "+nodeapi.LogsPath] = func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "250", r.URL.Query().Get("lines"), "500 of two nodes")
		for range 250 {
			fromNode(w, r)
		}
	}
	found, err := Search(t.Context(), p.c, Question{Nodes: []string{"edge-01", "edge-02"}, Lines: 500}, time.Now())
	require.NoError(t, err)
	require.ErrorContains(t, found.Problem, "1 of 2 nodes did not answer")
	require.Empty(t, found.Store)
	require.False(t, found.HasStore)
	require.Len(t, found.Lines, 250)
	require.Equal(t, "from the node", found.Lines[0].Message)
	said := strings.Join(found.Said, "\n")
	require.Contains(t, said, "edge-02: it answers 503")
	require.Contains(t, said, "edge-01: it has more lines; these are its last 250")
}

func TestAMalformedSearchAsksNobody(t *testing.T) {
	p := newPlant(t, "store-1")
	for want, q := range map[string]Question{
		"is not a time":             {Since: "yesterday"},
		"is not one of RE2":         {Pattern: "("},
		"the priority is":           {Priority: "8"},
		`no node "edge-99"`:         {Nodes: []string{"edge-99"}},
		"no node has the role":      {Roles: []string{"welder"}},
		"is not a name of a unit":   {Units: []string{"<script>"}},
		"is not a pod":              {Pod: "<script>"},
		"a pod is no unit":          {Pod: "a/b", Units: []string{"ssh"}},
		"is not behind":             {Since: "1h", Until: "2h"},
		"lines cannot be asked for": {Lines: -1},
	} {
		_, err := Search(t.Context(), p.c, q, time.Now())
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, p.asked)
}

func TestANodeIsFollowed(t *testing.T) {
	p := newPlant(t)
	p.answers["edge-01 "+nodeapi.LogsPath] = func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "true", r.URL.Query().Get("follow"))
		for n := 0; ; n++ {
			fmt.Fprintf(w, `{"__REALTIME_TIMESTAMP":"7000000","MESSAGE":"%d"}`+"\n", n)
			if http.NewResponseController(w).Flush() != nil || r.Context().Err() != nil {
				return
			}
		}
	}
	enough := errors.New("enough")
	var got []string
	err := Follow(context.Background(), p.c, "edge-01", 5, func(l Line) error {
		if got = append(got, l.Node+" "+l.Message); len(got) == 3 {
			return enough
		}
		return nil
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, []string{"edge-01 0", "edge-01 1", "edge-01 2"}, got)
}

// A node that is off when somebody begins to follow is shown when it comes, and of one that starts anew each line once.
func TestNodesThatComeLaterAreFollowed(t *testing.T) {
	p := newPlant(t)
	p.c.Nodes = p.c.Nodes[:2]
	entry := func(second, number int) string {
		return fmt.Sprintf(`{"__CURSOR":"i=%d","__REALTIME_TIMESTAMP":"%d000000","MESSAGE":"line %[1]d"}`+"\n", number, second)
	}
	var asked [2]atomic.Int32
	waits := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	p.answers["edge-01 "+nodeapi.LogsPath] = func(w http.ResponseWriter, r *http.Request) {
		if asked[0].Add(1) == 1 { // It says two lines, and its power goes.
			fmt.Fprint(w, entry(7, 1)+entry(8, 2))
			return
		}
		require.Equal(t, "1970-01-01T00:00:08Z", r.URL.Query().Get("since"), "it is asked from its last line on")
		fmt.Fprint(w, entry(8, 2)+entry(8, 3)+entry(9, 4))
		waits(w, r)
	}
	p.answers["edge-02 "+nodeapi.LogsPath] = func(w http.ResponseWriter, r *http.Request) {
		if asked[1].Add(1) == 1 {
			http.Error(w, "it begins", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, entry(6, 9))
		waits(w, r)
	}
	asks, err := (&Options{Several: true}).Asks(p.c, nodeapi.Logs{Lines: 5, Follow: true}, nil)
	require.NoError(t, err)
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	var out, errs bytes.Buffer
	shown := &lines{interrupt: interrupt, want: 5, out: &out}
	err = Show(ctx, p.c, Output{Lines: bufio.NewWriter(shown), Said: &errs}, asks, nil, &Options{Several: true, Follow: true})
	require.NoError(t, err)
	for number, times := range map[string]int{"line 1": 1, "line 2": 1, "line 3": 1, "line 4": 1, "line 9": 1} {
		require.Equal(t, times, strings.Count(out.String(), number+"\n"), out.String())
	}
	require.Contains(t, errs.String(), "edge-01: it has ended the answer")
	require.Contains(t, errs.String(), "edge-02: ")
	require.Equal(t, 2, strings.Count(errs.String(), "it is asked again\n"), errs.String())
}

// lines interrupts a command when it has written so many.
type lines struct {
	out       *bytes.Buffer
	want      int
	interrupt func()
}

func (l *lines) Write(p []byte) (int, error) {
	if l.want -= bytes.Count(p, []byte("\n")); l.want <= 0 {
		l.interrupt()
	}
	return l.out.Write(p)
}
