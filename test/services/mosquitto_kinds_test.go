//go:build e2e

package services

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/config/live"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/render"
	"spore/agent/rolefiles"
	"spore/cluster"
	"spore/services/mqtt"
	"spore/services/rendering"
)

// brokerKind is a broker that the tests of MQTT run against.
//
// All tests of this package that have to do with MQTT run against each kind. Elsewhere, cluster/ownmqtt_test.go has the
// mistakes in settings, and compares the rows. What cannot apply to a role:
//
//	services/mqtt/node              the renderer of the service itself; a role's is package template
//	test/sockets, agent/…           take the service mqtt as one of many, and know a role by its row
//	the variable MQTT_PORT          a role has no environment of its own
type brokerKind struct {
	name string
	// configs is the folder of examples/ whose node edge-01 has the broker.
	configs string
	// service is in cluster.yaml, program is what the agent calls the broker, and authority signs its certificate.
	service, program, authority string
	// certificate and key are entries of the bundle, and so are the passwords of users.
	certificate, key string
	passwords        map[string]string
	// node makes the files of a node with the secrets of its bundle, and the broker that reads them at a port.
	node func(t *testing.T, k brokerKind, secrets map[string][]byte, port int) *broker
}

var brokerKinds = []brokerKind{
	{
		name: "the service mqtt", configs: "edge", service: "mqtt", program: "mosquitto", authority: "mqtt",
		certificate: "mqtt-tls-certificate", key: "mqtt-tls-key",
		passwords: map[string]string{"sensor": "mqtt-password-sensor", "operator": "mqtt-password-operator"},
		node:      nodeOfOurs,
	},
	{
		name: "the role of examples/own-mqtt", configs: "own-mqtt", service: "own-mqtt", program: "own-mqtt", authority: "own-mqtt",
		certificate: "own-mqtt-tls-certificate", key: "own-mqtt-tls-key",
		passwords: map[string]string{"sensor": "own-mqtt-sensor", "operator": "own-mqtt-operator"},
		node:      nodeOfARole,
	},
}

// eachBroker runs a test against each kind of broker.
func eachBroker(t *testing.T, test func(t *testing.T, k brokerKind)) {
	for _, k := range brokerKinds {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}

// nodeOfOurs renders as `spore-agent render` does.
func nodeOfOurs(t *testing.T, k brokerKind, secrets map[string][]byte, port int) *broker {
	t.Helper()
	dir := t.TempDir()
	b := &broker{dir: dir, live: filepath.Join(dir, "live"), state: filepath.Join(dir, "state"), conf: filepath.Join(dir, "mosquitto.conf")}
	shared, node, _ := example(t, k.configs, "edge-01")
	mqtt.Of(shared.Services).Port = port
	files, err := render.Render(k.program, rendering.Input{
		Cluster: shared, Node: node, Dir: dir, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		Secret: func(ref string) ([]byte, error) {
			data, ok := secrets[ref]
			if !ok {
				return nil, fmt.Errorf("no secret %s", ref)
			}
			return data, nil
		},
		SecretPath: func(ref string) string { return live.Of(b.live, k.program, ref) },
	})
	require.NoError(t, err)
	conf := files["mosquitto.conf"]
	require.Contains(t, string(conf.Data), " /var/lib/mosquitto/\n")
	conf.Data = bytes.Replace(conf.Data, []byte("/var/lib/mosquitto/"), []byte(b.state+"/"), 1)
	files["mosquitto.conf"] = conf
	require.NoError(t, render.Write(dir, files))
	return b
}

// nodeOfARole writes the files as the unit's `spore-role files` does, below the root of a node of a compiled cluster.
func nodeOfARole(t *testing.T, k brokerKind, secrets map[string][]byte, port int) *broker {
	t.Helper()
	configs := t.TempDir()
	require.NoError(t, os.CopyFS(configs, os.DirFS("../../examples/"+k.configs)))
	settings := filepath.Join(configs, "services", k.service+".yaml")
	text, err := os.ReadFile(settings)
	require.NoError(t, err)
	require.Contains(t, string(text), "port: 8883")
	text = bytes.Replace(text, []byte("port: 8883"), fmt.Appendf(nil, "port: %d", port), 1)
	require.NoError(t, os.WriteFile(settings, text, 0o644))
	c, report := cluster.LoadDir(configs)
	require.False(t, report.Failed(), report.String())
	part, err := cluster.Compile(c)
	require.NoError(t, err)

	m, _ := nodetest.New(t, 1)
	for name, data := range part {
		at := filepath.Join(m.Root.At(bootinfo.ClusterDir), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, data, 0o644))
	}
	nodetest.Is(t, m, "edge-01")
	given := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", given)
	for ref, data := range secrets {
		require.NoError(t, os.WriteFile(filepath.Join(given, "secret_"+ref), data, 0o400))
	}
	me := func(owner, group string) (uid, gid int, err error) {
		require.Equal(t, []string{"own-mqtt", "own-mqtt"}, []string{owner, group})
		return os.Getuid(), os.Getgid(), nil
	}
	require.NoError(t, rolefiles.Run(t.Context(), m, k.program, me))

	// The unit's program reads what was written; here, all of it lies below another root.
	unit, err := os.ReadFile(filepath.Join(configs, "units", k.program+".service"))
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nExecStart=/usr/sbin/mosquitto -c /run/own-mqtt/mosquitto.conf\n")
	conf := m.Root.At("/run/own-mqtt/mosquitto.conf")
	text, err = os.ReadFile(conf)
	require.NoError(t, err)
	root := string(m.Root)
	moved := strings.NewReplacer(" /run/", " "+root+"/run/", " /var/", " "+root+"/var/").Replace(string(text))
	require.NoError(t, os.WriteFile(conf, []byte(moved), 0o600))
	return &broker{dir: root, live: m.Root.At(paths.Live), state: m.Root.At("/var/lib/own-mqtt"), conf: conf}
}
