package bundle

import (
	"errors"
	"fmt"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/cluster/role"
)

func TestEachSignalThatARoleCanNameIsKnown(t *testing.T) {
	words := role.Choices()["Certificate.signal"]
	require.NotEmpty(t, words)
	for _, word := range words {
		require.Equal(t, int32(unix.SignalNum("SIG"+word)), signals[word], word)
	}
}

func TestAUnitWithoutAMainProcessIsToldApart(t *testing.T) {
	none := godbus.Error{Name: "org.freedesktop.systemd1.NoSuchProcess", Body: []any{"No main process to kill"}}
	require.True(t, withoutMain(none))
	require.True(t, withoutMain(fmt.Errorf("signal: %w", none)))
	for _, err := range []error{
		nil, errors.New("No main process to kill"), godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit"},
	} {
		require.False(t, withoutMain(err))
	}
}
