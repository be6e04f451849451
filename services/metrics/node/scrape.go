// Package node is what nodes link of the service metrics: how the list of what VictoriaMetrics asks is rendered.
package node

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"spore/cluster/facts"
	"spore/services/metrics"
	"spore/services/rendering"
	"spore/services/service"
	"spore/wire/nodeapi"
)

// Renderings are the service's own, by program.
var Renderings = map[string]rendering.Func{
	metrics.Program: scrape, metrics.Evaluator: rules, metrics.Manager: manager, metrics.Bridge: toBridge,
}

// caFile is the authority of the nodes' API, beside the list.
const caFile = "agent.crt"

// What a node may answer: it has its own bounds, and these are for one that is not what it was.
const (
	maxNodeSeries = 20_000
	maxAnswer     = "16MiB"
)

// config is the file of -promscrape.config (VictoriaMetrics, sd_configs, scrape_configs).
type config struct {
	Global global `yaml:"global"`
	Jobs   []job  `yaml:"scrape_configs"`
}

type global struct {
	Interval string `yaml:"scrape_interval"`
	Timeout  string `yaml:"scrape_timeout"`
}

type job struct {
	Name    string   `yaml:"job_name"`
	Scheme  string   `yaml:"scheme,omitempty"`
	Path    string   `yaml:"metrics_path,omitempty"`
	Samples int      `yaml:"sample_limit"`
	Size    string   `yaml:"max_scrape_size"`
	TLS     *tls     `yaml:"tls_config,omitempty"`
	Static  []static `yaml:"static_configs"`
	// Honor is false: a target cannot say that it is another one. Its own labels of that name become exported_instance …
	Honor bool `yaml:"honor_labels"`
	// Redirects are none: they would lead the store's certificate elsewhere.
	Redirects bool `yaml:"follow_redirects"`
}

type tls struct {
	CA         string `yaml:"ca_file"`
	Cert       string `yaml:"cert_file"`
	Key        string `yaml:"key_file"`
	MinVersion string `yaml:"min_version"`
}

type static struct {
	Targets []string          `yaml:"targets"`
	Labels  map[string]string `yaml:"labels,omitempty"`
}

// scrape renders scrape.yaml: each node of the cluster, the store itself, and what the plant adds.
func scrape(in rendering.Input) (map[string]rendering.File, error) {
	s := metrics.Of(in.Cluster.Services)
	if s == nil {
		return nil, errors.New("the cluster has no metrics settings; add services/metrics.yaml")
	}
	for _, ref := range []string{metrics.PasswordEntry, metrics.ScraperCertificate, metrics.ScraperKey} {
		if _, err := in.Secret(ref); err != nil {
			return nil, fmt.Errorf("what the store asks nodes with: %w", err)
		}
	}
	authority, err := in.Authority(caFile)
	if err != nil {
		return nil, fmt.Errorf("the authority of the nodes: %w", err)
	}
	hosts, err := rendering.NewHostTable(in.Hosts, in.Cluster.Domain)
	if err != nil {
		return nil, err
	}
	every := s.Seconds()
	c := config{Global: global{Interval: seconds(every), Timeout: seconds(min(every, 10))}}
	c.Jobs = append(c.Jobs, job{
		Name: "node", Scheme: "https", Path: nodeapi.MetricsPath, Samples: maxNodeSeries, Size: maxAnswer,
		TLS: &tls{
			CA: filepath.Join(in.Dir, caFile), Cert: in.SecretPath(metrics.ScraperCertificate),
			Key: in.SecretPath(metrics.ScraperKey), MinVersion: "TLS13",
		},
		Static: nodes(in.Cluster, hosts),
	})
	for _, j := range s.Scrape {
		c.Jobs = append(c.Jobs, ofPlant(j))
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	return map[string]rendering.File{
		"scrape.yaml": {Data: append([]byte("# Rendered by spore-agent from cluster.yaml and services/metrics.yaml; made again at each start.\n"), data...), Mode: 0o600},
		caFile:        {Data: authority, Mode: 0o644},
	}, nil
}

func seconds(n int) string { return strconv.Itoa(n) + "s" }

// nodes are the nodes of the cluster by their full names, which the certificates of their APIs have. The label
// instance is the name by which people call the node.
func nodes(c *facts.Cluster, hosts *rendering.HostTable) []static {
	names := map[string]bool{}
	for _, members := range c.Members {
		for _, name := range members {
			names[name] = true
		}
	}
	var out []static
	for _, name := range slices.Sorted(maps.Keys(names)) {
		full := hosts.Canonical(rendering.Absolute(name, c.Domain), c.Domain)
		out = append(out, static{
			Targets: []string{net.JoinHostPort(strings.TrimSuffix(full, "."), strconv.Itoa(service.PortAPI))},
			Labels:  map[string]string{"instance": name},
		})
	}
	return out
}

// ofPlant is a job of services/metrics.yaml.
func ofPlant(j metrics.Job) job {
	return job{
		Name: j.Name, Scheme: j.Scheme, Path: j.Path, Samples: j.MostSeries(), Size: maxAnswer,
		Static: []static{{Targets: j.Targets}},
	}
}
