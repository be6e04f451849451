package dashboard

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/fleet/logs"
	"spore/fleet/trail"
	"spore/wire/nodeapi"
)

func TestAJournalIsFollowed(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.watch(t, Asker{Timeout: time.Second, Follow: func(_ context.Context, node string, lines int, each func(logs.Line) error) error {
		require.Equal(t, "edge-01", node)
		require.Equal(t, followed, lines)
		for range batch { // They wait in the channel until they are sent.
			if err := each(logs.Line{Time: p.time(), Node: node, Unit: "a.service", Priority: 3, Message: evil}); err != nil {
				return err
			}
		}
		return errors.New("no answer: it went" + evil)
	}})
	s := httptest.NewServer(p.server)
	defer s.Close()
	res, err := http.Get(s.URL + "/journal?node=edge-01")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	var names []string
	text := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok && name != "same" {
			names = append(names, name)
		}
		text += lines.Text() + "\n"
	}
	require.Equal(t, "begun", names[0])
	require.Equal(t, "ended", names[len(names)-1])
	require.Contains(t, names, "lines")
	require.Equal(t, batch, strings.Count(text, `"level":"critical"`))
	require.Contains(t, text, "The node does not answer any more: no answer: it went")
	require.NotContains(t, text, "\u202e")
	require.Zero(t, p.server.followers.taken, "the seat is free again")
	_, page := p.page(t, "/nodes/edge-01")
	require.Contains(t, page, "Journal, as it is written")
	require.Contains(t, p.html(t, "/nodes/edge-01"), `data-from="/journal?node=edge-01"`)
	require.NotContains(t, p.html(t, "/"), "journal.js")
}

func TestJournalsThatAreFollowedAreBounded(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.server.followers.fill()
	for path, want := range map[string]int{
		"/journal?node=edge-01": http.StatusServiceUnavailable, "/journal?node=edge-99": http.StatusNotFound, "/journal": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want, w.Code, path)
	}
}

func TestANodesPageHasTheTimesOfItsStart(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.round()
	_, text := p.page(t, "/nodes/edge-01")
	require.Contains(t, text, "It does not say how long its start took.")
	p.says("edge-01", func(a *answer) {
		a.status.Times = map[string]float64{"running": 40, "kernel": 1.5, "stage1": 4, evil: -3}
	})
	p.round()
	_, text = p.page(t, "/nodes/edge-01")
	require.Contains(t, text, "kernel 1.5 s 1.5 s stage1 4.0 s 2.5 s running 40.0 s 36.0 s")
	requireClean(t, text)
	body := p.html(t, "/nodes/edge-01")
	require.Contains(t, body, `<rect class="all" x="100" y="0" width="900" height="10"/>`)
	require.Contains(t, body, `href="/history?node=edge-01&amp;since=7d"`)
}

func TestHistorySaysWhoDidWhat(t *testing.T) {
	p := newPlant(t, "edge-01")
	var asked trail.Question
	answer, problem := trail.Answer{Asked: 2, Failed: map[string]error{"edge-02": errors.New("no answer in time")}}, error(nil)
	for i, user := range []string{"anna", evil} {
		answer.Calls = append(answer.Calls, trail.Call{Kept: []string{"edge-01"}, Ended: p.time(), TrailRecord: nodeapi.TrailRecord{
			Time: p.time().Add(time.Duration(i) * time.Minute), Node: "edge-01", User: user, Role: nodeapi.Operator, From: "10.0.0.1:5", Call: "restart",
			Arguments: map[string]string{"unit": user}, Stage: nodeapi.Did, Result: user,
		}})
	}
	p.watch(t, Asker{Timeout: time.Second, Trail: func(_ context.Context, q trail.Question) (trail.Answer, error) {
		asked = q
		return answer, problem
	}})
	_, text := p.page(t, "/history?node=edge-01&user=anna&since=7d")
	require.Equal(t, trail.Question{Nodes: []string{"edge-01"}, User: "anna", Since: "7d"}, asked)
	require.Contains(t, text, "anna (operator), from 10.0.0.1:5 restart unit=anna anna")
	require.Contains(t, text, "1 node does not answer; what only it has is not shown")
	require.Contains(t, text, "edge-02: no answer in time")
	require.Contains(t, text, "2026-11-26 03:01:00")
	requireClean(t, text)
	answer = trail.Answer{}
	_, text = p.page(t, "/history")
	require.Equal(t, trail.Question{Since: "1d"}, asked)
	require.Contains(t, text, "Nobody had a node change something in that time.")
	_, text = p.page(t, "/history?node=edge-99")
	require.Contains(t, text, "no node of cluster.yaml has the name")
	problem = errors.New(evil)
	_, text = p.page(t, "/history?since=x")
	requireClean(t, text)
}
