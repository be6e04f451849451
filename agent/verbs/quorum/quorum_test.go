package quorum

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/verbs/verbstest"
	"spore/wire/nodeapi"
)

func TestDataThatIsGivenUpKeepsANameOfItsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "metadata")
	for _, want := range []string{dir + ".given-up", dir + ".given-up-2", dir + ".given-up-3"} {
		require.NoError(t, os.Mkdir(dir, 0o700))
		kept, err := putAside(dir)
		require.NoError(t, err)
		require.Equal(t, want, kept)
		require.DirExists(t, kept)
		require.NoDirExists(t, dir)
	}
	kept, err := putAside(dir)
	require.NoError(t, err)
	require.Empty(t, kept, "there was nothing")
}

func TestAQuorumIsFormedByItsMembersAndByWordAlone(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	c, n, err := m.Self()
	require.NoError(t, err)
	order := func(quorum, confirm string) nodeapi.Order {
		return nodeapi.Order{Arguments: map[string]string{"quorum": quorum}, Confirm: confirm}
	}
	for name, tc := range map[string]struct {
		order nodeapi.Order
		want  string
	}{
		"of another service":  {order("etcd", "etcd"), `kafka-1 is no member of a quorum "etcd"`},
		"unknown":             {order("chess", "chess"), `kafka-1 is no member of a quorum "chess"`},
		"without the word":    {order("kafka", ""), `the order repeats "", and this is about kafka; nothing was done`},
		"with another's word": {order("kafka", "etcd"), `the order repeats "etcd", and this is about kafka; nothing was done`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &verbstest.Programs{}
			_, _, err := verbstest.Do(t, m, c, n, Verbs{Run: p.Run}.Form, tc.order)
			require.EqualError(t, err, tc.want)
			require.Empty(t, p.Called)
		})
	}
	p := &verbstest.Programs{}
	dry := order("kafka", "")
	dry.DryRun = true
	events, done, err := verbstest.Do(t, m, c, n, Verbs{Run: p.Run}.Form, dry)
	require.NoError(t, err)
	require.Contains(t, verbstest.Said(events), "kafka-1 ")
	require.Contains(t, done, "nothing was changed; what is given up has to be named: --lose kafka-1")
	require.Empty(t, p.Called)
}

func TestOnlyAMemberWhoseQuorumServesWithoutItIsForgotten(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	c, n, err := m.Self()
	require.NoError(t, err)
	order := nodeapi.Order{Arguments: map[string]string{"quorum": "kafka"}, Confirm: "kafka-1"}
	p := &verbstest.Programs{}
	_, _, err = verbstest.Do(t, m, c, n, Verbs{Run: p.Run}.Forget, order)
	require.ErrorContains(t, err, "--force kafka", "it is the only one")
	require.Empty(t, p.Called)

	data := m.Root.At("/var/lib/kafka/metadata")
	require.NoError(t, os.MkdirAll(data, 0o700))
	p = &verbstest.Programs{Answer: map[string]string{"stop": "exit 0", "start": "exit 0"}}
	order.Force = "kafka"
	_, done, err := verbstest.Do(t, m, c, n, Verbs{Run: p.Run}.Forget, order)
	require.NoError(t, err)
	require.Equal(t, "kafka of kafka-1 joins the others; what this node had is kept in "+data+".given-up", done)
	require.DirExists(t, data+".given-up")
	require.Equal(t, []string{"systemctl stop kafka.service", "systemctl start --no-block kafka.service"}, p.Called)
}
