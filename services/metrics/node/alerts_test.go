package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"spore/cluster/spec"
	"spore/services/metrics"
	"spore/services/metrics/rules/shipped"
	"spore/services/rendering"
)

// alertsInput is a node of the role alerts.
func alertsInput(a *metrics.Alerts) rendering.Input {
	in := input(&metrics.Settings{Alerts: a})
	in.Cluster.ID = "0e8f6c1a-52d7-4c39-8f0b-9b1f6a4d7e20"
	in.Cluster.Members[metrics.AlertsRole] = []string{"observer-01"}
	in.Addresses = []netip.Addr{netip.MustParseAddr("10.79.0.21")}
	in.Dir = "/run/x"
	in.SecretPath = func(ref string) string { return "/run/credentials/x/secret_" + ref }
	return in
}

// everyWay has a receiver for each way.
func everyWay() *metrics.Alerts {
	ref := func(name string) *spec.SecretRef { return &spec.SecretRef{SecretRef: name} }
	return &metrics.Alerts{
		Wait: 45, Repeat: 60,
		Receivers: []metrics.Receiver{
			{Name: "shift", Webhook: &metrics.Endpoint{URL: "https://shift.lab.internal/alerts", Token: ref("shift-token")}},
			{Name: "chat", Severities: []string{"critical"}, Webhook: &metrics.Endpoint{SecretURL: ref("chat-url")}},
			{Name: "plc", MQTT: &metrics.MQTT{Address: "edge-01.lab.internal:8883", Topic: "plant/alerts", User: "alerts", Password: *ref("alerts-mqtt"), CA: metrics.ClusterCA}},
			{Name: "log", Severities: metrics.Severities, Syslog: &metrics.Syslog{Address: "log.lab.internal:6514"}},
			{Name: "mail", Email: &metrics.Email{To: "shift@lab.internal", From: "spore@lab.internal", Server: "mail.lab.internal:587", User: "spore", Password: ref("mail")}},
		},
		Heartbeat: &metrics.Heartbeat{
			HTTP: &metrics.Endpoint{SecretURL: ref("watch-url"), Token: ref("watch-token")},
			MQTT: &metrics.MQTT{Address: "broker.plant.example:8883", Topic: "plant/heartbeat", User: "alerts", Password: *ref("alerts-mqtt")},
		},
		Rules: []metrics.RuleFile{{Name: "spore-node.yaml", Text: "groups: [] # ours\n"}, {Name: "plant-press.yaml", Text: "groups: [] # the plant's\n"}},
	}
}

func TestRulesAreLaidAsTheyAre(t *testing.T) {
	files, err := rules(alertsInput(everyWay()))
	require.NoError(t, err)
	require.Equal(t, []string{"rules/none.yaml", "rules/plant-press.yaml", "rules/spore-node.yaml"}, slices.Sorted(maps.Keys(files)))
	require.Equal(t, "groups: [] # the plant's\n", string(files["rules/plant-press.yaml"].Data))
	for _, name := range []string{"../x.yaml", "a/b.yaml", ".yaml", "x.yml", ""} {
		_, err := rules(alertsInput(&metrics.Alerts{Rules: []metrics.RuleFile{{Name: name}}}))
		require.ErrorContains(t, err, "which is none", name)
	}
}

func TestTheSettingsOfAlertmanager(t *testing.T) {
	files, err := manager(alertsInput(everyWay()))
	require.NoError(t, err)
	require.Equal(t, `# Rendered by spore-agent from services/metrics.yaml; made again at each start.
global:
    resolve_timeout: 5m
route:
    receiver: nobody
    group_by:
        - alertname
        - cluster
    group_wait: 45s
    group_interval: 60s
    repeat_interval: 60m
    routes:
        - receiver: heartbeat
          matchers:
            - alertname="Watchdog"
          group_wait: 1s
          group_interval: 30s
          repeat_interval: 50s
        - receiver: shift
          matchers:
            - severity=~"critical|warning"
          continue: true
        - receiver: chat
          matchers:
            - severity=~"critical"
          continue: true
        - receiver: plc
          matchers:
            - severity=~"critical|warning"
          continue: true
        - receiver: log
          matchers:
            - severity=~"critical|warning|info"
          continue: true
        - receiver: mail
          matchers:
            - severity=~"critical|warning"
          continue: true
receivers:
    - name: nobody
    - name: heartbeat
      webhook_configs:
        - send_resolved: true
          url: http://127.0.0.1:9095/heartbeat
          timeout: 20s
          max_alerts: 1000
          http_config:
            authorization:
                credentials_file: /run/credentials/x/secret_alerts-password
            follow_redirects: false
    - name: shift
      webhook_configs:
        - send_resolved: true
          url: https://shift.lab.internal/alerts
          timeout: 20s
          max_alerts: 200
          http_config:
            authorization:
                credentials_file: /run/credentials/x/secret_shift-token
            follow_redirects: false
    - name: chat
      webhook_configs:
        - send_resolved: true
          url_file: /run/credentials/x/secret_chat-url
          timeout: 20s
          max_alerts: 200
          http_config:
            follow_redirects: false
    - name: plc
      webhook_configs:
        - send_resolved: true
          url: http://127.0.0.1:9095/receivers/plc
          timeout: 20s
          max_alerts: 1000
          http_config:
            authorization:
                credentials_file: /run/credentials/x/secret_alerts-password
            follow_redirects: false
    - name: log
      webhook_configs:
        - send_resolved: true
          url: http://127.0.0.1:9095/receivers/log
          timeout: 20s
          max_alerts: 1000
          http_config:
            authorization:
                credentials_file: /run/credentials/x/secret_alerts-password
            follow_redirects: false
    - name: mail
      email_configs:
        - send_resolved: true
          to: shift@lab.internal
          from: spore@lab.internal
          smarthost: mail.lab.internal:587
          auth_username: spore
          auth_password_file: /run/credentials/x/secret_mail
          require_tls: true
inhibit_rules:
    - source_matchers:
        - alertname="NodeSilent"
      target_matchers:
        - alertname!="NodeSilent"
        - instance!=""
      equal:
        - instance
    - source_matchers:
        - severity="critical"
      target_matchers:
        - severity="warning"
      equal:
        - alertname
        - instance
templates: []
`, string(files["alertmanager.yml"].Data))
	hash, _, _ := strings.Cut(strings.TrimPrefix(string(files["web.yml"].Data), "basic_auth_users:\n    spore: "), "\n")
	require.NoError(t, bcrypt.CompareHashAndPassword([]byte(hash), []byte("x")))
	require.Equal(t, "ARGUMENTS=--cluster.listen-address=\n", string(files["arguments"].Data), "one alone waits for nobody")
	require.NotContains(t, files, "peers.yml")
}

// TestAllReceiversAreToldOfOneThatFails has receivers of every choice of severities.
func TestAllReceiversAreToldOfOneThatFails(t *testing.T) {
	require.Contains(t, shipped.Names(), failingReceiver)
	require.Contains(t, shipped.Names(), silentNode)
	var receivers []metrics.Receiver
	for i, of := range [][]string{nil, {"critical"}, {"warning"}, {"info"}, {"info", "warning"}, metrics.Severities} {
		receivers = append(receivers, metrics.Receiver{Name: fmt.Sprintf("r%d", i), Severities: of})
	}
	told := map[string]int{}
	for _, r := range managerOf(&metrics.Alerts{Receivers: receivers}, nil).Route.Routes {
		m := r.Matchers[0]
		if strings.HasPrefix(m, "severity=~") && strings.Contains(m, "critical") || m == `alertname="ReceiverFails"` {
			require.True(t, r.Continue)
			told[r.Receiver]++
		}
	}
	for _, r := range receivers {
		require.Equal(t, 1, told[r.Name], "%s, told of %v", r.Name, r.Severities)
	}
}

func TestWithoutSettingsNobodyIsTold(t *testing.T) {
	files, err := manager(alertsInput(nil))
	require.NoError(t, err)
	require.Contains(t, string(files["alertmanager.yml"].Data), `        - receiver: nobody
          matchers:
            - alertname="Watchdog"
receivers:
    - name: nobody
inhibit_rules:`)
}

func TestTwoKnowEachOtherByCertificates(t *testing.T) {
	in := alertsInput(everyWay())
	in.Cluster.Members[metrics.AlertsRole] = []string{"edge-01", "observer-01"}
	files, err := manager(in)
	require.NoError(t, err)
	require.Equal(t, "ARGUMENTS=--cluster.advertise-address=10.79.0.21:9096 --cluster.label=0e8f6c1a-52d7-4c39-8f0b-9b1f6a4d7e20 "+
		"--cluster.listen-address=10.79.0.21:9096 --cluster.peer=edge-01.lab.internal:9096 --cluster.tls-config=/run/x/peers.yml\n", string(files["arguments"].Data))
	require.Equal(t, `tls_client_config:
    ca_file: /run/x/alerts.crt
    cert_file: /run/credentials/x/secret_alerts-peer-certificate
    key_file: /run/credentials/x/secret_alerts-peer-key
    min_version: TLS13
    server_name: edge-01.lab.internal
tls_server_config:
    cert_file: /run/credentials/x/secret_alerts-peer-certificate
    client_auth_type: RequireAndVerifyClientCert
    client_ca_file: /run/x/alerts.crt
    key_file: /run/credentials/x/secret_alerts-peer-key
    min_version: TLS13
`, string(files["peers.yml"].Data))
	require.Equal(t, "authority of alerts.crt", string(files["alerts.crt"].Data))

	in.Addresses = nil
	_, err = manager(in)
	require.ErrorContains(t, err, "the node has no address yet")
}

func TestWhatTheBridgeIsTold(t *testing.T) {
	files, err := toBridge(alertsInput(everyWay()))
	require.NoError(t, err)
	require.Equal(t, `{
  "listen": "127.0.0.1:9095",
  "passwordFile": "/run/credentials/x/secret_alerts-password",
  "cluster": "lab",
  "node": "observer-01",
  "receivers": {
    "log": {
      "syslog": {
        "address": "log.lab.internal:6514",
        "transport": "tls"
      }
    },
    "plc": {
      "mqtt": {
        "address": "edge-01.lab.internal:8883",
        "topic": "plant/alerts",
        "user": "alerts",
        "passwordFile": "/run/credentials/x/secret_alerts-mqtt",
        "ca": "authority of mqtt.crt"
      }
    }
  },
  "heartbeat": {
    "http": {
      "urlFile": "/run/credentials/x/secret_watch-url",
      "tokenFile": "/run/credentials/x/secret_watch-token"
    },
    "mqtt": {
      "address": "broker.plant.example:8883",
      "topic": "plant/heartbeat",
      "user": "alerts",
      "passwordFile": "/run/credentials/x/secret_alerts-mqtt"
    }
  }
}
`, string(files["bridge.json"].Data))
}

func TestAlertsWantTheirSecrets(t *testing.T) {
	missing := errors.New("the entry is missing")
	for name, render := range map[string]rendering.Func{"vmalert": rules, "alertmanager": manager, "spore-alerts": toBridge} {
		in := alertsInput(everyWay())
		in.Secret = func(string) ([]byte, error) { return nil, missing }
		_, err := render(in)
		require.ErrorIs(t, err, missing, name)
	}
	in := alertsInput(everyWay())
	in.Authority = func(string) ([]byte, error) { return nil, missing }
	_, err := toBridge(in)
	require.ErrorIs(t, err, missing)
	in.Cluster.Members[metrics.AlertsRole] = []string{"edge-01", "observer-01"}
	_, err = manager(in)
	require.ErrorIs(t, err, missing)
}
