package metrics

import (
	"slices"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
	"spore/wire/machine"
)

// AlertsRole is what a node is that evaluates rules and tells people. It has a store of its own (Role).
const AlertsRole = "alerts"

// What the role alerts runs: what evaluates rules, what groups, silences and sends, and what reaches MQTT and syslog.
const (
	Evaluator, EvaluatorUnit = "vmalert", "vmalert.service"
	Manager, ManagerUnit     = "alertmanager", "alertmanager.service"
	Bridge, BridgeUnit       = "spore-alerts", "spore-alerts.service"
)

// Ports of the role: all on the node itself, but that by which two Alertmanagers agree on who sends.
const (
	PortEvaluator = 8880
	PortManager   = 9093
	PortPeers     = 9096
	PortBridge    = 9095
)

// AlertsPassword is the bundle entry of the password, for User, by which the programs of the role know each other and
// the node's API.
const AlertsPassword = "alerts-password"

// NodeSilent is the rule of the image that a node cannot be asked.
const NodeSilent = "NodeSilent"

// Watchdog is the rule of the image that always fires: where it does not, rules are not evaluated, or alerts do not
// arrive. It cannot be put off, and heartbeats go out for it.
const Watchdog = machine.Watchdog

// PeersAuthority has the certificates by which Alertmanagers of one cluster know each other, and nobody else's.
const PeersAuthority = "alerts"

// PeersCertificate and PeersKey are the bundle entries of that certificate.
const (
	PeersCertificate = "alerts-peer-certificate"
	PeersKey         = "alerts-peer-key"
)

// Alerts is who is told when something is wrong.
type Alerts struct {
	// Receivers are told of alerts.
	Receivers []Receiver `yaml:"receivers,omitempty" json:"receivers,omitempty"`
	// Wait is for how many seconds alerts of one name are collected before the first of them is sent; 30 when 0.
	Wait int `yaml:"wait,omitempty" json:"wait,omitempty"`
	// Repeat is after how many minutes an alert that still fires is sent again; 240 when 0.
	Repeat int `yaml:"repeat,omitempty" json:"repeat,omitempty"`
	// Heartbeat is sent each minute while rules are evaluated: somebody else misses it.
	Heartbeat *Heartbeat `yaml:"heartbeat,omitempty" json:"heartbeat,omitempty"`
	// Off are names of rules of the image that are not wanted.
	Off []string `yaml:"off,omitempty" json:"off,omitempty"`
	// Rules are the files of rules that are evaluated: those of the image without Off, and those of services/alerts/.
	Rules []RuleFile `yaml:"-" json:"rules,omitempty"`
}

// RuleFile is a file of rules in the form of Prometheus.
type RuleFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Receiver is somebody who is told of alerts, in one way.
type Receiver struct {
	// Name is in logs, and in what Alertmanager says of itself.
	Name string `yaml:"name" json:"name"`
	// Severities are which alerts it is told of; critical and warning when empty.
	Severities []string `yaml:"severities,omitempty" json:"severities,omitempty"`
	// Webhook is an HTTP server that takes what Alertmanager posts.
	Webhook *Endpoint `yaml:"webhook,omitempty" json:"webhook,omitempty"`
	// MQTT is a topic of a broker.
	MQTT *MQTT `yaml:"mqtt,omitempty" json:"mqtt,omitempty"`
	// Syslog is a server that takes lines of RFC 5424.
	Syslog *Syslog `yaml:"syslog,omitempty" json:"syslog,omitempty"`
	// Email is a mailbox.
	Email *Email `yaml:"email,omitempty" json:"email,omitempty"`
}

// Endpoint is a place of an HTTP server. It has a url or a secretURL.
type Endpoint struct {
	// URL is the place. It holds nothing secret.
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// SecretURL names the entry of a URL of which somebody who knows it may send.
	SecretURL *spec.SecretRef `yaml:"secretURL,omitempty" json:"secretURL,omitempty"`
	// Token names the entry of a bearer token.
	Token *spec.SecretRef `yaml:"token,omitempty" json:"token,omitempty"`
}

// MQTT is a topic of a broker that speaks TLS.
type MQTT struct {
	// Address is the broker's name or address, with its port.
	Address string `yaml:"address" json:"address"`
	// Topic is where messages go; of alerts, below it: TOPIC/INSTANCE/NAME.
	Topic string `yaml:"topic" json:"topic"`
	// User is the account of the broker.
	User string `yaml:"user" json:"user"`
	// Password names the entry of its password.
	Password spec.SecretRef `yaml:"password" json:"password"`
	// CA is whose certificates the broker has: the word cluster for a broker of this cluster, certificates as PEM, or
	// the authorities that Debian knows when empty.
	CA string `yaml:"ca,omitempty" json:"ca,omitempty"`
}

// Syslog is a server of syslog.
type Syslog struct {
	// Address is the server's name or address, with its port.
	Address string `yaml:"address" json:"address"`
	// Transport is udp, tcp or tls; tls when empty.
	Transport string `yaml:"transport,omitempty" json:"transport,omitempty"`
	// CA is whose certificates the server has: certificates as PEM, or the authorities that Debian knows when empty.
	CA string `yaml:"ca,omitempty" json:"ca,omitempty"`
}

// Email is a mailbox, and the server that takes mail for it with STARTTLS.
type Email struct {
	// To is the mailbox, such as shift@plant.example.
	To string `yaml:"to" json:"to"`
	// From is the sender.
	From string `yaml:"from" json:"from"`
	// Server is the mail server's name or address, with its port.
	Server string `yaml:"server" json:"server"`
	// User is the account of the server; none when empty.
	User string `yaml:"user,omitempty" json:"user,omitempty"`
	// Password names the entry of its password.
	Password *spec.SecretRef `yaml:"password,omitempty" json:"password,omitempty"`
}

// Heartbeat is where it goes: to an HTTP server, to an MQTT topic, or to both.
type Heartbeat struct {
	// HTTP is a server that is asked by POST.
	HTTP *Endpoint `yaml:"http,omitempty" json:"http,omitempty"`
	// MQTT is a topic that gets a retained message with the time.
	MQTT *MQTT `yaml:"mqtt,omitempty" json:"mqtt,omitempty"`
}

// ClusterCA is the word for the authority of this cluster's own brokers.
const ClusterCA = "cluster"

const (
	defaultWait   = 30
	defaultRepeat = 240
)

// WaitSeconds is Wait with its default.
func (a *Alerts) WaitSeconds() int {
	if a.Wait == 0 {
		return defaultWait
	}
	return a.Wait
}

// RepeatMinutes is Repeat with its default.
func (a *Alerts) RepeatMinutes() int {
	if a.Repeat == 0 {
		return defaultRepeat
	}
	return a.Repeat
}

// Of is which severities a receiver is told of.
func (r Receiver) Of() []string {
	if len(r.Severities) == 0 {
		return []string{"critical", "warning"}
	}
	return r.Severities
}

// Bridged tells whether the bridge reaches the receiver, since Alertmanager cannot.
func (r Receiver) Bridged() bool { return r.MQTT != nil || r.Syslog != nil }

// Way is how the syslog server is reached.
func (s Syslog) Way() string {
	if s.Transport == "" {
		return "tls"
	}
	return s.Transport
}

// AlertsOf returns the settings of alerts; those of a cluster that has none are empty.
func AlertsOf(s spec.Services) *Alerts {
	if m := Of(s); m != nil && m.Alerts != nil {
		return m.Alerts
	}
	return &Alerts{}
}

// brokers are the MQTT topics of the settings.
func (a *Alerts) brokers() []*MQTT {
	var out []*MQTT
	for _, r := range a.Receivers {
		out = append(out, r.MQTT)
	}
	if a.Heartbeat != nil {
		out = append(out, a.Heartbeat.MQTT)
	}
	return slices.DeleteFunc(out, func(m *MQTT) bool { return m == nil })
}

// references are entries, each once.
type references []string

func (r *references) add(refs ...*spec.SecretRef) {
	for _, ref := range refs {
		if ref != nil && ref.SecretRef != "" && !slices.Contains(*r, ref.SecretRef) {
			*r = append(*r, ref.SecretRef)
		}
	}
}

// managerSecrets are the entries that the settings name for what Alertmanager tells itself.
func managerSecrets(s spec.Services) []string {
	var out references
	for _, r := range AlertsOf(s).Receivers {
		if r.Webhook != nil {
			out.add(r.Webhook.SecretURL, r.Webhook.Token)
		}
		if r.Email != nil {
			out.add(r.Email.Password)
		}
	}
	return out
}

// bridgeSecrets are those of what the bridge tells.
func bridgeSecrets(s spec.Services) []string {
	var out references
	a := AlertsOf(s)
	if a.Heartbeat != nil && a.Heartbeat.HTTP != nil {
		out.add(a.Heartbeat.HTTP.SecretURL, a.Heartbeat.HTTP.Token)
	}
	for _, m := range a.brokers() {
		out.add(&m.Password)
	}
	return out
}

// alertsSecrets are the entries that the settings name.
func alertsSecrets(s spec.Services) []string {
	out := references(managerSecrets(s))
	for _, name := range bridgeSecrets(s) {
		out.add(&spec.SecretRef{SecretRef: name})
	}
	return out
}

// alertsPrograms are the programs of the role.
var alertsPrograms = []service.Program{
	{
		Name: Evaluator, Unit: EvaluatorUnit, Payloads: []string{Program}, User: Evaluator,
		Secrets: []string{PasswordEntry, AlertsPassword},
		Ports:   []service.Port{service.TCP(PortEvaluator, "alerts: what rules say, for this node").On(service.Loopback)},
	},
	{
		Name: Manager, Unit: ManagerUnit, Packages: []string{"prometheus-alertmanager"}, User: "prometheus",
		NeedsSecrets: true, Named: managerSecrets, Secrets: []string{AlertsPassword, PeersCertificate, PeersKey},
		Ports: []service.Port{
			service.TCP(PortManager, "alerts: what fires, for this node's API").On(service.Loopback),
			service.TCP(PortPeers, "alerts: the other node's Alertmanager, by certificate").On(service.Node),
		},
	},
	{
		Name: Bridge, Unit: BridgeUnit, Own: []string{Bridge}, User: Bridge,
		NeedsSecrets: true, Named: bridgeSecrets, Secrets: []string{AlertsPassword},
		Ports: []service.Port{
			service.TCP(PortBridge, "alerts: for MQTT and syslog, from Alertmanager").On(service.Loopback),
		},
	},
}

var alertsSecretRows = []service.SecretRow{
	{Name: AlertsPassword, Roles: []string{AlertsRole}, Each: service.OneNode, Form: service.FormPassword},
	{Name: "alerts-secret", Roles: []string{AlertsRole}, Each: service.OneUser, Entry: "{user-secret}",
		Form: service.FormGiven, Given: true},
}

// debian is what is left out of Alertmanager's package.
var debian = []service.Debian{{
	Package: "prometheus-alertmanager",
	Drop: []service.Drop{
		{Path: "/usr/lib/systemd/system/prometheus-alertmanager.service", Why: "alertmanager.service runs it"},
		{Path: "/etc/default/prometheus-alertmanager", Why: "alertmanager.service runs it"},
		{Path: "/etc/init.d/prometheus-alertmanager", Why: "alertmanager.service runs it"},
		{Path: "/etc/logrotate.d/prometheus-alertmanager", Why: "it logs to the journal"},
		{Path: "/etc/prometheus/*", Why: "spore-agent renders the settings"},
		{Path: "/usr/share/prometheus/alertmanager/generate-ui.sh", Why: "it downloads and compiles a page"},
	},
}}

func alertsVariables(c *facts.Cluster, _ *facts.Node, _ uint64) map[string]string {
	return map[string]string{"VMALERT_EXTERNAL_LABEL": "cluster=" + c.Name}
}
