package identity

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClaimsListsAllNodesWithTheirHardware(t *testing.T) {
	index, err := Build([]Node{
		{Name: "mqtt-01", MACs: []string{"52-54-00-77-00-0C", "52:54:00:77:00:0d"}, IPs: []string{"10.77.0.12"}},
		{Name: "dns-01", Hostnames: []string{"dns-01", "dns-01.plant.example"}},
		{Name: "kafka-01", Serial: "CZ1", UUID: "5b1c0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"},
	})
	require.NoError(t, err)
	x, err := FromBytes(index)
	require.NoError(t, err)
	got, err := x.Claims()
	require.NoError(t, err)
	serial, err := Normalize(Serial, "CZ1")
	require.NoError(t, err)
	require.Equal(t, []Claims{
		{Node: "dns-01"},
		{Node: "kafka-01", Serial: serial, UUID: "5b1c0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"},
		{Node: "mqtt-01", MACs: []string{"52:54:00:77:00:0c", "52:54:00:77:00:0d"}},
	}, got)
}

func TestWhatSpeaksForAndAgainstANode(t *testing.T) {
	serial, err := Normalize(Serial, "CZ1")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		claims      Claims
		facts       Facts
		pro, contra []string
	}{
		"no claims":            {Claims{}, Facts{MACs: []string{"52:54:00:77:00:0b"}, Serial: "X1"}, nil, nil},
		"its card":             {Claims{MACs: []string{"52:54:00:77:00:0b", "52:54:00:77:00:0c"}}, Facts{MACs: []string{"52-54-00-77-00-0C"}}, []string{"card 52:54:00:77:00:0c"}, nil},
		"other cards":          {Claims{MACs: []string{"52:54:00:77:00:0b", "52:54:00:77:00:0c"}}, Facts{MACs: []string{"52:54:00:99:00:01"}}, nil, []string{"card 52:54:00:77:00:0b and 1 more"}},
		"a machine of no card": {Claims{MACs: []string{"52:54:00:77:00:0b"}}, Facts{}, nil, nil},
		"its serial number and another card": {
			Claims{MACs: []string{"52:54:00:77:00:0b"}, Serial: serial}, Facts{MACs: []string{"52:54:00:99:00:01"}, Serial: "CZ1"},
			[]string{"serial number " + serial}, []string{"card 52:54:00:77:00:0b"},
		},
		"another serial number":                  {Claims{Serial: serial}, Facts{Serial: "CZ2"}, nil, []string{"serial number " + serial}},
		"a serial number that many vendors give": {Claims{Serial: serial}, Facts{Serial: "To be filled by O.E.M."}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pro, contra := tc.claims.Compare(tc.facts)
			require.Equal(t, tc.pro, pro)
			require.Equal(t, tc.contra, contra)
		})
	}
}

func TestADamagedIndexHasNoClaims(t *testing.T) {
	for _, text := range []string{"mac\tx\n", "mac\tx\tA b\n", "a\tb\tc\td\n", "name\tx\tx"} {
		x, err := FromBytes([]byte(header + text))
		require.NoError(t, err)
		_, err = x.Claims()
		require.ErrorContains(t, err, "read identity index", text)
	}
}

func TestAThousandNodesAreListedAtOnce(t *testing.T) {
	var nodes []Node
	for i := range 1000 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("node-%04d", i), MACs: []string{fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255)}})
	}
	index, err := Build(nodes)
	require.NoError(t, err)
	x, err := FromBytes(index)
	require.NoError(t, err)
	began := time.Now()
	got, err := x.Claims()
	require.NoError(t, err)
	require.Len(t, got, 1000)
	require.Less(t, time.Since(began), 5*time.Second)
}

func FuzzClaims(f *testing.F) {
	f.Add([]byte(header + "mac\t52:54:00:77:00:0b\tedge-01\n"))
	f.Add([]byte(header))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := FromBytes(data)
		if err != nil {
			return
		}
		list, err := x.Claims()
		for _, c := range list {
			require.NoError(t, err)
			c.Compare(Facts{MACs: []string{"52:54:00:77:00:0b"}, Serial: "CZ1"})
		}
	})
}
