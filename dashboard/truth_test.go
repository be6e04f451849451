package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// isGrey tells whether what a service said is shown as an old value.
func (s *serving) isGrey(t *testing.T, path string) bool {
	t.Helper()
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return strings.Contains(w.Body.String(), `<div class="stale">`)
}

func TestWhatANodeSaidOfAServiceIsOldAtOnceWhenItIsGone(t *testing.T) {
	healthy := `{"status":{"health":{"status":"HEALTH_OK"}}}`
	for name, c := range map[string]struct {
		how  func(*serving)
		grey bool
	}{
		"it refuses": {func(s *serving) {
			s.later(time.Second)
			s.says("edge-01", func(a *answer) { a.err = errors.New("no answer: connection refused") })
			s.round()
		}, true},
		"it says nothing for 10 s": {func(s *serving) { s.later(stale + time.Second) }, true},
		"it says something":        {func(s *serving) { s.later(stale - time.Second); s.round(); s.later(time.Second) }, false},
		"it failed before": {func(s *serving) {
			s.says("edge-01", func(a *answer) { a.err = errors.New("no answer: connection refused") })
			s.round()
			s.later(time.Second)
			s.show(t, cephPath)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServing(t, monitor)
			s.answer("ceph-status", healthy)
			s.round()
			s.show(t, cephPath)
			require.False(t, s.isGrey(t, cephPath))
			c.how(s)
			require.Equal(t, c.grey, s.isGrey(t, cephPath))
			_, text := s.page(t, cephPath)
			require.Equal(t, c.grey, strings.Contains(text, "edge-01, which said so, says nothing any more."), text)
		})
	}
}

// answer has the nodes answer a verb.
func (s *serving) answer(verb, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[verb] = answer
}

// An answer that is due and does not come is late within 10 s, whatever the last one took.
func TestAQuestionIsAskedTheLessOftenTheMoreItsAnswerCosts(t *testing.T) {
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	for took, want := range map[time.Duration]struct{ pause, late time.Duration }{
		-time.Hour:             {5 * time.Second, 9 * time.Second}, // the clock of this machine was set
		0:                      {5 * time.Second, 9 * time.Second},
		80 * time.Millisecond:  {5 * time.Second, 9080 * time.Millisecond},
		200 * time.Millisecond: {12 * time.Second, 16200 * time.Millisecond},
		time.Second:            {20 * time.Second, 25 * time.Second},
		20 * time.Second:       {20 * time.Second, 29 * time.Second},
	} {
		w := timed(at, at.Add(took), soonest)
		require.Equal(t, want.pause, w.Pause, took)
		require.Equal(t, at.Add(want.late), w.late(), took)
		require.LessOrEqual(t, w.late().Sub(at)-w.Pause, 10*time.Second, took)
	}
}

// The page says of a node that is slow that it is, and asks another one at once when the one that has answered is gone.
func TestAServiceIsAskedAgainAtOnceWhenItsNodeIsGone(t *testing.T) {
	s := newServing(t, monitor)
	s.answer("ceph-status", `{"status":{"health":{"status":"HEALTH_OK"}}}`)
	verb := s.watcher.asker.Verb
	s.watcher.asker.Verb = func(ctx context.Context, role, name string, o nodeapi.Order) (Reply, error) {
		s.later(20 * time.Second)
		return verb(ctx, role, name, o)
	}
	s.round()
	require.Contains(t, s.show(t, cephPath), "The answer took 20 s: who is asked is slow.")
	require.False(t, s.isGrey(t, cephPath))
	l := s.watcher.lookers[cephPath]
	require.Empty(t, l.hurry)
	s.says("edge-01", func(a *answer) { a.err = errors.New("no answer: connection refused") })
	s.round()
	require.Len(t, l.hurry, 1)
	require.Empty(t, s.watcher.lookers[kafkaPath].hurry, "nobody has answered there")
	<-l.hurry
	s.round()
	require.Empty(t, l.hurry, "it is no news")
}

// Who opens the page of a service reads what is wrong, where, and what to do, before the tables.
func TestAPageOfAServiceSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	s := newServing(t, master, broker, monitor, mqttBroker)
	s.plant.nodes[0].Name = "edge-01"
	s.answer("kubernetes-status", `{"nodes":[{"name":"edge-01","ready":"False","why":"KubeletNotReady"},{"name":"x;reboot","ready":"True","pressure":["DiskPressure"]}],
"pods":[{"namespace":"n","name":"p; reboot","phase":"Pending","why":"Unschedulable"}]}`)
	s.answers["kubernetes-status"] = strings.ReplaceAll(s.answers["kubernetes-status"], "\n", "")
	s.answer("kafka-quorum", `{"leader":"edge-01","voters":[{"name":"edge-01"}],"brokers":[{"name":"edge-01","up":true},{"name":"k-2"}]}`)
	s.answer("kafka-topics", `[{"name":"a","partitions":[{"leader":-1,"replicas":[1],"inSync":[]}]}]`)
	s.answer("ceph-status", `{"status":{"health":{"status":"HEALTH_WARN","checks":{"POOL_FULL":{"severity":"HEALTH_WARN","summary":{"message":"full"}}}}},"monitors":{"all":["edge-01","b","c"],"quorum":["edge-01"],"leader":""},
"osds":{"nodes":[{"name":"edge-01","type":"host"},{"name":"osd.3","type":"osd","status":"down","reweight":1}]}}`)
	s.answers["ceph-status"] = strings.ReplaceAll(s.answers["ceph-status"], "\n", "")
	for path, want := range map[string][]string{
		kubernetesPath: {"3 things are wrong", "critical: edge-01 not ready KubeletNotReady spore health configs --all --node edge-01 spore logs configs edge-01 kubelet",
			"cluster pods n/p; reboot is not well: Unschedulable spore logs configs --since 1h --pod 'n/p; reboot'", "pressed x;reboot: DiskPressure"},
		kafkaPath: {"it is not known how it is now: kafka-lag fails spore kafka lag configs", "k-2: the broker is down",
			"1 partition without a leader, which nobody reads or writes; the first topic is a start the brokers"},
		cephPath: {"cluster POOL_FULL full spore ceph status configs", "edge-01 osd.3 down, in, 0 % full spore disks configs --node edge-01"},
		quorumsPath: {"critical: cluster Ceph's monitors 1 of 3 serve; nobody leads; a majority is 2, so nothing is written spore ceph status configs read docs/repair.md#a-monitor-is-lost",
			"cluster etcd it is not known how it is now: etcd-members fails"},
		messagingPath: {"1 thing is wrong", "edge-01 MQTT mosquitto does not answer the node's collector"},
	} {
		text := strings.NewReplacer("✕ ", "", "! ", "").Replace(strings.Join(strings.Fields(s.show(t, path)), " "))
		for _, w := range want {
			require.Contains(t, text, w)
		}
		require.NotContains(t, text, "Nothing is wrong")
		require.NotContains(t, text, "--node x;reboot")
	}
	s.answer("kubernetes-status", `{"nodes":[{"name":"edge-01","ready":"True"}]}`)
	require.Contains(t, s.show(t, kubernetesPath), "Nothing is wrong.")
}

func TestANodeThatDoesNotAnswerIsOneThing(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02")
	p.says("edge-01", func(a *answer) { a.err = errors.New("no answer: connection refused") })
	for _, node := range []string{"edge-01", "edge-02"} {
		p.alerts = append(p.alerts, machine.Alert{Labels: map[string]string{machine.AlertName: metrics.NodeSilent, machine.AlertNode: node, machine.Severity: "critical"},
			State: machine.Fires, Since: p.time().Add(-10 * time.Minute), Summary: node + " is silent"})
	}
	p.round()
	_, text := p.page(t, "/")
	require.Contains(t, text, "2 things are wrong")
	require.Contains(t, text, "edge-01 silent since 2026-11-26 02:50 UTC, 10 min it does not answer: connection refused see whether")
	require.Contains(t, text, "edge-02 is silent", "this page has an answer of it")
	require.NotContains(t, text, "edge-01 is silent")
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, "edge-01 is silent")
}

func TestQuorumsOfWhichNoneAnswersStayAsTheyWere(t *testing.T) {
	s := newServing(t, master, monitor)
	s.answer("etcd-members", `[{"name":"m-1","started":true,"leader":true}]`)
	s.answer("ceph-status", `{"monitors":{"all":["s-1"],"quorum":["s-1"],"leader":"s-1"}}`)
	require.Contains(t, s.show(t, quorumsPath), "Nothing is wrong.")
	s.err = errors.New("edge-01: no answer in time")
	text := s.show(t, quorumsPath)
	require.True(t, s.isGrey(t, quorumsPath))
	require.Contains(t, text, "It is not known how it is now: etcd: edge-01: no answer in time")
	require.Contains(t, text, "m-1 leads")
}
