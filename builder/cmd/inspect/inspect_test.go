package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/image"
	"spore/builder/manifest"
	"spore/builder/privileged"
	"spore/cluster/facts"
)

func TestProgramsThatGiveRightsArePrinted(t *testing.T) {
	for name, tc := range map[string]struct {
		files []privileged.File
		want  string
	}{
		"some": {
			[]privileged.File{
				{Path: "/usr/bin/ping", Owner: "root", Group: "root", Mode: "0755", Capabilities: "cap_net_raw=ep", Package: "iputils-ping"},
				{Path: "/usr/bin/su", Owner: "root", Group: "root", Mode: "4755"},
			},
			"/usr/bin/ping cap_net_raw=ep\t0755\troot:root\tiputils-ping\n/usr/bin/su\t4755\troot:root\t-\n",
		},
		"none": {nil, "none\t\t\t\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			printPrivileged(&out, tc.files)
			require.Equal(t, "\nSET-USER-ID, SET-GROUP-ID, CAPABILITIES\tMODE\tOWNER\tPACKAGE\n"+tc.want, out.String())
		})
	}
}

func TestFilesOfTheConfigurationArePrinted(t *testing.T) {
	var out strings.Builder
	printOwn(&out, nil)
	require.Empty(t, out.String())
	printOwn(&out, []manifest.OwnFile{
		{From: "overlay/etc/a", Path: "/etc/a", Type: "file", Mode: "0640", Owner: "root", Group: "mosquitto", SHA256: "abc"},
		{From: "overlay/etc/b", Path: "/etc/b", Type: "symlink", Mode: "0777", Owner: "root", Group: "root", Target: "a"},
		{From: "overlay/srv/c", Path: "/srv/c", Type: "dir", Mode: "0755", Owner: "root", Group: "root"},
	})
	require.Equal(t, "\nFILE OF THE CONFIGURATION\tFROM\tMODE\tOWNER\tSHA-256\n"+
		"/etc/a\toverlay/etc/a\t0640\troot:mosquitto\tabc\n"+
		"/etc/b\toverlay/etc/b\t0777\troot:root\ta link to a\n"+
		"/srv/c\toverlay/srv/c\t0755\troot:root\ta directory\n", out.String())
}

func TestWhatAMediumMakesOfAMachineIsPrinted(t *testing.T) {
	nodes := []facts.Node{{Name: "edge-01"}}
	for name, tc := range map[string]struct {
		node, answers, want string
	}{
		"nothing":                  {"", "", ""},
		"a node":                   {"edge-01", "", "chooses\tthe node edge-01\n"},
		"a node that there is not": {"\x1b[2J", "", `chooses	no node: the image has none that is called "\x1b[2J"` + "\n"},
		"an answer file": {"edge-01", "node: edge-01\ndisk: {wwn: \"0x5000c500a1b2c3d4\"}\nstate: erase\n",
			"chooses\tthe node edge-01\ninstalls\tthe node edge-01 on the disk wwn:0x5000c500a1b2c3d4, state: erase, and then: restart\n"},
		"an answer file for a node that there is not": {"", "node: edge-99\ndisk: {serial: S5H9NX0R}\n",
			"installs\tnothing: /spore/answers:1:7: error: cluster.yaml has no node \"edge-99\"; did you mean \"edge-01\"?\n"},
		"no answer file": {"", "\x00", "installs\tnothing: /spore/answers:1:1: error: the control character 0x00 does not belong in YAML; remove it\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summary{Image: &image.Info{Node: tc.node, Answers: []byte(tc.answers)}, Cluster: Cluster{Nodes: []Node{{Name: "edge-01"}}}}
			s.readAnswers(nodes)
			var out strings.Builder
			s.printMedium(&out)
			require.Equal(t, tc.want, out.String())
		})
	}
}
