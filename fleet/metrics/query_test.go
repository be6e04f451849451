package metrics

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/services/metrics"
	"spore/wire/nodeapi"
)

func TestAQueryWithoutAStoreSaysWhatIsMissing(t *testing.T) {
	c := &fleet.Cluster{}
	_, _, err := Query(t.Context(), c, nodeapi.Order{Arguments: map[string]string{"query": "up"}})
	require.ErrorContains(t, err, "no node has the role metrics-store")
	_, _, err = Query(t.Context(), c, nodeapi.Order{})
	require.ErrorContains(t, err, "query is missing")
}

func TestEachStoreThatDoesNotAnswerIsNamed(t *testing.T) {
	c := &fleet.Cluster{
		Facts: facts.Cluster{Members: map[string][]string{metrics.Role: {"m-1", "m-2"}}},
		Client: nodeapi.Client{
			Identity:  func() (nodeapi.Identity, error) { return nodeapi.Identity{}, nil },
			Addresses: func(string) ([]string, error) { return nil, nil },
		},
	}
	_, _, err := Query(t.Context(), c, nodeapi.Order{Arguments: map[string]string{"query": "up"}})
	require.ErrorContains(t, err, "m-1: ")
	require.ErrorContains(t, err, "m-2: ")
}

func TestThePartsOfAnAnswerAreOne(t *testing.T) {
	all, err := Read([]json.RawMessage{[]byte(`[{"samples":[{"at":1,"value":"2"}]}]`), []byte(`[{"labels":{"a":"b"},"samples":[]}]`)})
	require.NoError(t, err)
	require.Len(t, all, 2)
	_, err = Read([]json.RawMessage{[]byte(`{}`)})
	require.ErrorContains(t, err, "malformed")
}
