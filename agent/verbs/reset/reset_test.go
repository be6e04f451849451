package reset

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/disks"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/wire/nodeapi"
)

// what was done, in its order.
func call(t *testing.T, m *node.Machine, loss disks.Loss, o nodeapi.Order, fails error) (a verbstest.Answer, did []string) {
	t.Helper()
	a = verbstest.Call(t, m, "reset", o, func(ctx context.Context, r *verbs.Run) (string, error) {
		give := func() error { did = append(did, "give"); return fails }
		stop := func(_ context.Context, unit string) error { did = append(did, "stop "+unit); return nil }
		restart := func() error { did = append(did, "restart"); return nil }
		return reset(ctx, r, loss, give, stop, restart)
	})
	return a, did
}

var (
	state = disks.Loss{Disk: "/dev/sda", Name: "S1", Size: 1 << 30, State: true, InUse: true}
	osd   = disks.Loss{Disk: "/dev/sdb", Name: "S2", Size: 1 << 30, Whole: true, InUse: true, Unit: "ceph-osd-disk@1.service"}
	kafka = disks.Loss{Disk: "/dev/sdc", Name: "S3", Size: 1 << 30, Whole: true, InUse: true}
)

func TestStateIsDeletedAndTheMachineRestarted(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	a, did := call(t, m, state, nodeapi.Order{Confirm: "S1"}, nil)
	require.NoError(t, a.Err)
	require.Equal(t, []string{"give", "restart"}, did)
	require.Contains(t, a.Done, "deleted all state on the boot disk /dev/sda (serial S1), the node's bundle with it; the machine restarts now")
	var shown disks.Loss
	require.Len(t, a.Results, 1)
	require.NoError(t, json.Unmarshal(a.Results[0], &shown))
	require.Equal(t, state, shown)
}

func TestTheDiskOfAnOSDIsFreedFirst(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	a, did := call(t, m, osd, nodeapi.Order{Confirm: "S2"}, nil)
	require.NoError(t, a.Err)
	require.Equal(t, []string{"stop ceph-osd-disk@1.service", "give"}, did)
	require.Contains(t, a.Done, "deleted everything on /dev/sdb (serial S2, 1024 MiB); the next start of the machine makes it anew (spore reboot node-00000)")
}

func TestWithoutTheRightWordNothingIsDone(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	for _, confirm := range []string{"S2", "s1", "node-00000", "/dev/sda"} {
		a, did := call(t, m, state, nodeapi.Order{Confirm: confirm}, nil)
		require.ErrorContains(t, a.Err, "nothing was changed")
		require.Empty(t, did)
	}
	_, did := call(t, m, state, nodeapi.Order{}, nil)
	require.Empty(t, did)
}

func TestALookDeletesNothing(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	for want, loss := range map[string]disks.Loss{
		"would delete all state on the boot disk /dev/sda (serial S1), the node's bundle with it, and restart the machine at once; nothing was done": state,
		"would delete everything on /dev/sdb (serial S2, 1024 MiB); nothing was done":                                                                osd,
		"would refuse to delete everything on /dev/sdc (serial S3, 1024 MiB), which is in use":                                                       kafka,
	} {
		a, did := call(t, m, loss, nodeapi.Order{DryRun: true}, nil)
		require.NoError(t, a.Err)
		require.Equal(t, want, a.Done)
		require.Empty(t, did)
	}
}

func TestADiskThatCannotBeResetRestartsNothing(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	a, did := call(t, m, state, nodeapi.Order{Confirm: "S1"}, errors.New("the disk is broken"))
	require.EqualError(t, a.Err, "the disk is broken")
	require.Equal(t, []string{"give"}, did)
}

func TestTheStateOfTheOnlyMemberOfAQuorumIsDeletedByForceAlone(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	a, did := call(t, m, state, nodeapi.Order{Confirm: "S1"}, nil)
	require.ErrorContains(t, a.Err, "a reset of the state takes away the only member of kafka; --force kafka does it nevertheless")
	require.Empty(t, did)
	a, did = call(t, m, state, nodeapi.Order{Confirm: "S1", Force: "kafka"}, nil)
	require.NoError(t, a.Err)
	require.Equal(t, []string{"give", "restart"}, did)
	require.FileExists(t, m.Root.At(paths.Leaving), "until the restart")
	_, did = call(t, m, osd, nodeapi.Order{Confirm: "S2"}, nil)
	require.Equal(t, []string{"stop ceph-osd-disk@1.service", "give"}, did, "a disk of an OSD is no member")
}
