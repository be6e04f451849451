package customize

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/customize"
)

const example = "../../../examples/edge"

func spore(args ...string) (code int, out, errs string) {
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command())
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"customize"}, args...))
	code = exit.Run(context.Background(), root)
	return code, stdout.String(), stderr.String()
}

func TestWhatIsRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, bytes.Repeat([]byte("text"), 9999), 0o644))
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no image":                  {nil, exit.Misuse, "accepts 1 arg(s), received 0"},
		"a text":                    {[]string{text, "--config", example}, exit.Failed, "it has no partition table"},
		"a device":                  {[]string{"/dev/null", "--config", example}, exit.Failed, "write that with `spore flash`"},
		"a folder without files":    {[]string{text, "--config", t.TempDir()}, exit.Failed, "the configuration has errors; nothing was changed"},
		"a folder of other keys":    {[]string{text, "--config", example, "--pki", t.TempDir()}, exit.Failed, "read the cluster's keys"},
		"a key without certificate": {[]string{text, "--config", example, "--secure-boot-key", "x"}, exit.Misuse, "--secure-boot-key and --secure-boot-cert go together"},
		"a diff with an output":     {[]string{text, "--config", example, "--diff", "-o", "x"}, exit.Misuse, "--diff writes nothing; leave --output out"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := spore(tc.args...)
			require.Equal(t, tc.code, code)
			require.Contains(t, errs, tc.want)
			require.Empty(t, out)
		})
	}
}

func TestADiffForPeople(t *testing.T) {
	d := &customize.Diff{
		Cluster: []customize.Value{{Name: "network.ntpServers", Old: "", New: "10.77.0.2"}},
		Nodes: []customize.Node{
			{Name: "dns-01", Change: "changed", Files: []string{"/etc/cluster-config/cluster.yaml"}},
			{Name: "edge-01", Change: "changed",
				Roles:    []customize.Value{{Name: "roles", Old: "dns-server", New: "dns-server, mqtt-broker"}},
				Identity: []customize.Value{{Name: "hostname", Old: "edge-01", New: "edge-1"}, {Name: "macs", Old: "52:54:00:77:00:0b", New: ""}},
				Files:    []string{"/etc/cluster-config/cluster.yaml", "/etc/cluster-config/environment/node.env"},
			},
			{Name: "mqtt-01", Change: "changed", Files: []string{"/etc/cluster-config/cluster.yaml"}},
			{Name: "mqtt-02", Change: "added", Services: []customize.Value{{Name: "programs", Old: "", New: "mosquitto"}}},
		},
		Files:  []customize.File{{Path: "cluster.yaml", Change: "changed"}, {Path: "compiled/nodes/mqtt-02.json", Change: "added"}},
		Medium: []customize.Value{{Name: "root", Old: "5fde", New: "5fde"}, {Name: "cluster part", Old: "e026", New: "aa51"}},
	}
	var b bytes.Buffer
	require.NoError(t, printDiff(&b, d))
	require.Equal(t, `cluster
  network.ntpServers  - → 10.77.0.2
node edge-01 changed
  roles     dns-server → dns-server, mqtt-broker
  identity  hostname  edge-01 → edge-1
            macs      52:54:00:77:00:0b → -
  files     /etc/cluster-config/cluster.yaml, /etc/cluster-config/environment/node.env
node mqtt-02 added
  services  programs  - → mosquitto
nodes dns-01, mqtt-01
  files  /etc/cluster-config/cluster.yaml
files of the cluster part
  changed  cluster.yaml
  added    compiled/nodes/mqtt-02.json
medium
  root          5fde  stays
  cluster part  e026 → aa51
`, b.String())
}

func TestResultsForPeople(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, printResults(&b, []*customize.Result{
		{Image: "out/spore.img", Format: "disk", Changed: true, RootHash: "5fde", ClusterHash: "aa51"},
		{Image: "out/netboot", Format: "netboot"},
	}))
	require.Equal(t, `disk          out/spore.img
netboot       out/netboot has this configuration already; nothing was written
root hash     5fde
cluster hash  aa51
`, b.String())
}
