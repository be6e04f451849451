package node

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"gopkg.in/yaml.v3"

	"spore/services/metrics"
	"spore/services/metrics/bridge"
	"spore/services/rendering"
)

// rendered begins the files.
const rendered = "# Rendered by spore-agent from services/metrics.yaml; made again at each start.\n"

// rules renders the files of rules as they are in the configuration.
func rules(in rendering.Input) (map[string]rendering.File, error) {
	a := metrics.AlertsOf(in.Cluster.Services)
	// vmalert does not start where no file fits its pattern.
	out := map[string]rendering.File{"rules/none.yaml": {Data: []byte("groups: []\n"), Mode: 0o600}}
	for _, ref := range []string{metrics.PasswordEntry, metrics.AlertsPassword} {
		if _, err := in.Secret(ref); err != nil {
			return nil, fmt.Errorf("what rules are evaluated with: %w", err)
		}
	}
	for _, r := range a.Rules {
		if r.Name != filepath.Base(r.Name) || !strings.HasSuffix(r.Name, ".yaml") || strings.HasPrefix(r.Name, ".") {
			return nil, fmt.Errorf("a file of rules has the name %q, which is none", r.Name)
		}
		out[filepath.Join("rules", r.Name)] = rendering.File{Data: []byte(r.Text), Mode: 0o600}
	}
	return out, nil
}

// What every Alertmanager has.
const (
	nobody    = "nobody"
	heartbeat = "heartbeat"
	peersCA   = metrics.PeersAuthority + ".crt"
)

// A manager's settings (Alertmanager, configuration).
type managerConfig struct {
	Global    map[string]string `yaml:"global"`
	Route     route             `yaml:"route"`
	Receivers []receiver        `yaml:"receivers"`
	Inhibit   []inhibit         `yaml:"inhibit_rules"`
	Templates []string          `yaml:"templates"`
}

type route struct {
	Receiver string   `yaml:"receiver"`
	Matchers []string `yaml:"matchers,omitempty"`
	GroupBy  []string `yaml:"group_by,omitempty"`
	Wait     string   `yaml:"group_wait,omitempty"`
	Interval string   `yaml:"group_interval,omitempty"`
	Repeat   string   `yaml:"repeat_interval,omitempty"`
	Continue bool     `yaml:"continue,omitempty"`
	Routes   []route  `yaml:"routes,omitempty"`
}

type receiver struct {
	Name     string    `yaml:"name"`
	Webhooks []webhook `yaml:"webhook_configs,omitempty"`
	Emails   []email   `yaml:"email_configs,omitempty"`
}

type webhook struct {
	Resolved bool        `yaml:"send_resolved"`
	URL      string      `yaml:"url,omitempty"`
	URLFile  string      `yaml:"url_file,omitempty"`
	Timeout  string      `yaml:"timeout"`
	Most     int         `yaml:"max_alerts"`
	HTTP     *httpConfig `yaml:"http_config"`
}

type httpConfig struct {
	Authorization *authorization `yaml:"authorization,omitempty"`
	Redirects     bool           `yaml:"follow_redirects"`
}

type authorization struct {
	File string `yaml:"credentials_file"`
}

type email struct {
	Resolved bool   `yaml:"send_resolved"`
	To       string `yaml:"to"`
	From     string `yaml:"from"`
	Server   string `yaml:"smarthost"`
	User     string `yaml:"auth_username,omitempty"`
	Password string `yaml:"auth_password_file,omitempty"`
	TLS      bool   `yaml:"require_tls"`
}

type inhibit struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string `yaml:"equal"`
}

// mostAlerts is how many of a group go out in one message; Alertmanager says how many more there are. The bridge, which
// makes a message of each, gets all that a rule may find (vmalert.service), and as many that are over.
const mostAlerts, mostBridged = 200, 1000

// silentNode is the rule after which whatever else one says of the node follows.
const silentNode = metrics.NodeSilent

// failingReceiver is the rule that somebody cannot be told: all others are, whatever they are told of else.
const failingReceiver = "ReceiverFails"

// manager renders alertmanager.yml, its own access, and, where there are two, by what they know each other.
func manager(in rendering.Input) (map[string]rendering.File, error) {
	if metrics.Of(in.Cluster.Services) == nil {
		return nil, errors.New("the cluster has no metrics settings; add services/metrics.yaml")
	}
	a := metrics.AlertsOf(in.Cluster.Services)
	password, err := in.Secret(metrics.AlertsPassword)
	if err != nil {
		return nil, fmt.Errorf("what Alertmanager is asked with: %w", err)
	}
	config, err := yaml.Marshal(managerOf(a, in.SecretPath))
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	// The password has 142 bits, so that nobody tries them all; a higher cost would slow down each question.
	hash, err := bcrypt.GenerateFromPassword([]byte(strings.TrimSpace(string(password))), bcrypt.MinCost)
	if err != nil {
		return nil, fmt.Errorf("hash the password of Alertmanager: %w", err)
	}
	web, err := yaml.Marshal(map[string]any{"basic_auth_users": map[string]string{metrics.User: string(hash)}})
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	files := map[string]rendering.File{
		"alertmanager.yml": {Data: append([]byte(rendered), config...), Mode: 0o600},
		"web.yml":          {Data: web, Mode: 0o600},
	}
	if err := peers(in, files); err != nil {
		return nil, err
	}
	return files, nil
}

// managerOf are the settings.
func managerOf(a *metrics.Alerts, secret func(string) string) managerConfig {
	c := managerConfig{
		Global: map[string]string{"resolve_timeout": "5m"},
		Route: route{
			Receiver: nobody, GroupBy: []string{"alertname", "cluster"}, Wait: seconds(a.WaitSeconds()),
			Interval: seconds(max(60, a.WaitSeconds())), Repeat: strconv.Itoa(a.RepeatMinutes()) + "m",
		},
		Receivers: []receiver{{Name: nobody}},
		Inhibit: []inhibit{
			{
				Source: []string{`alertname="` + silentNode + `"`}, Equal: []string{"instance"},
				Target: []string{`alertname!="` + silentNode + `"`, `instance!=""`},
			},
			{
				Source: []string{`severity="critical"`}, Equal: []string{"alertname", "instance"},
				Target: []string{`severity="warning"`},
			},
		},
		Templates: []string{},
	}
	watchdog := `alertname="` + metrics.Watchdog + `"`
	if a.Heartbeat != nil {
		c.Receivers = append(c.Receivers, bridged(heartbeat, bridge.HeartbeatPath, secret))
		// A group is looked at each 30 s, and sends again what it sent 50 s ago: each minute.
		c.Route.Routes = append(c.Route.Routes, route{
			Receiver: heartbeat, Matchers: []string{watchdog}, Wait: "1s", Interval: "30s", Repeat: "50s",
		})
	} else {
		c.Route.Routes = append(c.Route.Routes, route{Receiver: nobody, Matchers: []string{watchdog}})
	}
	for _, r := range a.Receivers {
		c.Receivers = append(c.Receivers, receiverOf(r, secret))
		c.Route.Routes = append(c.Route.Routes, route{
			Receiver: r.Name, Matchers: []string{`severity=~"` + strings.Join(r.Of(), "|") + `"`}, Continue: true,
		})
		if !slices.Contains(r.Of(), metrics.Severities[0]) {
			c.Route.Routes = append(c.Route.Routes, route{
				Receiver: r.Name, Matchers: []string{`alertname="` + failingReceiver + `"`}, Continue: true,
			})
		}
	}
	return c
}

// bridged is a receiver that the bridge reaches.
func bridged(name, path string, secret func(string) string) receiver {
	return receiver{Name: name, Webhooks: []webhook{{
		Resolved: true, Timeout: "20s", Most: mostBridged,
		URL:  "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(metrics.PortBridge)) + path,
		HTTP: &httpConfig{Authorization: &authorization{secret(metrics.AlertsPassword)}},
	}}}
}

func receiverOf(r metrics.Receiver, secret func(string) string) receiver {
	switch {
	case r.Bridged():
		return bridged(r.Name, bridge.ReceiverPath+r.Name, secret)
	case r.Webhook != nil:
		w := webhook{Resolved: true, Timeout: "20s", Most: mostAlerts, URL: r.Webhook.URL, HTTP: &httpConfig{}}
		if s := r.Webhook.SecretURL; s != nil {
			w.URLFile = secret(s.SecretRef)
		}
		if s := r.Webhook.Token; s != nil {
			w.HTTP.Authorization = &authorization{secret(s.SecretRef)}
		}
		return receiver{Name: r.Name, Webhooks: []webhook{w}}
	case r.Email != nil:
		e := email{Resolved: true, To: r.Email.To, From: r.Email.From, Server: r.Email.Server, User: r.Email.User, TLS: true}
		if s := r.Email.Password; s != nil {
			e.Password = secret(s.SecretRef)
		}
		return receiver{Name: r.Name, Emails: []email{e}}
	}
	return receiver{Name: r.Name}
}

// peers renders the arguments by which two Alertmanagers find each other, and by which certificates. One alone does not
// listen for others.
func peers(in rendering.Input, files map[string]rendering.File) error {
	var others []string
	for _, name := range in.Cluster.Members[metrics.AlertsRole] {
		if name != in.Node.Name {
			others = append(others, name)
		}
	}
	words := []string{"--cluster.listen-address="}
	if len(others) > 0 {
		hosts, err := rendering.NewHostTable(in.Hosts, in.Cluster.Domain)
		if err != nil {
			return err
		}
		if len(in.Addresses) == 0 {
			return errors.New("the node has no address yet, by which the other one reaches it")
		}
		authority, err := in.Authority(peersCA)
		if err != nil {
			return fmt.Errorf("the authority of Alertmanagers: %w", err)
		}
		own := net.JoinHostPort(in.Addresses[0].String(), strconv.Itoa(metrics.PortPeers))
		var full string
		words = []string{
			"--cluster.listen-address=" + own, "--cluster.advertise-address=" + own, "--cluster.label=" + in.Cluster.ID,
			"--cluster.tls-config=" + filepath.Join(in.Dir, "peers.yml"),
		}
		for _, name := range others {
			full = strings.TrimSuffix(hosts.Canonical(rendering.Absolute(name, in.Cluster.Domain), in.Cluster.Domain), ".")
			words = append(words, "--cluster.peer="+net.JoinHostPort(full, strconv.Itoa(metrics.PortPeers)))
		}
		if files["peers.yml"], err = peersTLS(in, full); err != nil {
			return err
		}
		files[peersCA] = rendering.File{Data: authority, Mode: 0o644}
	}
	slices.Sort(words)
	arguments, err := rendering.Arguments(words)
	files["arguments"] = arguments
	return err
}

// peersTLS has both ends of a connection show a certificate (Alertmanager, high availability, TLS). Alertmanager calls
// the other one by its address, which is in no certificate of a node that gets it by DHCP: the name is what counts.
func peersTLS(in rendering.Input, other string) (rendering.File, error) {
	ca := filepath.Join(in.Dir, peersCA)
	cert, key := in.SecretPath(metrics.PeersCertificate), in.SecretPath(metrics.PeersKey)
	for _, ref := range []string{metrics.PeersCertificate, metrics.PeersKey} {
		if _, err := in.Secret(ref); err != nil {
			return rendering.File{}, fmt.Errorf("what the other Alertmanager is shown: %w", err)
		}
	}
	data, err := yaml.Marshal(map[string]any{
		"tls_server_config": map[string]any{
			"cert_file": cert, "key_file": key, "client_ca_file": ca, "client_auth_type": "RequireAndVerifyClientCert",
			"min_version": "TLS13",
		},
		"tls_client_config": map[string]any{
			"cert_file": cert, "key_file": key, "ca_file": ca, "server_name": other, "min_version": "TLS13",
		},
	})
	return rendering.File{Data: data, Mode: 0o600}, err
}

// toBridge renders what the bridge is told.
func toBridge(in rendering.Input) (map[string]rendering.File, error) {
	a := metrics.AlertsOf(in.Cluster.Services)
	if _, err := in.Secret(metrics.AlertsPassword); err != nil {
		return nil, fmt.Errorf("what Alertmanager is known by: %w", err)
	}
	c := bridge.Config{
		Listen:       net.JoinHostPort("127.0.0.1", strconv.Itoa(metrics.PortBridge)),
		PasswordFile: in.SecretPath(metrics.AlertsPassword),
		Cluster:      in.Cluster.Name, Node: in.Node.Name, Receivers: map[string]bridge.Receiver{},
	}
	for _, r := range a.Receivers {
		if !r.Bridged() {
			continue
		}
		var to bridge.Receiver
		if r.Syslog != nil {
			to.Syslog = &bridge.Syslog{Address: r.Syslog.Address, Transport: r.Syslog.Way(), CA: r.Syslog.CA}
		}
		var err error
		if to.MQTT, err = topic(in, r.MQTT); err != nil {
			return nil, fmt.Errorf("receiver %s: %w", r.Name, err)
		}
		c.Receivers[r.Name] = to
	}
	if h := a.Heartbeat; h != nil {
		c.Heartbeat = &bridge.Heartbeat{}
		if h.HTTP != nil {
			to := &bridge.HTTP{URL: h.HTTP.URL}
			if s := h.HTTP.SecretURL; s != nil {
				to.URLFile = in.SecretPath(s.SecretRef)
			}
			if s := h.HTTP.Token; s != nil {
				to.TokenFile = in.SecretPath(s.SecretRef)
			}
			c.Heartbeat.HTTP = to
		}
		var err error
		if c.Heartbeat.MQTT, err = topic(in, h.MQTT); err != nil {
			return nil, fmt.Errorf("heartbeat: %w", err)
		}
	}
	file, err := rendering.JSON(c, 0o600)
	return map[string]rendering.File{bridge.File: file}, err
}

func topic(in rendering.Input, m *metrics.MQTT) (*bridge.MQTT, error) {
	if m == nil {
		return nil, nil
	}
	out := &bridge.MQTT{
		Address: m.Address, Topic: m.Topic, User: m.User, CA: m.CA, PasswordFile: in.SecretPath(m.Password.SecretRef),
	}
	if m.CA == metrics.ClusterCA {
		authority, err := in.Authority("mqtt.crt")
		if err != nil {
			return nil, fmt.Errorf("the authority of the brokers: %w", err)
		}
		out.CA = string(authority)
	}
	return out, nil
}
