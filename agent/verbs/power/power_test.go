package power

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/majority"
	"spore/agent/verbs/verbstest"
	"spore/wire/nodeapi"
)

// call has a machine leave, and tells how often it did.
func call(t *testing.T, m *node.Machine, o nodeapi.Order, a majority.Absence, fails error) (verbstest.Answer, int) {
	t.Helper()
	left := 0
	answer := verbstest.Call(t, m, "reboot", o, func(ctx context.Context, r *verbs.Run) (string, error) {
		return leave(ctx, r, a, "restarts", func(ctx context.Context) error { left++; return errors.Join(fails, ctx.Err()) })
	})
	return answer, left
}

func TestAMachineLeavesWhenItHasSaidSo(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	nodetest.Put(t, m, paths.BootID, "b-1\n")
	a, left := call(t, m, nodeapi.Order{}, majority.Absence{What: "a restart of the machine", Returns: true}, nil)
	require.NoError(t, a.Err)
	require.Equal(t, "it restarts now", a.Done)
	require.JSONEq(t, `{"bootID":"b-1"}`, string(a.Results[0]))
	require.Equal(t, []string{"this node is the only member of kafka, which stands still meanwhile"}, a.Said)
	require.Equal(t, 1, left)
	require.True(t, majority.Leaves(m), "until it has restarted")
}

func TestAMachineThatIsNeededStays(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	a, left := call(t, m, nodeapi.Order{}, majority.Absence{What: "a shutdown"}, nil)
	require.ErrorContains(t, a.Err, "a shutdown takes away the only member of kafka; --force kafka does it nevertheless")
	require.Zero(t, left)
	require.False(t, majority.Leaves(m))
	a, left = call(t, m, nodeapi.Order{Force: "kafka"}, majority.Absence{What: "a shutdown"}, nil)
	require.NoError(t, a.Err)
	require.Equal(t, 1, left)
}

func TestALookTakesNothingAway(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	a, left := call(t, m, nodeapi.Order{DryRun: true}, majority.Absence{What: "a restart of the machine", Returns: true}, nil)
	require.NoError(t, a.Err)
	require.Equal(t, "a restart of the machine would be allowed now; nothing was done", a.Done)
	require.Zero(t, left)
	require.False(t, majority.Leaves(m))
}
