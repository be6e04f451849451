package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/metrics"
)

// alerting gives the edge node a store, and has it tell people of alerts.
func alerting(settings string, more ...edit) []edit {
	return append([]edit{
		{"cluster.yaml", "services: [kubernetes, ceph, kafka, mqtt, dns]", "services: [kubernetes, ceph, kafka, mqtt, dns, metrics]"},
		{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, metrics-store, alerts]"},
		{"services/metrics.yaml", "", settings},
	}, more...)
}

// receivers are those of services/metrics.yaml, from line 3.
func receivers(rows string) []edit { return alerting("alerts:\n  receivers:\n" + rows) }

var badAlerts = []badInput{
	{"nobody is told", alerting("alerts:\n  wait: 0\n  repeat: 1\n"), []string{
		`services/metrics.yaml:2:3: warning: there are no receivers: alerts are shown by ` + "`spore alerts`" + `, and sent to nobody`,
		`services/metrics.yaml:2:9: error: wait 0 is out of bounds; write 1 to 600`,
		`services/metrics.yaml:3:11: error: repeat 1 is out of bounds; write 5 to 10080`,
	}},
	{"rules about no store", []edit{
		{"cluster.yaml", "services: [kubernetes, ceph, kafka, mqtt, dns]", "services: [kubernetes, ceph, kafka, mqtt, dns, metrics]"},
		{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, alerts]"},
		{"services/metrics.yaml", "", "alerts:\n  receivers:\n  - {name: a, syslog: {address: 'log.example:514', transport: udp}}\n"},
	}, []string{
		`cluster.yaml:41:12: error: edge-01 has the role alerts and not the role metrics-store, whose store the rules are about; add it`,
	}},
	{"receivers with names that are none", receivers("  - {name: Shift, webhook: {url: 'http://a.example/'}}\n  - {name: heartbeat, webhook: {url: 'http://a.example/'}}\n" +
		"  - {name: a, webhook: {url: 'http://a.example/'}}\n  - {name: a, webhook: {url: 'http://a.example/'}, severities: [critical, critical, page]}\n"), []string{
		`services/metrics.yaml:3:12: error: the name "Shift" is not valid; write 1 to 32 lower-case letters, digits and -, with a letter or digit at both ends`,
		`services/metrics.yaml:4:12: error: the name heartbeat is taken already; choose another`,
		`services/metrics.yaml:6:12: error: the receiver "a" exists already, at services/metrics.yaml:5; each receiver has one entry`,
		`services/metrics.yaml:6:75: error: the severity "critical" exists already, at services/metrics.yaml:6; remove one`,
		`services/metrics.yaml:6:85: error: the severity "page" is unknown; write critical, warning or info`,
	}},
	{"receivers that are reached in no way, and in two", receivers("  - {name: a}\n  - {name: b, webhook: {url: 'http://a.example/'}, syslog: {address: 'a.example:514', transport: udp}}\n"), []string{
		`services/metrics.yaml:3:5: error: a receiver has one of webhook, mqtt, syslog and email, and this one has 0`,
		`services/metrics.yaml:4:5: error: a receiver has one of webhook, mqtt, syslog and email, and this one has 2`,
	}},
	{"urls", receivers("  - {name: a, webhook: {}}\n  - {name: b, webhook: {url: 'ftp://a.example/'}}\n  - {name: c, webhook: {url: 'https://a:b@c.example/'}}\n" +
		"  - {name: d, webhook: {url: 'http:///x'}}\n  - {name: e, webhook: {url: 'http://a/', secretURL: {secretRef: x}, token: {secretRef: X}}}\n"), []string{
		`services/metrics.yaml:3:24: error: it has no url; write one such as https://shift.plant.example/alerts, or secretURL where knowing it is enough to send`,
		`services/metrics.yaml:4:30: error: the url begins with neither http:// nor https://; write one such as https://shift.plant.example/alerts`,
		`services/metrics.yaml:5:30: error: the url has a user or a password in it, which have keys of their own; write one such as https://shift.plant.example/alerts`,
		`services/metrics.yaml:5:31: error: this line holds a URL with a user and password; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		`services/metrics.yaml:6:30: error: the url has no host; write one such as https://shift.plant.example/alerts`,
		`services/metrics.yaml:7:30: error: it has url and secretURL; write one of them`,
		`services/metrics.yaml:7:30: warning: the token goes over the network in clear text; write https:// where the server has it`,
		`services/metrics.yaml:7:89: error: token: secretRef "X" is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as mqtt-tls-key`,
	}},
	{"topics and brokers", receivers("  - {name: a, mqtt: {address: broker, topic: 'plant/#', user: 'a b', password: {secretRef: X}, ca: nonsense}}\n"), []string{
		`services/metrics.yaml:3:31: error: the address "broker" has no port; write a name or an address with a port, such as broker.plant.example:8883`,
		`services/metrics.yaml:3:46: error: the topic "plant/#" is not valid; write levels of letters, digits, ., _ and -, such as plant/alerts`,
		`services/metrics.yaml:3:63: error: the user "a b" is not valid; write 1 to 128 letters, digits, ., _, @ and -, the first a letter or digit`,
		`services/metrics.yaml:3:92: error: password: secretRef "X" is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as mqtt-tls-key`,
		`services/metrics.yaml:3:100: error: ca is not PEM of certificates; write one or more blocks of -----BEGIN CERTIFICATE-----`,
	}},
	{"syslog and mail", receivers("  - {name: a, syslog: {address: 'log:0', transport: smoke}}\n  - {name: b, syslog: {address: 'log:514', transport: tcp, ca: x}}\n" +
		"  - {name: c, email: {to: shift, from: 'a@b.example', server: mail, user: a}}\n"), []string{
		`services/metrics.yaml:3:33: error: the address "log:0" has a port that is none; write a name or an address with a port, such as log.plant.example:6514`,
		`services/metrics.yaml:3:53: error: the transport "smoke" is unknown; write udp, tcp or tls`,
		`services/metrics.yaml:4:64: error: tcp has no certificates; remove ca, or write transport: tls`,
		`services/metrics.yaml:5:22: error: there is a user and no password; add password: {secretRef: …}`,
		`services/metrics.yaml:5:27: error: the mailbox "shift" is not valid; write one such as shift@plant.example`,
		`services/metrics.yaml:5:63: error: the address "mail" has no port; write a name or an address with a port, such as mail.plant.example:587`,
	}},
	{"a heartbeat to nobody, and rules that stay", receivers("  - {name: a, syslog: {address: 'log:514', transport: udp}}\n  heartbeat: {}\n  off: [Watchdog, NodeSilnt, NodeSilent, NodeSilent]\n"), []string{
		`services/metrics.yaml:4:14: error: the heartbeat goes nowhere; write http or mqtt`,
		`services/metrics.yaml:5:9: error: the rule Watchdog stays: by it one sees that alerts arrive`,
		`services/metrics.yaml:5:19: error: the rule "NodeSilnt" is unknown; did you mean "NodeSilent"?`,
		`services/metrics.yaml:5:42: error: the rule "NodeSilent" exists already, at services/metrics.yaml:5; remove one`,
	}},
}

func TestRulesOfAPlantAreForNodesThatEvaluateThem(t *testing.T) {
	own := edit{"services/alerts/press.yaml", "", "groups:\n  - name: press\n    rules:\n      - {alert: PressTooHot, expr: press_celsius > 80, labels: {severity: warning}, annotations: {summary: hot}}\n"}
	files := goodFolder(t)
	apply(t, files, alerting("alerts:\n  receivers:\n  - {name: a, syslog: {address: 'log:514', transport: udp}}\n  off: [NodeSilent]\n", own))
	c, report := Check(files, Options{})
	require.NoError(t, report.Err())
	require.Empty(t, report)
	rules := metrics.AlertsOf(c.Services).Rules
	last := rules[len(rules)-1]
	require.Equal(t, metrics.RuleFile{Name: "plant-press.yaml", Text: own.new}, last)
	all := ""
	for _, r := range rules {
		all += r.Text
	}
	require.Contains(t, all, "alert: Watchdog")
	require.NotContains(t, all, "alert: NodeSilent\n")
	compiled, err := Compile(c)
	require.NoError(t, err)
	require.Equal(t, own.new, string(compiled["services/alerts/press.yaml"]))

	files = goodFolder(t)
	apply(t, files, []edit{own})
	c, report = Check(files, Options{})
	require.NoError(t, report.Err())
	require.Len(t, report, 1)
	require.Contains(t, report[0].Message, "nothing evaluates this: no node has the role alerts")
	require.Nil(t, metrics.Of(c.Services), "a cluster without the role carries no rules")
}

func TestRulesOfAPlantThatAreBad(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no YAML":                  {"groups: [", "services/alerts/press.yaml:1"},
		"a name of ours":           {"groups:\n  - name: a\n    rules:\n      - {alert: Watchdog, expr: vector(1), labels: {severity: warning}, annotations: {summary: x}}\n", "services/alerts/press.yaml:"},
		"an unknown key":           {"groups:\n  - name: a\n    rule: []\n", "services/alerts/press.yaml:3"},
		"a file that is too large": {"# " + string(make([]byte, 256<<10)), "services/alerts/press.yaml:1:1: error: is larger than 256 KiB"},
	} {
		files := goodFolder(t)
		apply(t, files, alerting("alerts:\n  receivers:\n  - {name: a, syslog: {address: 'log:514', transport: udp}}\n", edit{"services/alerts/press.yaml", "", tt.text}))
		_, report := Check(files, Options{})
		require.ErrorContains(t, report.Err(), tt.want, name)
	}
	files := goodFolder(t)
	apply(t, files, alerting("alerts: {}\n", edit{"services/alerts/press.yml", "", "groups: []\n"}))
	_, report := Check(files, Options{})
	require.ErrorContains(t, report.Err(), "services/alerts/press.yml:1:1: error: files end in .yaml")
}
