package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/metrics"
	"spore/services/rendering"
)

func input(s *metrics.Settings) rendering.Input {
	return rendering.Input{
		Cluster: &facts.Cluster{
			Name: "lab", Domain: "lab.internal", Nodes: 3, Services: spec.Services{s},
			Members: map[string][]string{"mqtt-broker": {"edge-01", "mqtt-01"}, "metrics-store": {"observer-01"}, "dns-server": {"edge-01"}},
		},
		Node:       &facts.Node{Name: "observer-01", FQDN: "observer-01.lab.internal"},
		Hosts:      strings.NewReader("10.79.0.11 edge-01.lab.internal edge-01\n10.79.0.21 watch.lab.internal watch observer-01\n"),
		Dir:        "/run/victoria-metrics",
		Secret:     func(string) ([]byte, error) { return []byte("x"), nil },
		SecretPath: func(ref string) string { return "/run/credentials/victoria-metrics.service/secret_" + ref },
		Authority:  func(name string) ([]byte, error) { return []byte("authority of " + name), nil },
	}
}

func TestEachNodeIsAskedByItsFullName(t *testing.T) {
	files, err := scrape(input(&metrics.Settings{Interval: 5, Scrape: []metrics.Job{
		{Name: "press", Targets: []string{"press-1.plant.example:9100", "[fd00::7]:9100"}, Path: "/probe", Scheme: "https", Series: 10},
	}}))
	require.NoError(t, err)
	require.Equal(t, "authority of agent.crt", string(files["agent.crt"].Data))
	require.Equal(t, `# Rendered by spore-agent from cluster.yaml and services/metrics.yaml; made again at each start.
global:
    scrape_interval: 5s
    scrape_timeout: 5s
scrape_configs:
    - job_name: node
      scheme: https
      metrics_path: /v1/metrics
      sample_limit: 20000
      max_scrape_size: 16MiB
      tls_config:
        ca_file: /run/victoria-metrics/agent.crt
        cert_file: /run/credentials/victoria-metrics.service/secret_metrics-scraper-certificate
        key_file: /run/credentials/victoria-metrics.service/secret_metrics-scraper-key
        min_version: TLS13
      static_configs:
        - targets:
            - edge-01.lab.internal:8643
          labels:
            instance: edge-01
        - targets:
            - mqtt-01.lab.internal:8643
          labels:
            instance: mqtt-01
        - targets:
            - watch.lab.internal:8643
          labels:
            instance: observer-01
      honor_labels: false
      follow_redirects: false
    - job_name: press
      scheme: https
      metrics_path: /probe
      sample_limit: 10
      max_scrape_size: 16MiB
      static_configs:
        - targets:
            - press-1.plant.example:9100
            - '[fd00::7]:9100'
      honor_labels: false
      follow_redirects: false
`, string(files["scrape.yaml"].Data))
}

func TestAStoreWithoutItsSecretsIsNotStarted(t *testing.T) {
	in := input(&metrics.Settings{})
	in.Secret = func(ref string) ([]byte, error) { return nil, errors.New("no entry " + ref) }
	_, err := scrape(in)
	require.EqualError(t, err, "what the store asks nodes with: no entry metrics-store-password")

	in = input(&metrics.Settings{})
	in.Authority = func(string) ([]byte, error) { return nil, errors.New("not there") }
	_, err = scrape(in)
	require.EqualError(t, err, "the authority of the nodes: not there")

	in = input(&metrics.Settings{})
	in.Cluster.Services = nil
	_, err = scrape(in)
	require.EqualError(t, err, "the cluster has no metrics settings; add services/metrics.yaml")
}
