package adopt

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/state"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/wire/nodeapi"
)

const (
	other  = "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"
	lost   = "4d1219c7-c4c5-404a-aa1f-6d2a48adfda4"
	locked = "5d1219c7-c4c5-404a-aa1f-6d2a48adfda4"
)

func call(t *testing.T, o nodeapi.Order, fails error) (a verbstest.Answer, taken []string) {
	t.Helper()
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	candidates := []state.Candidate{
		{Disk: "/dev/sda", Serial: "S1", Partition: other, Cluster: "c", Node: "edge-02"},
		{Disk: "/dev/sdb", Serial: "S2", Partition: lost, Problem: state.Ownerless},
		{Disk: "/dev/sdb", Serial: "S2", Partition: locked, Problem: "it is encrypted"},
	}
	a = verbstest.Call(t, m, "adopt", o, func(_ context.Context, r *verbs.Run) (string, error) {
		return adopt(r, candidates, func(c state.Candidate) error { taken = append(taken, c.Disk+" "+c.Partition); return fails })
	})
	return a, taken
}

func order(partition, confirm string, dry bool) nodeapi.Order {
	return nodeapi.Order{Arguments: map[string]string{"partition": partition}, Confirm: confirm, DryRun: dry}
}

func TestAPartitionIsAdopted(t *testing.T) {
	a, taken := call(t, order(other, other, false), nil)
	require.NoError(t, a.Err)
	require.Equal(t, []string{"/dev/sda " + other}, taken)
	require.Equal(t, other+" on /dev/sda is this node's from now on; the next start of the machine uses it (spore reboot node-00000)", a.Done)
	_, taken = call(t, order(lost, lost, false), nil)
	require.Equal(t, []string{"/dev/sdb " + lost}, taken, "one that does not say whose it is")
	a, _ = call(t, order(other, other, false), errors.New("it is in use"))
	require.EqualError(t, a.Err, "it is in use")
}

func TestALookAdoptsNothing(t *testing.T) {
	for partition, want := range map[string]string{
		"":    "3 partitions have state that is not this node's; nothing was done",
		other: "would make " + other + ` on /dev/sda, which is that of node "edge-02" of cluster "c", this node's; nothing was done`,
		lost:  "would make " + lost + " on /dev/sdb, which is nobody's, this node's; nothing was done",
	} {
		a, taken := call(t, order(partition, "", true), nil)
		require.NoError(t, a.Err)
		require.Equal(t, want, a.Done)
		require.Len(t, a.Results, 1)
		require.Empty(t, taken)
	}
}

func TestWhatIsNotAdopted(t *testing.T) {
	for name, tc := range map[string]struct {
		order nodeapi.Order
		want  string
	}{
		"without a confirmation":  {order(other, "", false), "has to repeat what"},
		"with another one":        {order(other, lost, false), "nothing was changed"},
		"the node's name":         {order(other, "node-00000", false), "nothing was changed"},
		"without a partition":     {order("", "x", false), "the partition is missing"},
		"one that is not there":   {order("6d1219c7-c4c5-404a-aa1f-6d2a48adfda4", "6d1219c7-c4c5-404a-aa1f-6d2a48adfda4", false), "no disk has state"},
		"one that is encrypted":   {order(locked, locked, false), "cannot be adopted: it is encrypted; nothing was changed"},
		"no PARTUUID":             {order("/dev/sda1", "/dev/sda1", false), "is not a PARTUUID"},
		"one with other letters":  {order("zd1219c7-c4c5-404a-aa1f-6d2a48adfda4", "x", false), "is not a PARTUUID"},
		"one that is too long":    {order(other+"0", "x", false), "is not a PARTUUID"},
		"encrypted, with a look ": {order(locked, "", true), "cannot be adopted"},
	} {
		t.Run(name, func(t *testing.T) {
			a, taken := call(t, tc.order, nil)
			require.ErrorContains(t, a.Err, tc.want)
			require.Empty(t, taken)
		})
	}
}
