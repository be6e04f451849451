package uevent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/stage1/uevent"
)

func TestMessagesOfTheKernelAreRead(t *testing.T) {
	e, ok := uevent.Parse([]byte("add@/devices/pci0000:00/0000:00:03.0/virtio0\x00ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:00:03.0/virtio0\x00SUBSYSTEM=virtio\x00MODALIAS=virtio:d00000002v00001AF4\x00SEQNUM=1\x00"))
	require.True(t, ok)
	require.Equal(t, uevent.Event{Action: "add", Subsystem: "virtio", Modalias: "virtio:d00000002v00001AF4"}, e)
	for _, bad := range []string{"", "\x00", "libudev\x00\xfe\xed\xca\xfe", "add", "@/x", "add@x", "\x00add@/x"} {
		_, ok := uevent.Parse([]byte(bad))
		require.False(t, ok, "%q", bad)
	}
}

func TestWaitingEndsWhenTheTimeIsOver(t *testing.T) {
	l, err := uevent.Listen()
	require.NoError(t, err)
	defer l.Close()
	deadline := time.Now().Add(10 * time.Second)
	for {
		events, _, err := l.Next(20 * time.Millisecond)
		require.NoError(t, err)
		if len(events) == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline), "this machine never falls silent")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("add@/x\x00SUBSYSTEM=block\x00MODALIAS=a=b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := uevent.Parse(b); ok {
			require.NotEmpty(t, e.Action)
		}
	})
}
