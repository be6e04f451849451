package nodeapi

import (
	"encoding/asn1"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheNodesOfACertificateAreSortedAndOnce(t *testing.T) {
	e, err := Limit([]string{"n-2", "n-1", "n-2"})
	require.NoError(t, err)
	require.True(t, e.Critical, "who does not know it refuses the certificate")
	nodes, err := ParseLimit(e.Value)
	require.NoError(t, err)
	require.Equal(t, []string{"n-1", "n-2"}, nodes)
}

func TestAListOfNodesThatIsMalformedIsRefused(t *testing.T) {
	many := make([]string, MaxLimit+1)
	for i := range many {
		many[i] = fmt.Sprintf("n-%03d", i)
	}
	for name, nodes := range map[string][]string{
		"none": {}, "too many": many, "an empty name": {""}, "all": {"*"}, "a full name": {"n-1.plant"},
		"capitals": {"N-1"}, "a hyphen in front": {"-n"}, "a hyphen behind": {"n-"}, "a long one": {strings.Repeat("n", 64)},
	} {
		_, err := Limit(nodes)
		require.Error(t, err, name)
		value, err := asn1.Marshal(nodes)
		require.NoError(t, err)
		_, err = ParseLimit(value)
		require.Error(t, err, name)
	}
	value := func(v any) []byte {
		data, err := asn1.Marshal(v)
		require.NoError(t, err)
		return data
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "a number": value(7), "numbers": value([]int{1}), "not sorted": value([]string{"b", "a"}),
		"one twice": value([]string{"a", "a"}), "something behind it": append(value([]string{"a"}), 0),
		"cut off": value([]string{"a", "b"})[:5], "a text": value("a"),
	} {
		_, err := ParseLimit(data)
		require.Error(t, err, name)
	}
}

func TestSerialNumbersAreHexadecimal(t *testing.T) {
	require.Equal(t, "4f00", Serial(big.NewInt(0x4f00)))
	for s, want := range map[string]bool{
		"4f00": true, "0": false, "": false, "04": false, "4F": false, "4f:00": false, strings.Repeat("f", 40): true,
		strings.Repeat("f", 41): false, "-4f": false,
	} {
		require.Equal(t, want, IsSerial(s), s)
	}
}

func FuzzParseLimit(f *testing.F) {
	e, err := Limit([]string{"n-1", "n-2"})
	require.NoError(f, err)
	f.Add(e.Value)
	f.Add([]byte{0x30, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := ParseLimit(data)
		if err == nil {
			again, err := Limit(nodes)
			require.NoError(t, err)
			back, err := ParseLimit(again.Value)
			require.NoError(t, err)
			require.Equal(t, nodes, back)
		}
	})
}
