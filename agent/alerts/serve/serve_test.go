package serve

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/alerts/notice"
	"spore/services/metrics/bridge"
)

// bridged is a bridge with the password swordfish, which reaches a syslog server over UDP.
func bridged(t *testing.T, change func(*bridge.Config)) (*Bridge, net.PacketConn, *strings.Builder) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("swordfish\n"), 0o600))
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	c := bridge.Config{PasswordFile: file, Cluster: "plant", Node: "observer-01", Receivers: map[string]bridge.Receiver{
		"log": {Syslog: &bridge.Syslog{Address: l.LocalAddr().String(), Transport: "udp"}},
	}}
	if change != nil {
		change(&c)
	}
	var log strings.Builder
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	return New(c, now, func(s string) { log.WriteString(s + "\n") }), l, &log
}

const firing = `{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"DiskFull","severity":"critical"},"annotations":{"summary":"full"}}]}`

func ask(b *Bridge, method, path, password, body string) int {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if password != "" {
		r.Header.Set("Authorization", "Bearer "+password)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w.Code
}

func TestAnAlertGoesToItsReceiver(t *testing.T) {
	b, l, _ := bridged(t, nil)
	require.Equal(t, http.StatusOK, ask(b, "POST", "/receivers/log", "swordfish", firing))
	line := make([]byte, 1000)
	n, _, err := l.ReadFrom(line)
	require.NoError(t, err)
	require.Contains(t, string(line[:n]), `<26>1 2026-01-02T03:04:05.000000Z observer-01 spore-alerts - alert [alert@32473 status="firing" name="DiskFull"`)
}

// TestTheCollectorIsToldOfMessages asks as the collector of the node does.
func TestTheCollectorIsToldOfMessages(t *testing.T) {
	b, _, _ := bridged(t, func(c *bridge.Config) {
		c.Receivers["gone"] = bridge.Receiver{Syslog: &bridge.Syslog{Address: "127.0.0.1:1", Transport: "tcp"}}
	})
	require.Equal(t, http.StatusUnauthorized, ask(b, "GET", "/metrics", "", ""))
	require.Equal(t, http.StatusNotFound, ask(b, "POST", "/metrics", "swordfish", firing))
	require.Equal(t, http.StatusOK, ask(b, "POST", "/receivers/log", "swordfish", firing))
	require.Equal(t, http.StatusBadGateway, ask(b, "POST", "/receivers/gone", "swordfish", firing))
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer swordfish")
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	require.Equal(t, `# TYPE spore_alerts_messages_total counter
spore_alerts_messages_total{receiver="heartbeat"} 0
spore_alerts_messages_total{receiver="gone"} 1
spore_alerts_messages_total{receiver="log"} 1
# TYPE spore_alerts_messages_failed_total counter
spore_alerts_messages_failed_total{receiver="heartbeat"} 0
spore_alerts_messages_failed_total{receiver="gone"} 1
spore_alerts_messages_failed_total{receiver="log"} 0
`, w.Body.String())
}

func TestWhoIsRefused(t *testing.T) {
	b, _, log := bridged(t, func(c *bridge.Config) {
		c.Receivers["gone"] = bridge.Receiver{Syslog: &bridge.Syslog{Address: "127.0.0.1:1", Transport: "tcp"}}
		c.Receivers["plc"] = bridge.Receiver{MQTT: &bridge.MQTT{Address: "127.0.0.1:1", Topic: "a", PasswordFile: "/nonexistent"}}
	})
	for name, tt := range map[string]struct {
		method, path, password, body string
		want                         int
		says                         string
	}{
		"without a password":    {"POST", "/receivers/log", "", firing, 401, "somebody asks without the password of Alertmanager"},
		"with another password": {"POST", "/receivers/log", "x", firing, 401, "somebody asks without"},
		"by GET":                {"GET", "/receivers/log", "swordfish", "", 405, `the method "GET" is not POST`},
		"an unknown receiver":   {"POST", "/receivers/x", "swordfish", firing, 404, `there is nothing at "/receivers/x"`},
		"an unknown place":      {"POST", "/x", "swordfish", firing, 404, `there is nothing at "/x"`},
		"nonsense":              {"POST", "/receivers/log", "swordfish", "{", 400, "the message is malformed"},
		"too much":              {"POST", "/receivers/log", "swordfish", strings.Repeat(" ", notice.MaxSize+1), 400, "read the message for /receivers/log: "},
		"nobody is there":       {"POST", "/receivers/gone", "swordfish", firing, 502, "tell gone: connect to the syslog server: "},
		"no password for MQTT":  {"POST", "/receivers/plc", "swordfish", firing, 502, "tell plc: read a secret: "},
	} {
		log.Reset()
		clear(b.said)
		require.Equal(t, tt.want, ask(b, tt.method, tt.path, tt.password, tt.body), name)
		require.Contains(t, log.String(), tt.says, name)
		require.NotContains(t, log.String(), "swordfish", name)
	}
}

func TestTheLogHasOneComplaintAMinuteOfEachReceiver(t *testing.T) {
	b, _, log := bridged(t, func(c *bridge.Config) {
		for _, name := range []string{"one", "two"} {
			c.Receivers[name] = bridge.Receiver{Syslog: &bridge.Syslog{Address: "127.0.0.1:1", Transport: "tcp"}}
		}
	})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.now = func() time.Time { return now }
	lines := func() int { return strings.Count(log.String(), "\n") }
	for i := range 3 {
		require.Equal(t, 502, ask(b, "POST", "/receivers/one", "swordfish", firing))
		require.Equal(t, 502, ask(b, "POST", "/receivers/two", "swordfish", firing))
		require.Equal(t, 404, ask(b, "POST", "/receivers/"+strings.Repeat("x", i+1), "swordfish", firing))
		require.Equal(t, 401, ask(b, "POST", "/receivers/one", "", firing))
	}
	require.Equal(t, 3, lines(), log.String())
	now = now.Add(time.Minute)
	require.Equal(t, 502, ask(b, "POST", "/receivers/two", "swordfish", firing))
	require.Equal(t, 4, lines())
	now = now.Add(-time.Hour)
	require.Equal(t, 502, ask(b, "POST", "/receivers/two", "swordfish", firing))
	require.Equal(t, 5, lines(), "the clock was set back")
}

func TestAReceiverThatHangsHoldsUpNoOther(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	beats := make(chan struct{}, 1)
	watch := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { beats <- struct{}{} }))
	t.Cleanup(watch.Close)
	b, _, _ := bridged(t, func(c *bridge.Config) {
		c.Receivers["hangs"] = bridge.Receiver{Syslog: &bridge.Syslog{Address: silent.Addr().String(), Transport: "tls"}}
		c.Heartbeat = &bridge.Heartbeat{HTTP: &bridge.HTTP{URL: watch.URL}}
	})
	ctx, over := context.WithCancel(t.Context())
	ended := make(chan struct{}, most)
	for range most {
		go func() {
			r := httptest.NewRequestWithContext(ctx, "POST", "/receivers/hangs", strings.NewReader(firing))
			r.Header.Set("Authorization", "Bearer swordfish")
			b.ServeHTTP(httptest.NewRecorder(), r)
			ended <- struct{}{}
		}()
	}
	for range most {
		c, err := silent.Accept() // It is asked, and never answers.
		require.NoError(t, err)
		defer c.Close()
	}
	require.Equal(t, 503, ask(b, "POST", "/receivers/hangs", "swordfish", firing))
	require.Equal(t, 200, ask(b, "POST", "/receivers/log", "swordfish", firing))
	watchdog := `{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"Watchdog"}}]}`
	require.Equal(t, 200, ask(b, "POST", "/heartbeat", "swordfish", watchdog))
	require.Len(t, beats, 1)
	over()
	for range most {
		<-ended
	}
}

func TestTheHeartbeatIsThatOfTheRuleThatAlwaysFires(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b beat
		_ = json.NewDecoder(r.Body).Decode(&b)
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+b.Node+" "+b.Time.String())
	}))
	defer s.Close()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "url"), []byte(s.URL+"/ping/c0ffee\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("t0ken"), 0o600))
	b, _, log := bridged(t, func(c *bridge.Config) {
		c.Heartbeat = &bridge.Heartbeat{HTTP: &bridge.HTTP{URLFile: filepath.Join(dir, "url"), TokenFile: filepath.Join(dir, "token")}}
	})
	watchdog := func(status string) string {
		return `{"version":"4","alerts":[{"status":"` + status + `","labels":{"alertname":"Watchdog"}}]}`
	}
	require.Equal(t, 200, ask(b, "POST", "/heartbeat", "swordfish", watchdog("firing")))
	require.Equal(t, []string{"POST /ping/c0ffee Bearer t0ken observer-01 2026-01-02 03:04:05 +0000 UTC"}, got)
	require.Equal(t, 200, ask(b, "POST", "/heartbeat", "swordfish", watchdog("resolved")), "the rules are evaluated no more")
	require.Equal(t, 200, ask(b, "POST", "/heartbeat", "swordfish", firing), "another rule")
	require.Len(t, got, 1)

	s.Close()
	require.Equal(t, 502, ask(b, "POST", "/heartbeat", "swordfish", watchdog("firing")))
	require.Contains(t, log.String(), "send the heartbeat: ask the HTTP server: ")
	require.NotContains(t, log.String(), "c0ffee", "who knows the URL may send")
}

func TestAHeartbeatGoesOutWhileTheBrokerHangs(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	t.Cleanup(watch.Close)
	b, _, _ := bridged(t, func(c *bridge.Config) {
		c.Heartbeat = &bridge.Heartbeat{
			HTTP: &bridge.HTTP{URL: watch.URL},
			MQTT: &bridge.MQTT{Address: silent.Addr().String(), Topic: "beat", PasswordFile: c.PasswordFile},
		}
	})
	before := time.Now()
	err = b.heartbeat(ctx, []notice.Alert{{Firing: true, Name: "Watchdog"}})
	require.ErrorContains(t, err, "send the heartbeat: connect to the broker: ")
	require.Less(t, time.Since(before), patience, "the beat, which ends this, came while the broker hung")
}

func TestAHeartbeatThatIsNotTaken(t *testing.T) {
	for code, want := range map[int]string{500: "the HTTP server answers 500", 302: "the HTTP server answers 302"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(code)
		}))
		require.ErrorContains(t, post(t.Context(), bridge.HTTP{URL: s.URL}, nil), want)
		s.Close()
	}
	require.EqualError(t, post(t.Context(), bridge.HTTP{URL: "http://a b/"}, nil), "the URL is malformed")
}

func TestALabelIsOneLevelOfATopic(t *testing.T) {
	for in, want := range map[string]string{
		"edge-01": "edge-01", "": "none", "a/b": "a_b", "#": "_", "+": "_", "$SYS": "_SYS", "a\nb\x00": "a_b_", "ü": "_",
		"10.0.0.1:9100": "10.0.0.1_9100", strings.Repeat("x", 100): strings.Repeat("x", 64),
	} {
		require.Equal(t, want, level(in))
	}
	b, _, _ := bridged(t, nil)
	m, err := b.message("plant/alerts", notice.Alert{Name: "../#", Instance: "+/x", Firing: true, Labels: map[string]string{"a": "b"}})
	require.NoError(t, err)
	require.Equal(t, "plant/alerts/__x/..__", m.Topic)
	require.NotContains(t, m.Topic, "#")
	require.JSONEq(t, `{"status":"firing","name":"../#","severity":"","instance":"+/x","cluster":"plant","summary":"",
		"since":"0001-01-01T00:00:00Z","fingerprint":"","labels":{"a":"b"}}`, string(m.Payload))
}

func TestLabelsThatAreTooLongAreLeftOut(t *testing.T) {
	b, _, _ := bridged(t, nil)
	labels := map[string]string{}
	for i := range 64 {
		labels[strings.Repeat("l", i+1)] = strings.Repeat("<", 2048)
	}
	m, err := b.message("t", notice.Alert{Name: "A", Labels: labels})
	require.NoError(t, err)
	require.Less(t, len(m.Payload), 1000)
}

func TestItEndsWhenItIsTold(t *testing.T) {
	b, _, _ := bridged(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx, l) }()
	stop()
	require.NoError(t, <-ended)
}
