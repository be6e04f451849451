//go:build e2e

package services

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	alertsbridge "spore/agent/alerts/serve"
	"spore/agent/render"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/metrics"
	"spore/services/metrics/bridge"
	"spore/services/rendering"
	"spore/test/testca"
)

// heard is what somebody was told, in its order.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *heard) count(part string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, l := range h.lines {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

func (h *heard) hears(t *testing.T, part string) {
	t.Helper()
	require.Eventually(t, func() bool { return h.count(part) > 0 }, 40*time.Second, 50*time.Millisecond, "nobody says %s", part)
}

// hook is an HTTP server that takes alerts or heartbeats.
func hook(t *testing.T) (*heard, string) {
	t.Helper()
	h := &heard{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		var m struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if json.Unmarshal(body, &m) == nil && len(m.Alerts) > 0 {
			for _, a := range m.Alerts {
				h.add(a.Status + " " + a.Labels["alertname"] + " " + a.Labels["instance"] + " " + a.Labels["cluster"])
			}
			return
		}
		h.add(string(body))
	}))
	t.Cleanup(s.Close)
	return h, s.URL
}

// syslogServer takes lines over TCP.
func syslogServer(t *testing.T) (*heard, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	h := &heard{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(c)
			for {
				length, err := r.ReadString(' ')
				if err != nil {
					break
				}
				n, _ := strconv.Atoi(strings.TrimSpace(length))
				line := make([]byte, n)
				if _, err := io.ReadFull(r, line); err != nil {
					break
				}
				h.add(string(line))
			}
			c.Close()
		}
	}()
	return h, l.Addr().String()
}

// alerting is what one node of the role runs.
type alerting struct {
	t       *testing.T
	cluster *facts.Cluster
	self    *facts.Node
	hosts   []byte
	secrets map[string][]byte
	ca      *testca.CA
	// store, manager, bridge and evaluator are where they listen; peers is where Alertmanager waits for others.
	store, manager, bridge, evaluator string
	peers                             map[string]string
	// environment are variables of Alertmanager.
	environment []string
}

// newAlerting is a node of examples/observed with these settings.
func newAlerting(t *testing.T, node string, settings *metrics.Alerts, ca *testca.CA) *alerting {
	t.Helper()
	shared, self, hosts := example(t, "observed", "observer-01")
	settings.Rules = metrics.AlertsOf(shared.Services).Rules
	metrics.Of(shared.Services).Alerts = settings
	self.Name = node
	certificate, key, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: node}, DNSNames: []string{node + ".observed.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	require.NoError(t, err)
	at := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t))) }
	return &alerting{
		t: t, cluster: shared, self: self, hosts: hosts, ca: ca, store: at(), manager: at(), bridge: at(), evaluator: at(),
		secrets: map[string][]byte{
			metrics.PasswordEntry: []byte("swordfish"), metrics.AlertsPassword: []byte("trout\n"), "alerts-mqtt": []byte("sensor password\n"),
			metrics.PeersCertificate: certificate, metrics.PeersKey: key,
		},
	}
}

// files renders a program's files into a folder, with the ports of this node.
func (a *alerting) files(program string, faster ...string) string {
	a.t.Helper()
	dir := a.t.TempDir()
	at := func(ref string) string { return filepath.Join(dir, "secret_"+ref) }
	for ref, data := range a.secrets {
		require.NoError(a.t, os.WriteFile(at(ref), data, 0o600))
	}
	files, err := render.Render(program, rendering.Input{
		Cluster: a.cluster, Node: a.self, Hosts: bytes.NewReader(a.hosts), Dir: dir, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		Secret: func(ref string) ([]byte, error) { return a.secrets[ref], nil }, SecretPath: at,
		Authority: func(string) ([]byte, error) { return a.ca.PEM(), nil },
	})
	require.NoError(a.t, err)
	pairs := append([]string{"127.0.0.1:9095", a.bridge}, faster...)
	for name, at := range a.peers {
		pairs = append(pairs, name, at)
	}
	for name, f := range files {
		f.Data = []byte(strings.NewReplacer(pairs...).Replace(string(f.Data)))
		files[name] = f
	}
	require.NoError(a.t, render.Write(dir, files))
	return dir
}

// run runs a program until the test ends, or until it is killed by what is returned.
func (a *alerting) run(args ...string) (pid int, kill func()) {
	a.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(a.t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		_ = cmd.Wait()         // always "killed"
		if a.t.Failed() {
			a.t.Logf("%s: %s", args[0], log.String())
		}
	})
	a.t.Cleanup(kill)
	return cmd.Process.Pid, kill
}

func (a *alerting) ports() []string {
	return []string{"127.0.0.1:8428", a.store, "127.0.0.1:9093", a.manager, "127.0.0.1:8880", a.evaluator}
}

// runManager runs Alertmanager of the image with the arguments of its unit. It looks at groups each second.
func (a *alerting) runManager(more ...string) (pid int) {
	a.t.Helper()
	dir := a.files(metrics.Manager, "group_interval: 60s", "group_interval: 1s", "group_interval: 30s", "group_interval: 1s", "repeat_interval: 50s", "repeat_interval: 1s")
	environment, err := os.ReadFile(filepath.Join(dir, "arguments"))
	require.NoError(a.t, err)
	words := strings.TrimSpace(strings.TrimPrefix(string(environment), "ARGUMENTS="))
	args := argumentsOf(a.t, metrics.ManagerUnit, strings.NewReplacer(append(a.ports(),
		"/run/alertmanager", dir, "/var/lib/alertmanager", filepath.Join(dir, "state"), "$ARGUMENTS", words)...))
	pid, _ = a.run(slices.Concat([]string{"env"}, a.environment, managerOfImage(a.t), args, more)...)
	require.Eventually(a.t, func() bool {
		code, _ := a.ask(a.manager, "/api/v2/status", "")
		return code == http.StatusOK
	}, 20*time.Second, 50*time.Millisecond, "Alertmanager does not answer")
	return pid
}

// managerOfImage is how Alertmanager of the image is called. It reads its templates from /usr/share: it sees that of
// the image there.
func managerOfImage(t *testing.T) []string {
	t.Helper()
	root, program := programOfImage(t, "/usr/bin/prometheus-alertmanager")
	inside := []string{"unshare", "--mount"}
	if os.Getuid() != 0 {
		inside = append(inside, "--map-root-user")
	}
	return append(inside, "sh", "-c", `mount --bind "$0" /usr/share && exec "$@"`, root.At("/usr/share"), program)
}

// ask asks a program of the node with the password of the role. With a text, it posts that.
func (a *alerting) ask(at, path, text string) (int, string) {
	a.t.Helper()
	method := http.MethodGet
	if text != "" {
		method = http.MethodPost
	}
	q, err := http.NewRequest(method, "http://"+at+path, strings.NewReader(text))
	require.NoError(a.t, err)
	q.Header.Set("Content-Type", "application/json")
	q.SetBasicAuth(metrics.User, "trout")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(a.t, err)
	return r.StatusCode, string(body)
}

// runBridge runs the bridge as its program does.
func (a *alerting) runBridge() {
	a.t.Helper()
	data, err := os.ReadFile(filepath.Join(a.files(metrics.Bridge), bridge.File))
	require.NoError(a.t, err)
	c, err := bridge.Parse(data)
	require.NoError(a.t, err)
	l, err := net.Listen("tcp", c.Listen)
	require.NoError(a.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	said := &heard{}
	go func() { ended <- alertsbridge.New(c, time.Now, said.add).Serve(ctx, l) }()
	a.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil || a.t.Failed() {
			a.t.Logf("the bridge: %v %s", err, said.all())
		}
	})
}

// A node of the role alerts from the store to people: a value crosses a threshold of a rule of the plant, and a
// webhook, a broker and a syslog server are told, once that it does and once that it does no more; while rules are
// evaluated, a heartbeat goes out.
func TestPeopleAreToldOfAlerts(t *testing.T) {
	ca, err := testca.New("test")
	require.NoError(t, err)
	var celsius atomic.Int64
	celsius.Store(60)
	store := newMetricsStore(t, ca, nil, []metrics.Job{{Name: "press", Path: "/metrics", Targets: []string{plain(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "press_oil_celsius{name=\"a\\\"]\\n#/+\"} %d\n", celsius.Load())
	})}}})
	store.args = append(store.args, "-search.latencyOffset=1s", "-search.disableCache")
	store.start()

	broker := newBroker(t, brokerKinds[0])
	broker.start()
	people, webhook := hook(t)
	beats, watch := hook(t)
	log, syslog := syslogServer(t)
	a := newAlerting(t, "observer-01", &metrics.Alerts{
		Wait: 1,
		Receivers: []metrics.Receiver{
			{Name: "shift", Webhook: &metrics.Endpoint{URL: webhook}},
			{Name: "plc", MQTT: &metrics.MQTT{Address: broker.address(), Topic: "sensors/alerts", User: "sensor", Password: spec.SecretRef{SecretRef: "alerts-mqtt"}, CA: string(broker.ca.PEM())}},
			{Name: "log", Syslog: &metrics.Syslog{Address: syslog, Transport: "tcp"}},
		},
		Heartbeat: &metrics.Heartbeat{HTTP: &metrics.Endpoint{URL: watch}},
	}, ca)
	a.store = store.at.Address
	subscriber, err := broker.dial("operator", nil)
	require.NoError(t, err)
	defer subscriber.Close()
	require.NoError(t, subscriber.Subscribe("sensors/#"))
	a.runBridge()
	a.runManager()
	a.runEvaluator(filepath.Dir(filepath.Dir(filepath.Dir(store.args[0]))))

	t.Run("the programs of the role answer nobody without its password", func(t *testing.T) {
		for _, url := range []string{
			a.manager + "/api/v2/alerts", a.manager + "/api/v2/silences", a.manager + "/-/reload", a.manager + "/metrics", a.manager + "/debug/pprof/",
			a.evaluator + "/api/v1/rules", a.evaluator + "/-/reload", a.evaluator + "/flags",
			a.bridge + "/receivers/shift",
		} {
			r, err := http.Post("http://"+url, "application/json", strings.NewReader("[]"))
			require.NoError(t, err)
			r.Body.Close()
			require.Equal(t, http.StatusUnauthorized, r.StatusCode, url)
		}
	})
	instance := strings.TrimPrefix(metrics.Of(store.cluster.Services).Scrape[0].Targets[0], "http://")
	topic := "sensors/alerts/" + strings.ReplaceAll(instance, ":", "_") + "/PressTooHot"
	t.Run("heartbeats go out while nothing is wrong", func(t *testing.T) {
		beats.hears(t, `"cluster":"observed","node":"observer-01"`)
		require.Zero(t, people.count("PressTooHot"))
	})
	t.Run("a value over the threshold", func(t *testing.T) {
		celsius.Store(95)
		people.hears(t, "firing PressTooHot "+instance+" observed")
		log.hears(t, `status="firing" name="PressTooHot" severity="warning" instance="`+instance+`" cluster="observed"`)
		m, err := subscriber.Await(topic, 20*time.Second)
		require.NoError(t, err)
		require.Contains(t, m.Payload, `"status":"firing","name":"PressTooHot","severity":"warning"`)
		require.Contains(t, m.Payload, `"summary":"The oil of `+instance+` is at 95 °C"`)
		require.Contains(t, m.Payload, `"name":"a\"] #/+"`, "a label that is hostile")
		require.Contains(t, log.all(), "<28>1 ")
	})
	t.Run("and under it again", func(t *testing.T) {
		celsius.Store(60)
		people.hears(t, "resolved PressTooHot "+instance)
		log.hears(t, `status="resolved" name="PressTooHot"`)
		require.Eventually(t, func() bool {
			all := subscriber.Messages(topic)
			return strings.Contains(all[len(all)-1].Payload, `"status":"resolved"`)
		}, 20*time.Second, 50*time.Millisecond)
		require.Equal(t, 1, people.count("firing PressTooHot"), people.all())
	})
	t.Run("no heartbeat without the store", func(t *testing.T) {
		store.kill()
		require.Eventually(t, func() bool {
			before := beats.count("observer-01")
			time.Sleep(3 * time.Second)
			return beats.count("observer-01") == before
		}, 30*time.Second, time.Millisecond)
	})
	require.Empty(t, people.count("Watchdog"), "it is for the heartbeat alone")
}

// runEvaluator runs vmalert of payloads/ with the arguments of its unit. It evaluates each second what was a second
// ago, and waits for seconds where the rules wait for minutes.
func (a *alerting) runEvaluator(root string, more ...string) (pid int, kill func()) {
	a.t.Helper()
	dir := a.files(metrics.Evaluator, "for: 2m", "for: 2s")
	for _, file := range []string{"spore-watchdog.yaml", "spore-alerts.yaml"} {
		at := filepath.Join(dir, "rules", file)
		text, err := os.ReadFile(at)
		require.NoError(a.t, err)
		faster := strings.NewReplacer("interval: 30s", "interval: 1s", "for: 5m", "for: 5s", "for: 1m", "for: 1s")
		require.NoError(a.t, os.WriteFile(at, []byte(faster.Replace(string(text))), 0o600))
	}
	args := argumentsOf(a.t, metrics.EvaluatorUnit, strings.NewReplacer(append(a.ports(),
		"/run/vmalert", dir, "%d", dir, "${VMALERT_EXTERNAL_LABEL}", "cluster="+a.cluster.Name,
		"-evaluationInterval=30s", "-evaluationInterval=1s", "-rule.evalDelay=30s", "-rule.evalDelay=1s", "-group.maxStartDelay=10s", "-group.maxStartDelay=1s")...))
	pid, kill = a.run(slices.Concat([]string{filepath.Join(root, "usr/bin/vmalert")}, args, more)...)
	require.Eventually(a.t, func() bool {
		code, _ := a.ask(a.evaluator, "/api/v1/rules", "")
		return code == http.StatusOK
	}, 20*time.Second, 50*time.Millisecond, "vmalert does not take the rules of the image")
	return pid, kill
}

// Two nodes with the role know by gossip what the other one has sent, and talk to nobody else.
func TestTwoNodesTellOnce(t *testing.T) {
	ca, err := testca.New("alerts")
	require.NoError(t, err)
	people, webhook := hook(t)
	settings := func() *metrics.Alerts {
		return &metrics.Alerts{Wait: 1, Receivers: []metrics.Receiver{{Name: "shift", Webhook: &metrics.Endpoint{URL: webhook}}}}
	}
	names := []string{"edge-01", "observer-01"}
	ports := map[string]string{}
	for _, name := range names {
		ports[name] = net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	}
	var nodes []*alerting
	for i, name := range names {
		a := newAlerting(t, name, settings(), ca)
		a.cluster.Members[metrics.AlertsRole] = names
		a.peers = map[string]string{
			"127.0.0.1:9096": ports[name], names[1-i] + ".observed.example:9096": ports[names[1-i]],
		}
		a.runManager("--cluster.peer-timeout=3s", "--cluster.reconnect-interval=1s", "--cluster.settle-timeout=4s")
		nodes = append(nodes, a)
	}
	for _, a := range nodes {
		require.Eventually(t, func() bool {
			_, status := a.ask(a.manager, "/api/v2/status", "")
			var s struct {
				Cluster struct {
					Status string
					Peers  []any
				}
			}
			return json.Unmarshal([]byte(status), &s) == nil && s.Cluster.Status == "ready" && len(s.Cluster.Peers) == 2
		}, 30*time.Second, 100*time.Millisecond)
	}
	t.Run("nobody talks to one without a certificate", func(t *testing.T) {
		other, err := testca.New("alerts")
		require.NoError(t, err)
		stranger, key, err := other.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "observer-01"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(stranger, key)
		require.NoError(t, err)
		for _, certificates := range [][]tls.Certificate{nil, {pair}} {
			c, err := tls.Dial("tcp", ports["edge-01"], &tls.Config{RootCAs: ca.Pool(), ServerName: "edge-01.observed.example", Certificates: certificates})
			if err == nil { // In TLS 1.3 the client hears of it when it reads.
				_, err = c.Read(make([]byte, 1))
				c.Close()
			}
			require.ErrorContains(t, err, "remote error: tls: ")
		}
	})
	t.Run("both have an alert, and one tells", func(t *testing.T) {
		for _, a := range nodes {
			code, body := a.ask(a.manager, "/api/v2/alerts", `[{"labels":{"alertname":"DiskFull","severity":"critical","instance":"edge-01","cluster":"observed"}}]`)
			require.Equal(t, http.StatusOK, code, body)
		}
		people.hears(t, "firing DiskFull edge-01")
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, people.count("firing DiskFull"), people.all())
	})
	t.Run("a silence of one is one of both", func(t *testing.T) {
		now := time.Now().UTC()
		code, body := nodes[0].ask(nodes[0].manager, "/api/v2/silences", fmt.Sprintf(
			`{"matchers":[{"name":"alertname","value":"Noise","isRegex":false}],"startsAt":%q,"endsAt":%q,"createdBy":"test","comment":"x"}`,
			now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
		require.Equal(t, http.StatusOK, code, body)
		require.Eventually(t, func() bool {
			_, body := nodes[1].ask(nodes[1].manager, "/api/v2/silences", "")
			return strings.Contains(body, "Noise")
		}, 10*time.Second, 50*time.Millisecond)
	})
	t.Run("what follows from a silent node is not told", func(t *testing.T) {
		for _, a := range nodes {
			code, body := a.ask(a.manager, "/api/v2/alerts", `[{"labels":{"alertname":"NodeSilent","severity":"critical","instance":"edge-02","cluster":"observed"}},
				{"labels":{"alertname":"Follows","severity":"critical","instance":"edge-02","cluster":"observed"}}]`)
			require.Equal(t, http.StatusOK, code, body)
		}
		people.hears(t, "firing NodeSilent edge-02")
		time.Sleep(2 * time.Second)
		require.Zero(t, people.count("Follows"))
	})
}
