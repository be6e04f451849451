//go:build e2e

package e2e

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/netboot"
	"spore/builder/vm"
	"spore/pki/enroll"
)

// TestAPersonChoosesWhichNodeAMachineIs has somebody choose a node with the keys of a machine that matches none. The
// machine restarts as that node, asks the operator for its bundle, and runs when it has it. Another machine that claims
// the same node is refused. The disk has no room for state, so that the choice is undone in the same way.
func TestAPersonChoosesWhichNodeAMachineIs(t *testing.T) {
	inTurn(t)
	// As large as the image, which leaves no room.
	disk := filepath.Join(t.TempDir(), "disk.img")
	o := newOffice(t)
	configs := editedConfigs(t, [3]string{"cluster.yaml", "domain: plant.example\n", "domain: plant.example\nenroll: " + o.seen + "\n"})
	require.NoError(t, spore("customize", suite.image, "--config", configs, "--pki", suite.dir, "-o", disk))
	c := stranger("choice", "8", "10.77.0.70", "", bootDisk(disk))
	c.Display, c.Reboots = true, true
	g := boot(t, c)
	s := g.settled()
	require.Empty(t, s.Node, s.Raw)
	require.Contains(t, s.Problem, "in no file of the configuration")
	require.Eventually(t, func() bool {
		now, err := g.Screen()
		return err == nil && hasTitle(now)
	}, bootLimit, time.Second, "the monitor has no page")
	before := g.picture(t, "choice-status")

	turns := func(name string, keys ...string) {
		t.Helper()
		g.press(t, keys...)
		require.Eventually(t, func() bool {
			now, err := g.Screen()
			return err == nil && hasTitle(now) && !same(before, now)
		}, bootLimit, time.Second, "nothing changes when %v is pressed", keys)
		before = g.picture(t, name)
	}
	turns("choice-asked", "n")
	// The list is asked for by a process of its own, which takes as long as it takes; what is typed before is kept.
	turns("choice-typed", "m", "q", "t", "t", "minus", "0", "1")
	from := before
	require.Eventually(t, func() bool {
		g.press(t, "ret") // Until there is a list to take it from, which asks for it again.
		now, err := g.Screen()
		return err == nil && !same(from, now)
	}, bootLimit, 5*time.Second, "the node is not taken from the list")
	before = g.picture(t, "choice-taken")

	turns("choice-wrong", "m", "q", "t", "t", "minus", "0", "2", "ret") // It is another name.
	turns("choice-named", "backspace", "1")
	g.press(t, "ret")
	g.awaitLine(`the node mqtt-01 was chosen at this machine`)
	s = g.await("a status line of the node", func(s vm.Status) bool { return s.Node == "mqtt-01" })
	requireMatched(t, s, "mqtt-01", "esp", "mqtt-01")
	s = g.await("the fingerprint of a key that waits for approval", func(s vm.Status) bool {
		return s.Bundle.Fingerprint != "" && s.Times["running"] > 0 && len(s.Held) == 1 && strings.Contains(s.Held[0].Reason, s.Bundle.Fingerprint)
	})
	require.Contains(t, s.Bundle.Problem, "no bundle came with the machine; waiting for the operator to approve the key of this machine (spore approve) at "+o.seen)
	require.Equal(t, "mqtt-broker", s.Held[0].Role, "a choice brings no secret")
	require.Equal(t, "tmpfs", s.State.Kind, s.Raw)
	fingerprint := s.Bundle.Fingerprint
	require.Eventually(t, func() bool {
		now, err := g.Screen()
		return err == nil && hasTitle(now)
	}, bootLimit, time.Second, "the monitor has no page")
	before = g.picture(t, "choice-asks")
	turns("choice-asks-secrets", "7")
	turns("choice-asks-again", "1")

	require.Equal(t, "waiting", o.state(t, fingerprint))
	said, err := o.spore(t, "approve", o.out, fingerprint, "--pki", suite.dir)
	require.NoError(t, err, said)
	s = g.await("the role that waited for the approval", func(s vm.Status) bool {
		return s.Bundle.Serial > 0 && len(s.Held) == 0 && s.Services["mosquitto.service"] == "active"
	})
	require.Equal(t, "network", s.Bundle.From)
	require.Empty(t, s.Bundle.Fingerprint)
	require.Empty(t, s.Failed)
	g.picture(t, "choice-runs")
	o.refusesASecond(t, fingerprint)

	require.Eventually(t, func() bool {
		now, err := g.Screen()
		return err == nil && hasTitle(now)
	}, bootLimit, time.Second, "the monitor has no page")
	g.press(t, "n")
	undone := regexp.MustCompile(`the choice of the node mqtt-01 was undone`)
	require.Eventually(t, func() bool {
		if _, ok := g.Console.Find(g.mark, undone); ok {
			return true
		}
		// What was typed before the question was there was meant for a list.
		for range len("mqtt-01") {
			g.press(t, "backspace")
		}
		g.press(t, "m", "q", "t", "t", "minus", "0", "1")
		g.picture(t, "choice-undo")
		g.press(t, "ret")
		return false
	}, bootLimit, 10*time.Second, "the choice is not undone")
	s = g.await("a status line of a machine that matches no node", func(s vm.Status) bool { return s.Node == "" && s.Problem != "" })
	require.Contains(t, s.Problem, "in no file of the configuration")
}

// office is where the operator sits: a `spore serve` that boots no machine, on the loopback of this host, which a machine
// reaches at the address of its router.
type office struct {
	out string
	// base is where it answers, and seen the same as a machine sees it.
	base, seen string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	o := &office{out: t.TempDir(), base: "http://127.0.0.1:" + port + "/", seen: "http://10.77.0.2:" + port + "/"}
	// The server is nobody, where root starts it. It reads the nodes alone, and looks whether it could read more.
	require.NoError(t, os.Chmod(filepath.Dir(o.out), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(o.out, "netboot"), 0o755))
	for _, name := range []string{"netboot/cluster.squashfs", "netboot/cmdline"} {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(suite.image), name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(o.out, name), data, 0o644))
	}

	cmd := exec.Command(flashTool(t), "serve", o.out, "--interface", "127.0.0.1", "--dhcp", "off", "--tftp-port", "off", "--http-port", port)
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	in, err := cmd.StdinPipe() // Open, and nobody types.
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
		if t.Failed() {
			t.Logf("spore serve said:\n%s", said.String())
		}
	})
	require.Eventually(t, func() bool { return strings.Contains(said.String(), " at "+o.base) }, time.Minute, 50*time.Millisecond, "spore serve does not answer")
	return o
}

func (o *office) spore(t *testing.T, args ...string) (string, error) {
	t.Helper()
	said, err := exec.Command(flashTool(t), args...).CombinedOutput()
	return string(said), err
}

// state is that of a machine in the operator's list.
func (o *office) state(t *testing.T, fingerprint string) string {
	t.Helper()
	said, err := o.spore(t, "approve", o.out, "--json")
	require.NoError(t, err, said)
	var s netboot.State
	require.NoError(t, json.Unmarshal([]byte(said), &s))
	for _, r := range s.Requests {
		if r.Fingerprint == fingerprint {
			return r.State
		}
	}
	return "not there: " + said
}

// refusesASecond has another machine claim the node of the machine with that fingerprint.
func (o *office) refusesASecond(t *testing.T, first string) {
	t.Helper()
	key, err := enroll.NewKey()
	require.NoError(t, err)
	claim := enroll.NewClaim(enroll.Claim{Cluster: suite.cluster.ID, Node: "mqtt-01", Key: key.Public(), MACs: []string{foreignMAC + "9"}})
	answer, err := enroll.Client{Base: o.base}.Ask(t.Context(), claim)
	require.NoError(t, err)
	require.Nil(t, answer.Sealed)
	require.Equal(t, enroll.Given, answer.Pending.State)
	require.Equal(t, first, answer.Pending.Holder)
	require.WithinDuration(t, time.Now(), answer.Pending.Since, bootLimit)
	require.Equal(t, enroll.Given, o.state(t, claim.Fingerprint()))

	said, err := o.spore(t, "approve", o.out, claim.Fingerprint(), "--pki", suite.dir)
	require.Error(t, err)
	require.Contains(t, said, "mqtt-01 has been given to another machine (fingerprint "+first+", approved ")
	require.Contains(t, said, "--replace")
	answer, err = enroll.Client{Base: o.base}.Ask(t.Context(), claim)
	require.NoError(t, err)
	require.Equal(t, enroll.Given, answer.Pending.State)
	require.Equal(t, enroll.Approved, o.state(t, first))
}

// press presses keys one after the other, as a person does.
func (g *guest) press(t *testing.T, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, g.Press(k))
	}
}
