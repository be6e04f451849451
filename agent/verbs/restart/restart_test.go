package restart

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// fake is a systemd of a test.
type fake struct {
	needs     map[string][]string
	fails     error
	is        string
	restarted []string
}

func (f *fake) pulled(_ context.Context, unit string) ([]string, error) { return f.needs[unit], nil }

func (f *fake) restart(_ context.Context, unit string) error {
	f.restarted = append(f.restarted, unit)
	return f.fails
}

func (f *fake) state(context.Context, string) (string, error) { return f.is, nil }

func call(t *testing.T, m *node.Machine, f *fake, o nodeapi.Order, osds ...string) verbstest.Answer {
	t.Helper()
	return verbstest.Call(t, m, "restart", o, func(ctx context.Context, r *verbs.Run) (string, error) {
		units, err := find(r.Cluster, r.Node, osds, r.Argument("unit", ""))
		if err != nil {
			return "", err
		}
		return restart(ctx, r, f, units)
	})
}

func unit(name string) nodeapi.Order {
	return nodeapi.Order{Arguments: map[string]string{"unit": name}}
}

func TestOnlyUnitsOfTheNodesRolesAreRestarted(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	for name, want := range map[string]string{
		"mosquitto": "mosquitto.service", "mosquitto.service": "mosquitto.service", "mqtt-broker": "mosquitto.service",
		"dns-server": "coredns.service", "spore-agent": "spore-agent.service", "ceph-osd-disk@2": "ceph-osd-disk@2.service",
	} {
		f := &fake{is: "active"}
		a := call(t, m, f, unit(name), "ceph-osd-disk@2.service")
		require.NoError(t, a.Err, name)
		require.Equal(t, "restarted "+want, a.Done)
		require.Equal(t, []string{"restarts " + want + ", and waits until it is active"}, a.Said)
		require.Equal(t, []string{want}, f.restarted)
	}
	for _, name := range []string{
		"var.mount", "dbus", "systemd-networkd", "spore-act.socket", "mqtt.target", "kafka", "kafka-broker", "ceph-osd-disk@3", "reboot.target",
	} {
		f := &fake{is: "active"}
		a := call(t, m, f, unit(name), "ceph-osd-disk@2.service")
		require.ErrorContains(t, a.Err, "is not a unit that can be restarted on node-00000; those are ceph-osd-disk@2.service, coredns.service", name)
		require.Empty(t, f.restarted)
	}
	for _, name := range []string{"", "a b", "mosquitto*", "../x", strings.Repeat("x", 300), "x\n"} {
		require.Error(t, call(t, m, &fake{}, unit(name)).Err, "%q", name)
	}
}

func TestALookRestartsNothing(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	f := &fake{is: "active"}
	o := unit("mosquitto")
	o.DryRun = true
	a := call(t, m, f, o)
	require.NoError(t, a.Err)
	require.Equal(t, "would restart mosquitto.service; nothing was done", a.Done)
	require.Empty(t, f.restarted)
}

func TestAUnitThatDoesNotComeUpIsSaidToHaveFailed(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	a := call(t, m, &fake{fails: errors.New(`restart mosquitto.service: the job of systemd ended with "failed"`)}, unit("mosquitto"))
	require.ErrorContains(t, a.Err, `ended with "failed"`)
	require.ErrorContains(t, a.Err, "spore logs node-00000 mosquitto.service")
	a = call(t, m, &fake{is: "failed"}, unit("mosquitto"))
	require.ErrorContains(t, a.Err, "mosquitto.service was restarted, and has failed since")
}

func TestAUnitThatTakesAMemberOfAQuorumWithItIsHeldToTheMajority(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")["kafka-1"] // The others do not answer.
	line := status.Line{Spore: 1, Services: map[string]string{"kafka.service": "active"}}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Status), line))
	for name, f := range map[string]*fake{
		"kafka":       {is: "active"},
		"spore-agent": {is: "active", needs: map[string][]string{"spore-agent.service": {"x.service"}, "x.service": {"kafka.service", "spore-agent.service"}}},
	} {
		a := call(t, m, f, unit(name))
		// No other one serves, so that there is no majority to lose.
		require.NoError(t, a.Err)
		require.Contains(t, strings.Join(a.Said, "\n"), "kafka has no majority that needs this node: 0 of 3 members serve", name)
		require.NoFileExists(t, m.Root.At(paths.Leaving))
	}
	a := call(t, m, &fake{is: "active"}, unit("spore-agent"))
	require.NoError(t, a.Err)
	require.NotContains(t, strings.Join(a.Said, "\n"), "majority")
}
