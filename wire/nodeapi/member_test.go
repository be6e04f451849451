package nodeapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatAMemberOfAQuorumSaysIsHeldToItsForm(t *testing.T) {
	m, err := ParseMember([]byte(`{"service":"etcd","of":["a","b"],"serves":true}`), "etcd")
	require.NoError(t, err)
	require.Equal(t, Member{Service: "etcd", Of: []string{"a", "b"}, Serves: true}, m)
	m, err = ParseMember([]byte(`{"service":"etcd","of":["a"],"serves":false,"reason":"it waits"}`), "etcd")
	require.NoError(t, err)
	require.False(t, m.Serves)
	for text, want := range map[string]string{
		``:                    "malformed",
		`[]`:                  "malformed",
		`{"service":"kafka"}`: `it answers for "kafka"`,
		`{"service":"etcd"}`:  "contradicts itself",
		`{"service":"etcd","serves":true,"reason":"x"}`: "contradicts itself",
	} {
		_, err := ParseMember([]byte(text), "etcd")
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseMember(f *testing.F) {
	f.Add([]byte(`{"service":"etcd","of":["a","b"],"serves":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := ParseMember(data, "etcd"); err == nil {
			require.Equal(t, m.Serves, m.Reason == "")
		}
	})
}

func TestTheChecksOfVerbs(t *testing.T) {
	for verb, values := range map[string]map[string][2][]string{
		"adopt": {"partition": {{"3d1219c7-c4c5-404a-aa1f-6d2a48adfda4", "3D1219C7-C4C5-404A-AA1F-6D2A48ADFDA4"},
			{"3d1219c7", "3d1219c7-c4c5-404a-aa1f-6d2a48adfda", "/dev/sda1", "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4-", "----"}}},
		"locate":  {"for": {{"1s", "90s", "1h"}, {"0", "1h1s", "-1s", "9999999999h", "x"}}},
		"reset":   {"disk": {{"S1", "wwn:0x5000c500a1b2c3d4", "id:ata-X_Y", "QEMU HARDDISK 1"}, {" S1", "S1 ", "S\n1", string(make([]byte, 300))}}},
		"restart": {"unit": {{"kafka", "kafka.service", "mqtt-broker", "ceph-osd-disk@1"}, {"kafka*", "a b", "../x", "[ab].service"}}},
	} {
		v, found := FindVerb(verb)
		require.True(t, found)
		for name, sorts := range values {
			for i, list := range sorts {
				for _, value := range list {
					err := v.Check(Order{Arguments: map[string]string{name: value}, Confirm: "x"})
					require.Equal(t, i == 1, err != nil, "%s %s=%q: %v", verb, name, value, err)
				}
			}
		}
	}
}
