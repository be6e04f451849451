package dmesg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARecordOfTheKernelIsRead(t *testing.T) {
	for text, want := range map[string]Record{
		"6,339,5140900,-;NET: Registered protocol family 10": {339, 5140900, 6, "NET: Registered protocol family 10"},
		// A facility of user space, and properties of a device behind the message.
		"12,340,5690716,-,caller=T1;udevd: a; b\n SUBSYSTEM=block\n DEVICE=b8:0\n": {340, 5690716, 4, "udevd: a; b"},
		"30,0,0,c;": {0, 0, 6, ""},
	} {
		got, ok := ParseRecord(text)
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", ";", "6;x", "6,1;x", "a,1,2;x", "6,-1,2;x", "6,1,x;x", "6,1,2 no message"} {
		_, ok := ParseRecord(text)
		require.False(t, ok, text)
	}
	require.Equal(t, "[    5.140900] a", Record{After: 5140900, Message: "a"}.String())
}

func FuzzParseRecord(f *testing.F) {
	f.Add("6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n")
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := ParseRecord(text); ok {
			require.NotContains(t, r.Message, "\n")
			require.LessOrEqual(t, r.Priority, 7)
		}
	})
}
