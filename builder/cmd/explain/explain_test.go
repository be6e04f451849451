package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/cluster/identity"
)

func spore(args ...string) (code int, out, errs string) {
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var o, e bytes.Buffer
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(args)
	code = exit.Run(context.Background(), cmd)
	return code, o.String(), e.String()
}

const (
	example  = "../../../examples/edge"
	sixNodes = "../../../cluster/testdata/six-nodes"
)

func TestExplainSaysEverythingAboutANode(t *testing.T) {
	code, out, errs := spore(example, "--mac", "52-54-00-77-00-0B")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, `node        edge-01 (edge-01.plant.example)
because     its mac is 52:54:00:77:00:0b (phase one; needs no network)
roles       dns-server, mqtt-broker
targets     dns.target, mqtt.target
programs    mosquitto (mosquitto.service, 8883/tcp, user mosquitto, waits for the node's secrets)
            coredns (coredns.service, 53/udp 53/tcp 127.0.0.1:9153/tcp, user coredns)
network     52:54:00:77:00:0b: 10.77.0.11/24
files
  /etc/cluster-config/cluster.yaml
  /etc/cluster-config/current-node.yaml
  /etc/cluster-config/environment/cluster.env
    CLUSTER_CONTROL_PLANE_ENDPOINT=
    CLUSTER_DOMAIN=plant.example
    CLUSTER_GATEWAYS=10.77.0.2
    CLUSTER_ID=6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11
    CLUSTER_NAME=plant
    CLUSTER_NAMESERVERS=10.77.0.3
    CLUSTER_NODE_COUNT=3
    CLUSTER_NODE_SUBNETS=10.77.0.0/24
    CLUSTER_NTP_SERVERS=10.77.0.2
    CLUSTER_POD_CIDRS=
    CLUSTER_SERVICE_CIDRS=
  /etc/cluster-config/environment/coredns.env
    DNS_DOMAIN=plant.example
    DNS_FORWARDERS=10.77.0.3
    DNS_TTL=60
  /etc/cluster-config/environment/mosquitto.env
    MQTT_PORT=8883
  /etc/cluster-config/environment/node.env
    NODE_FQDN=edge-01.plant.example
    NODE_HOSTNAME=edge-01
    NODE_IPS=10.77.0.11
    NODE_NAME=edge-01
    NODE_ROLES="dns-server mqtt-broker"
  /etc/cluster-config/node-identity
  /etc/cluster-config/nodes/edge-01.yaml
  /etc/cluster-config/services/dns.yaml
  /etc/cluster-config/services/mqtt.yaml
  /etc/hostname
  /etc/hosts
  /etc/resolv.conf
  /etc/sysctl.d/90-spore-node.conf
  /etc/systemd/network/*
  /etc/systemd/timesyncd.conf.d/10-spore.conf
`, out)
}

func TestWhyANodeMatches(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"its DHCP address":   {[]string{example, "--ip", "10.77.0.12"}, []string{"node        mqtt-01 ", "DHCP gives it the ip 10.77.0.12 (phase two; this is no proof)", "DHCP on every card"}},
		"its DHCP host name": {[]string{example, "--hostname", "dns-01.plant.example"}, []string{"node        dns-01 ", "DHCP gives it the hostname dns-01.plant.example"}},
		"a choice":           {[]string{example, "--node", "dns-01", "--mac", "52:54:00:77:00:0b"}, []string{"node        dns-01 ", "somebody chose it (--node)"}},
		"its serial":         {[]string{sixNodes, "--serial", "plant-kafka-01"}, []string{"node        kafka-01 ", "its serial is plant-kafka-01", "targets     kafka.target", "kafka (kafka.service, 9092/tcp 9093/tcp 9094/tcp, user kafka, waits for the node's secrets)"}},
		"its UUID":           {[]string{sixNodes, "--uuid", "4C4C4544-0043-4A10-8052-B4C04F4D3333"}, []string{"node        storage-01 ", "bond0: 10.77.0.15/24; storage.20: 192.168.20.15/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := spore(tc.args...)
			require.Equal(t, exit.OK, code, errs)
			for _, want := range tc.want {
				require.Contains(t, out, want)
			}
		})
	}
}

func TestWhyAMachineIsNoNode(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing known": {[]string{example}, exit.Misuse, "describe the machine: --mac, --ip, --hostname, --serial, --uuid or --node"},
		"no MAC at all": {[]string{example, "--mac", "eth0"}, exit.Misuse, `--mac "eth0" is not a MAC address`},
		"unknown": {
			[]string{example, "--mac", "52:54:00:00:00:01", "--serial", "ABC 1"}, exit.Failed,
			`does not match any node by mac 52:54:00:00:00:01, serial ABC 1; it would start no role. To make it a node, add to nodes in ../../../examples/edge/cluster.yaml: {name: NAME, macs: ["52:54:00:00:00:01"], serial: "ABC 1", roles: [ROLE]}`,
		},
		"two nodes": {
			[]string{sixNodes, "--mac", "52:54:00:77:00:11", "--serial", "PLANT-KAFKA-01"}, exit.Failed,
			"this machine would be more than one node: mac 52:54:00:77:00:11 is master-01, serial plant-kafka-01 is kafka-01",
		},
		"a choice that does not exist": {[]string{example, "--node", "edge-99"}, exit.Failed, `cluster.yaml has no node "edge-99"; did you mean "edge-01"? Its nodes are `},
		"a folder with errors":         {[]string{t.TempDir(), "--node", "x"}, exit.Failed, "cannot be read: no such file or directory"},
		"two folders":                  {[]string{"a", "b", "--node", "x"}, exit.Misuse, "accepts at most 1 arg"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := spore(tc.args...)
			require.Equal(t, tc.code, code)
			require.Contains(t, errs, tc.want)
			require.Empty(t, out)
		})
	}
}

func TestJSONHoldsTheSame(t *testing.T) {
	code, out, errs := spore(example, "--ip", "10.77.0.12", "--json")
	require.Equal(t, exit.OK, code, errs)
	var a struct { // A port is a text there.
		Match    identity.Result
		Targets  []string
		Programs []struct {
			Name, Unit string
			Ports      []string
		}
		Environment map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	require.Equal(t, "mqtt-01", a.Match.Node)
	require.Equal(t, 2, a.Match.Phase)
	require.Equal(t, []string{"mqtt.target"}, a.Targets)
	require.Equal(t, "mosquitto", a.Programs[0].Name)
	require.Equal(t, []string{"8883/tcp"}, a.Programs[0].Ports)
	require.Contains(t, a.Environment["/etc/cluster-config/environment/node.env"], "NODE_NAME=mqtt-01\n")

	code, out, _ = spore(example, "--ip", "10.77.0.99", "--json")
	require.Equal(t, exit.Failed, code)
	require.JSONEq(t, `{"match":{}}`, out)
}

func TestAMasterAppliesTheManifests(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(sixNodes)))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "manifests"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", "web.yaml"), []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n---\n"+
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: web}\n"), 0o644))
	code, out, errs := spore(dir, "--node", "master-01")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "manifests   Namespace web (manifests/web.yaml:1)\n            ConfigMap web/settings (manifests/web.yaml:5)\n")
	_, out, _ = spore(dir, "--node", "kafka-01")
	require.NotContains(t, out, "manifests")
}

func TestOwnFilesAndUnitsAreNamed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(example)))
	require.NoError(t, os.CopyFS(dir, fstest.MapFS{
		"overlay.yaml":             {Data: []byte("files:\n  /etc/line: {group: mosquitto, mode: \"0640\"}\n"), Mode: 0o644},
		"overlay/etc/line":         {Data: []byte("7\n"), Mode: 0o644},
		"overlay/opt/plant/readme": {Data: []byte("x"), Mode: 0o644},
		"units/report.service":     {Data: []byte("[Service]\nExecStart=/opt/report\n"), Mode: 0o644},
		"units/report.timer":       {Data: []byte("[Timer]\nOnBootSec=1\n[Install]\nWantedBy=timers.target\n"), Mode: 0o644},
		"units/apt.timer":          {Mode: 0o644},
	}))
	require.NoError(t, os.Symlink("plant", filepath.Join(dir, "overlay", "opt", "link")))
	code, out, errs := spore(dir, "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	_, own, _ := strings.Cut(out, "files of the configuration, in the root of every node\n")
	require.Equal(t, `  /etc/line (overlay/etc/line), root:mosquitto 0640
  /opt/link (overlay/opt/link), a link to plant
  /opt/plant/readme (overlay/opt/plant/readme)
  /etc/systemd/system/apt.timer (units/apt.timer), masks the unit of a package
  /etc/systemd/system/report.service (units/report.service)
  /etc/systemd/system/report.timer (units/report.timer), enabled
`, own)
	code, out, errs = spore(dir, "--node", "edge-01", "--json")
	require.Equal(t, exit.OK, code, errs)
	var a struct{ Own []OwnFile }
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	require.Len(t, a.Own, 6)
	require.Equal(t, "overlay/etc/line", a.Own[0].From)
	require.True(t, a.Own[5].Enabled)
}

func TestTheRolesOfAConfigurationsOwnAreTold(t *testing.T) {
	code, out, errs := spore("../../../examples/own-programs", "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, `programs    recorder (recorder.service, 8090/tcp, user recorder)
            report (report.service, started by report.timer, user report)
directories /var/lib/recorder (of recorder, mode 0750, at most 256MiB)
            /run/recorder (of recorder, mode 0750)
            /var/lib/report (of report, mode 0750)
            /run/report (of report, mode 0750)
`)
	code, out, errs = spore("../../../examples/own-programs", "--node", "edge-01", "--json")
	require.Equal(t, exit.OK, code, errs)
	var a struct {
		StartedBy   map[string][]string
		Directories []Directory
	}
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	require.Equal(t, map[string][]string{"report.service": {"report.timer"}}, a.StartedBy)
	require.Equal(t, Directory{"recorder", "/var/lib/recorder", "recorder", "0750", "256MiB"}, a.Directories[0])
}

func TestOwnProgramsAreNamed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(example)))
	require.NoError(t, os.CopyFS(dir, fstest.MapFS{
		"programs/gateway.yaml":   {Data: []byte("description: reads PLCs\nfolder: ./gateway\nlinks: [/usr/bin/gw]\n"), Mode: 0o644},
		"programs/gateway/go.mod": {Data: []byte("module example.org/gateway\n"), Mode: 0o644},
		"programs/x.yaml": {Data: []byte("archive: {url: https://files.example.org/x, sha256: " + strings.Repeat("ab", 32) +
			", files: {b: /opt/x/b, a: /opt/x/a}}\n"), Mode: 0o644},
	}))
	code, out, errs := spore(dir, "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	_, own, _ := strings.Cut(out, "programs of the configuration, in the root of every node\n")
	require.Equal(t, `  /usr/bin/gateway, /usr/bin/gw (programs/gateway.yaml), reads PLCs
  /opt/x/a, /opt/x/b (programs/x.yaml)
`, own)
	code, out, errs = spore(dir, "--node", "edge-01", "--json")
	require.Equal(t, exit.OK, code, errs)
	var a struct{ OwnPrograms []OwnProgram }
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	require.Equal(t, OwnProgram{"gateway", "programs/gateway.yaml", "reads PLCs", []string{"/usr/bin/gateway", "/usr/bin/gw"}}, a.OwnPrograms[0])
}
