package answers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/netnstest"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/pki"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

func TestMembersOfAQuorumTellEachOtherWhetherTheyServe(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		netnstest.Address(t, "lo", "10.77.0.11/32")
		machines, c, tree := nodetest.BrokersWithKeys(t, "10.77.0.11", "10.77.0.12")
		m := machines["kafka-1"]
		defer nodetest.Serve(t, m, Serve)()
		ask := func(client nodeapi.Client, service string) (nodeapi.Member, error) {
			var data []byte
			var err error
			require.Eventually(t, func() bool {
				data, err = client.Read(context.Background(), "kafka-1", nodeapi.Request{Path: nodeapi.QuorumPath + service}, 1<<20)
				_, refused := err.(nodeapi.Refusal)
				return err == nil || refused
			}, 20*time.Second, 20*time.Millisecond, "it listens")
			if err != nil {
				return nodeapi.Member{}, err
			}
			return nodeapi.ParseMember(data, service)
		}
		other := machines["kafka-2"].Client()
		_, err = ask(other, "kafka")
		require.ErrorContains(t, err, "503")

		line := status.Line{Spore: 1, Services: map[string]string{"kafka.service": "active"}}
		require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Status), line))
		members := []string{"kafka-1", "kafka-2"}
		is, err := ask(other, "kafka")
		require.NoError(t, err)
		require.Equal(t, nodeapi.Member{Service: "kafka", Of: members, Serves: true}, is)

		m.Mark(paths.Leaving, true)
		is, err = ask(other, "kafka")
		require.NoError(t, err)
		require.Equal(t, nodeapi.Member{Service: "kafka", Of: members, Leaving: true, Reason: "it is about to leave for a while"}, is)

		_, err = ask(other, "etcd")
		require.ErrorContains(t, err, "kafka-1 is not a member of such a service")
		_, err = ask(*operator(t, c, tree, pki.NodeAdmin), "kafka")
		require.ErrorContains(t, err, "403", "people ask for its health")
	})
}
