//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/client"
)

// pushed is what a status line says of configurations.
type pushed struct {
	Configuration struct {
		ClusterHash string `json:"clusterHash"`
		Serial      uint64 `json:"serial"`
		Trial       bool   `json:"trial"`
		Staged      string `json:"staged"`
		Live        bool   `json:"live"`
		Problem     string `json:"problem"`
	} `json:"configuration"`
}

func configurationOf(t *testing.T, s vm.Status) pushed {
	t.Helper()
	var p pushed
	require.NoError(t, json.Unmarshal([]byte(s.Raw), &p))
	return p
}

// One machine, started four times: as it was installed, when it serves its clients, with a good configuration, which it
// took before while it ran, with a bad one, and with the good one again.
func TestAPushedConfigurationIsTakenAndABadOneComesBackByItself(t *testing.T) {
	inTurn(t)
	good := editedConfigs(t, [3]string{"services/dns.yaml", "  - name: mqtt\n", "  - name: pushed\n    addresses: [10.77.0.98]\n  - name: mqtt\n"})
	// The node's bundle has no such password, so that the role of the broker cannot start. The bound counts from the start
	// of the kernel, and an emulated machine has its state only after a minute.
	bad := editedConfigs(t,
		[3]string{"services/dns.yaml", "  - name: mqtt\n", "  - name: bad\n    addresses: [10.77.0.97]\n  - name: mqtt\n"},
		[3]string{"services/mqtt.yaml", "{secretRef: mqtt-password-operator}", "{secretRef: mqtt-password-nobody}"},
		[3]string{"cluster.yaml", "domain: plant.example\n", "domain: plant.example\n\ntrialMinutes: 2\n"},
	)
	b := newBroker(t)
	c := edge("push", bootDisk(overlay(t)))
	c.SMBIOS, c.Reboots = b.bundle(t, "edge-01"), true
	// The shell is for looking at what they did.
	c.SMBIOS.Credentials, c.SMBIOS.KernelArguments = hostileCredentials(c.SMBIOS.Credentials), []string{"spore.console"}
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
	g := boot(t, c)
	began := g.running()
	servesItsClients(t, b, g, began)
	first := configurationOf(t, began).Configuration
	require.Zero(t, first.Serial)
	require.Empty(t, first.Problem)
	api, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	push := func(configs string, more ...string) (string, error) {
		start := time.Now()
		args := append([]string{"push", configs, "--image", suite.image, "--pki", suite.dir, "--node", "edge-01", "--address", "edge-01=" + api}, more...)
		if len(more) > 0 {
			args = append(args, "--without", "mqtt-01,dns-01") // They share its roles, and are in no network of this test.
		}
		out, err := exec.Command(flashTool(t), args...).CombinedOutput()
		t.Logf("push took %.0f s:\n%s", time.Since(start).Seconds(), out)
		return string(out), err
	}
	dns, err := g.Address("udp", edgeIP+":53")
	require.NoError(t, err)
	answers := func(name, want string) {
		t.Helper()
		a, err := client.Ask("udp", dns, name+"."+suite.cluster.Domain, "A")
		require.NoError(t, err)
		require.Equal(t, want, a.Code, name)
	}
	answers("pushed", "NXDOMAIN")

	text, err := push(good)
	require.NoError(t, err)
	require.Contains(t, text, "edge-01 has it in effect, after a restart of coredns.service")
	answers("pushed", "NOERROR")
	staged := configurationOf(t, g.await("a status line with a staged configuration", func(s vm.Status) bool {
		return configurationOf(t, s).Configuration.Live
	})).Configuration
	require.Equal(t, first.ClusterHash, staged.ClusterHash, "it is what the machine was started with")
	require.NotEqual(t, first.ClusterHash, staged.Staged)

	t.Run("its operator makes room on a full disk", func(t *testing.T) {
		makesRoomForItsOperator(t, b, g, asker(t, api, 2*time.Minute))
	})
	t.Run("its operator gets in by a clock that is too early", func(t *testing.T) {
		letsItsOperatorInByAnEarlyClock(t, g, asker(t, api, 2*time.Minute))
	})

	// As it comes on a stick from somebody with the image and the keys.
	folder := filepath.Join(t.TempDir(), "update")
	require.NoError(t, spore("push", good, "--image", suite.image, "--pki", suite.dir, "--output", folder+"/"))
	text, err = push(good, "--from", folder, "--reboot")
	require.NoError(t, err)
	require.Contains(t, text, "edge-01 is up with it")
	again := g.await("a status line of the pushed configuration", func(s vm.Status) bool {
		p := configurationOf(t, s).Configuration
		return p.Serial > 0 && !p.Trial
	})
	second := configurationOf(t, again).Configuration
	require.Equal(t, staged.Staged, second.ClusterHash)
	answers("pushed", "NOERROR")
	isTheSame(t, b, g, began, again)

	text, err = push(bad, "--reboot")
	require.Error(t, err)
	require.Contains(t, text, "went back to this configuration: waited")
	require.Contains(t, text, "role mqtt-broker is started (missing secrets mqtt-password-nobody")
	g.awaitLine(`the configuration is bad, going back to the one before`)
	back := configurationOf(t, g.await("a status line that says that it went back", func(s vm.Status) bool {
		return configurationOf(t, s).Configuration.Problem != ""
	})).Configuration
	require.Equal(t, second.ClusterHash, back.ClusterHash)
	answers("pushed", "NOERROR")
	answers("bad", "NXDOMAIN")
	_, stays := g.Console.Find(0, regexp.MustCompile(`spore-agent: the configuration is good: spore_10000000000\d\d_`))
	require.True(t, stays)
}
