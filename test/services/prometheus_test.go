//go:build e2e

package services

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/answers"
	"spore/agent/metrics/ask"
	"spore/agent/metrics/serve"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/pki"
)

// TestDebiansPrometheusScrapesANode has a Prometheus of Debian scrape a node's API with the certificate of a scraper,
// as docs/metrics.md says: the commands and the configuration are taken from there.
func TestDebiansPrometheusScrapesANode(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	require.NoError(t, err, "run make deps")
	m, c, tree := nodetest.BrokersWithKeys(t, "127.0.0.1")
	at := scrapedNode(t, m["kafka-1"])

	dir := t.TempDir()
	writeAccess(t, tree, c, filepath.Join(dir, "prometheus.access"))
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	_, commands, ok := strings.Cut(string(page), "-o prometheus.access\n")
	require.True(t, ok)
	commands, _, _ = strings.Cut(commands, "```")
	shell := exec.Command("sh", "-ec", commands)
	shell.Dir = dir
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)

	_, config, ok := strings.Cut(string(page), "```yaml\n")
	require.True(t, ok)
	config, _, _ = strings.Cut(config, "```")
	listed := `["10.78.0.11:8643", "10.78.0.12:8643", "10.78.0.13:8643"]`
	require.Contains(t, config, listed)
	config = strings.ReplaceAll(config, listed, fmt.Sprintf("[%q]", at))
	// The certificate of a node has no address of the loopback interface.
	config = strings.ReplaceAll(config, "ca_file: nodes.crt", "ca_file: nodes.crt\n      server_name: kafka-1")
	config = strings.ReplaceAll(config, "scrape_interval: 30s", "scrape_interval: 1s\n    scrape_timeout: 1s")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	own := l.Addr().String()
	require.NoError(t, l.Close())
	cmd := exec.Command(program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+own)
	cmd.Dir = dir
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	defer func() {
		if t.Failed() {
			if answer, err := http.Get("http://" + own + "/api/v1/targets"); err == nil {
				text, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				t.Logf("%s", text)
			}
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s", text)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	ask := func(query string) string {
		answer, err := http.Get("http://" + own + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		var got struct {
			Data struct {
				Result []struct{ Value []any }
			}
		}
		if json.Unmarshal(data, &got) != nil || len(got.Data.Result) == 0 {
			return ""
		}
		return fmt.Sprint(got.Data.Result[0].Value[1])
	}
	for query, want := range map[string]string{
		`up{job="spore"}`:                                               "1",
		`count(node_cpu_seconds_total) > bool 0`:                        "1",
		`spore_version_info{node="kafka-1"}`:                            "1",
		`spore_configuration_serial`:                                    "7",
		`count(spore_condition{condition="identity"})`:                  "1",
		`count(spore_certificate_end_timestamp_seconds{program="api"})`: "1",
		`spore_source_up{source="machine"}`:                             "1",
	} {
		require.Eventually(t, func() bool { return ask(query) == want }, 20*time.Second, 200*time.Millisecond, "%s is %q", query, want)
	}
}

// scrapedNode runs the API and the collector of a node until the test ends, and returns where it answers.
func scrapedNode(t *testing.T, m *node.Machine) string {
	t.Helper()
	root := string(m.Root)
	for _, dir := range []string{"proc", "sys"} {
		require.NoError(t, os.RemoveAll(filepath.Join(root, dir)))
		require.NoError(t, os.Symlink("/"+dir, filepath.Join(root, dir)))
	}
	line := `{"spore":1,"cluster":"plant","node":"kafka-1","matched":{"by":"choice","value":"kafka-1"},"roles":["kafka-broker"],` +
		`"configuration":{"rootHash":"aa","clusterHash":"bb","serial":7},"system":"running"}`
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(paths.Status)), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At(paths.Status), []byte(line), 0o600))
	socket, err := net.Listen("unix", m.Root.At(ask.Socket))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	collected := make(chan error, 1)
	go func() {
		collected <- serve.New(m.Root, time.Now, func(s string) { t.Log(s) }).Serve(ctx, socket, time.Hour)
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stop := nodetest.Serve(t, m, func(ctx context.Context, m *node.Machine) error { return answers.ServeOn(ctx, m, l) })
	t.Cleanup(func() {
		stop()
		cancel()
		require.NoError(t, <-collected)
	})
	return l.Addr().String()
}

// writeAccess writes what `spore access` does.
func writeAccess(t *testing.T, tree *pki.Tree, c *facts.Cluster, path string) {
	t.Helper()
	made, err := tree.Access(c, pki.NodeScraper, "prometheus", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	text, err := reach.Access{
		Certificate: made.Certificate, Key: string(made.Key), Authorities: string(made.Authority),
	}.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}
