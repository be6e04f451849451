package verbs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/wire/nodeapi"
)

func TestWhatANodeGivesIsKeptAsFarAsThereIsRoom(t *testing.T) {
	var out strings.Builder
	k := taking{node: "a", mu: new(sync.Mutex), out: &out}
	require.NoError(t, k.take(nodeapi.Event{Say: "it\x1b[2J waits"}))
	require.Equal(t, "a: it\\x1b[2J waits\n", out.String())
	part := json.RawMessage(`"` + strings.Repeat("x", 1<<20-partCost-2) + `"`)
	for range 64 {
		require.NoError(t, k.take(nodeapi.Event{Result: part}))
	}
	require.EqualError(t, k.take(nodeapi.Event{Result: []byte("1")}), "its results have more than 64 MiB")
	require.Len(t, k.reply.Results, 64)

	k = taking{node: "a", mu: new(sync.Mutex), out: io.Discard}
	var err error
	n := 0
	for ; err == nil && n <= 2*maxSaid; n++ {
		err = k.take(nodeapi.Event{Say: "x"})
	}
	require.EqualError(t, err, "it says more than 100000 lines")
	require.Equal(t, maxSaid+1, n)

	seen := ""
	k = taking{node: "a", mu: new(sync.Mutex), see: func(node string, part json.RawMessage) error {
		seen = node + string(part)
		return io.ErrShortWrite
	}}
	require.ErrorIs(t, k.take(nodeapi.Event{Result: []byte("1")}), io.ErrShortWrite)
	require.Equal(t, "a1", seen)
	require.Empty(t, k.reply.Results, "who sees the parts keeps them")
}

func TestTheFirstThatLooksIsEnoughAndEachThatDoesNotSaysWhy(t *testing.T) {
	identity := func() (nodeapi.Identity, error) { return nodeapi.Identity{}, errors.New("no certificate") }
	c := &fleet.Cluster{Timeout: time.Second, Client: nodeapi.Client{Identity: identity}, Nodes: []facts.Node{
		{Name: "a", Roles: []string{"ceph-mon"}}, {Name: "b"}, {Name: "c", Roles: []string{"ceph-mon"}},
	}}
	_, err := First(t.Context(), c, "ceph-mon", Row("ceph-status"), nodeapi.Order{}, io.Discard)
	require.ErrorContains(t, err, "a: ")
	require.ErrorContains(t, err, "c: ")
	require.NotContains(t, err.Error(), "b: ", "it has not the role")
	require.Len(t, c.Nodes, 3, "the cluster stays as it was")
	_, err = First(t.Context(), c, "kafka-broker", Row("kafka-topics"), nodeapi.Order{}, io.Discard)
	require.ErrorContains(t, err, "no node that is asked has the role kafka-broker")

	k := taking{node: "a", mu: new(sync.Mutex), out: io.Discard, most: 1 << 20}
	require.EqualError(t, k.take(nodeapi.Event{Result: bytes.Repeat([]byte("1"), 1<<20)}), "its results have more than 1 MiB")
}
