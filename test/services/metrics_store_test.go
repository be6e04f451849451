//go:build e2e

package services

import (
	"bytes"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/render"
	verbmetrics "spore/agent/verbs/metrics"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/services/metrics"
	"spore/services/rendering"
	"spore/test/kubecluster"
	"spore/test/testca"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// metricsStore is VictoriaMetrics of payloads/ with the arguments of its unit and the configuration that a node
// renders.
type metricsStore struct {
	t       *testing.T
	args    []string
	data    string
	cmd     *exec.Cmd
	log     bytes.Buffer
	at      verbmetrics.Store
	machine *node.Machine
	cluster *facts.Cluster
}

// newMetricsStore makes the store of observer-01, whose nodes listen at these ports of loopback. It also asks jobs of
// the plant.
func newMetricsStore(t *testing.T, ca *testca.CA, ports map[string]int, jobs []metrics.Job) *metricsStore {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kubecluster.Programs(t.Context(), "../..", dir, "victoria-metrics"))
	shared, self, hosts := example(t, "observed", "observer-01")
	settings := metrics.Of(shared.Services)
	settings.Interval, settings.Scrape = 5, jobs

	certificate, key, err := ca.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "metrics of observer-01", Organization: []string{"spore:scraper"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	require.NoError(t, err)
	secrets := map[string][]byte{
		metrics.PasswordEntry: []byte("swordfish"), metrics.ScraperCertificate: certificate, metrics.ScraperKey: key,
	}
	at := func(ref string) string { return filepath.Join(dir, "secret_"+ref) }
	for ref, data := range secrets {
		require.NoError(t, os.WriteFile(at(ref), data, 0o600))
	}
	files, err := render.Render(metrics.Program, rendering.Input{
		Cluster: shared, Node: self, Hosts: bytes.NewReader(hosts), Dir: dir, Addresses: []netip.Addr{netip.MustParseAddr("10.79.0.21")},
		Secret: func(ref string) ([]byte, error) { return secrets[ref], nil }, SecretPath: at,
		Authority: func(string) ([]byte, error) { return ca.PEM(), nil },
	})
	require.NoError(t, err)
	list := files["scrape.yaml"]
	for name, port := range ports {
		// Each of these nodes is on loopback here, where its certificate has that name, too.
		list.Data = bytes.ReplaceAll(list.Data, []byte(name+".observed.example:8643"), fmt.Appendf(nil, "localhost:%d", port))
	}
	files["scrape.yaml"] = list
	require.NoError(t, render.Write(dir, files))

	port := freePort(t)
	s := &metricsStore{t: t, cluster: shared, machine: node.New("test", paths.Root(t.TempDir()))}
	s.at = verbmetrics.Store{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	secret := s.machine.Root.At(filepath.Join(paths.Secrets, metrics.Program, metrics.PasswordEntry))
	require.NoError(t, os.MkdirAll(filepath.Dir(secret), 0o700))
	require.NoError(t, os.WriteFile(secret, secrets[metrics.PasswordEntry], 0o600))
	s.data = filepath.Join(dir, "state")
	arguments := argumentsOf(t, "victoria-metrics.service", strings.NewReplacer(
		"${VICTORIA_METRICS_DATA}", s.data, "/run/victoria-metrics", dir, "%d", dir,
		"127.0.0.1:8428", s.at.Address, "${VICTORIA_METRICS_RETENTION}", settings.Kept(),
		"/usr/bin/victoria-metrics", filepath.Join(dir, "usr/bin/victoria-metrics"),
	))
	s.args = arguments[slices.Index(arguments, "--")+1:] // What is before it has a test of its own.
	t.Cleanup(s.kill)
	return s
}

// argumentsOf are those that a unit of ours gives its program.
func argumentsOf(t *testing.T, unit string, replace *strings.Replacer) []string {
	t.Helper()
	text, err := os.ReadFile("../../units/" + unit)
	require.NoError(t, err)
	_, command, found := strings.Cut(strings.ReplaceAll(string(text), "\\\n", " "), "\nExecStart=")
	require.True(t, found)
	command, _, _ = strings.Cut(command, "\n")
	return strings.Fields(replace.Replace(command))[1:]
}

func (s *metricsStore) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool { _, err := s.query(map[string]string{"query": "vector(1)"}); return err == nil },
		30*time.Second, 50*time.Millisecond, "the store does not answer: %s", s.log.String())
}

func (s *metricsStore) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // an error means that it has ended
	_ = s.cmd.Wait()         // always "killed"
	s.cmd = nil
	if s.t.Failed() {
		s.t.Log(s.log.String())
	}
}

// query asks as the verb of the node's API does.
func (s *metricsStore) query(arguments map[string]string) ([]machine.Series, error) {
	s.t.Helper()
	events, _, err := verbstest.Do(s.t, s.machine, s.cluster, &facts.Node{Name: "observer-01"}, s.at.Query, nodeapi.Order{Arguments: arguments})
	var all []machine.Series
	for _, e := range events {
		var part []machine.Series
		require.NoError(s.t, json.Unmarshal(e.Result, &part))
		all = append(all, part...)
	}
	return all, err
}

// value is what a query of one series has now, or "".
func (s *metricsStore) value(query string) string {
	s.t.Helper()
	all, err := s.query(map[string]string{"query": query})
	require.NoError(s.t, err)
	if len(all) != 1 {
		return ""
	}
	return all[0].Samples[0].Value
}

func (s *metricsStore) becomes(query, want string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.value(query) == want }, time.Minute, 200*time.Millisecond, "%s is %s", query, want)
}

// scraped serves metrics as a node does, to whom a scraper's certificate has.
func scraped(t *testing.T, ca *testca.CA, answer func() string) (port int) {
	t.Helper()
	certificate, key, err := ca.Server("localhost")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != nodeapi.MetricsPath || r.TLS.PeerCertificates[0].Subject.Organization[0] != string(nodeapi.Scraper) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, answer())
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// plain serves metrics without TLS, and returns its address.
func plain(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// The store of examples/observed: it asks nodes by their certificates, keeps what they say under the names by which
// people call them, lets nobody in without its password, and has after a kill what it had some seconds before.
func TestTheStoreOfMetrics(t *testing.T) {
	ca, err := testca.New("agent")
	require.NoError(t, err)
	var count atomic.Int64
	node := scraped(t, ca, func() string {
		return fmt.Sprintf("# TYPE marks_total counter\nmarks_total{instance=\"another\",line=\"1\"} %d\n", count.Add(1))
	})
	unknown, err := testca.New("another authority")
	require.NoError(t, err)
	stranger := scraped(t, unknown, func() string { return "marks_total 1\n" })
	line := "filler{n=\"%d\"} 1\n"
	s := newMetricsStore(t, ca, map[string]int{"edge-01": node, "observer-01": stranger}, []metrics.Job{
		{Name: "press", Path: "/metrics", Targets: []string{plain(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "press_force_newtons{name=\"a\\\"b\\\\c\\n\"} 12.5\n")
		})}},
		{Name: "many", Series: 100, Targets: []string{plain(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 101 {
				fmt.Fprintf(w, line, i)
			}
		})}},
		{Name: "large", Series: 100_000, Targets: []string{plain(t, func(w http.ResponseWriter, r *http.Request) {
			comment := []byte("# " + strings.Repeat("x", 1<<20) + "\n")
			for range 100 {
				if _, err := w.Write(comment); err != nil {
					return
				}
			}
		})}},
		{Name: "endless", Targets: []string{plain(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, "x 1\n")
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Second):
				}
			}
		})}},
		{Name: "nonsense", Targets: []string{plain(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\x00\xff{{{\n") })}},
		{Name: "elsewhere", Targets: []string{plain(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) })}},
	})
	s.start()

	t.Run("nobody is let in without its password", func(t *testing.T) {
		for _, path := range []string{"/api/v1/query?query=up", "/api/v1/import/prometheus", "/metrics", "/vmui/", "/api/v1/admin/tsdb/delete_series?match[]=up", "/flags", "/-/reload", "/snapshot/create"} {
			r, err := http.Post("http://"+s.at.Address+path, "text/plain", strings.NewReader("planted 1\n"))
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			require.Equal(t, http.StatusUnauthorized, r.StatusCode, path)
		}
	})
	t.Run("nodes are asked by their certificates, and called by their names", func(t *testing.T) {
		s.becomes(`up{job="node",instance="edge-01"}`, "1")
		s.becomes(`count(marks_total{job="node",instance="edge-01",exported_instance="another",line="1"})`, "1")
		s.becomes(`up{job="node",instance="observer-01"}`, "0")
		require.Empty(t, s.value(`marks_total{instance="observer-01"}`), "a server of another authority")
	})
	t.Run("what the plant adds is there, and a bad one costs itself alone", func(t *testing.T) {
		s.becomes(`press_force_newtons{job="press"}`, "12.5")
		for _, job := range []string{"many", "large", "endless", "elsewhere"} {
			s.becomes(`up{job="`+job+`"}`, "0")
		}
		require.Empty(t, s.value(`count({job=~"many|large|endless|elsewhere",__name__=~"filler|x"})`))
		s.becomes(`scrape_samples_scraped{job="nonsense"}`, "0")
	})
	t.Run("a query that is none is refused in the store's words", func(t *testing.T) {
		_, err := s.query(map[string]string{"query": "sum("})
		require.ErrorContains(t, err, "the store says: ")
	})
	t.Run("after a kill it has what it had fifteen seconds before", func(t *testing.T) {
		s.becomes(`max_over_time(marks_total[1m]) > bool 1`, "1")
		// Samples are written to the disk 5 s after they were taken together (-inmemoryDataFlushInterval).
		before := time.Now().Add(-15 * time.Second).Unix()
		count := func() string { return s.value(fmt.Sprintf("count_over_time(marks_total[1h] @ %d)", before)) }
		had := count()
		require.NotEmpty(t, had)
		s.kill()
		s.start()
		require.Equal(t, had, count())
		s.becomes(`up{job="node",instance="edge-01"}`, "1")
	})
	t.Run("it ends when it is told", func(t *testing.T) {
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		ended := make(chan error, 1)
		go func() { ended <- s.cmd.Wait() }()
		select {
		case err := <-ended:
			require.NoError(t, err, s.log.String())
			s.cmd = nil
		case <-time.After(30 * time.Second):
			t.Fatal("it goes on")
		}
	})
}
