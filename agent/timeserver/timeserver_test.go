package timeserver

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/clock"
	"spore/agent/node"
	"spore/agent/ntp"
	"spore/agent/paths"
	"spore/storage/atomicfile"
)

func TestWithoutTheAgentsWordTheTimeServerClaimsNothing(t *testing.T) {
	k := &knowledge{m: node.New("spore-agent", paths.Root(t.TempDir()))}
	k.look(t.Context())
	require.Equal(t, uint8(ntp.LeapAlarm), k.state().Leap)
}

func TestTheTimeServerSaysWhatTheServerBeforeItSays(t *testing.T) {
	upstream := ntp.State{Stratum: 2, RootDelay: time.Millisecond, RootDispersion: 2 * time.Millisecond, Updated: time.Now()}
	own := netip.MustParseAddr("127.0.0.1")
	conns, err := ntp.Listen(t.Context(), []netip.Addr{own}, 0)
	require.NoError(t, err)
	server := ntp.Server{State: func() ntp.State { return upstream }, Now: time.Now}
	go func() { _ = server.Serve(t.Context(), conns) }()

	m := node.New("spore-agent", paths.Root(t.TempDir()))
	k := &knowledge{m: m, port: conns[0].LocalAddr().(*net.UDPAddr).AddrPort().Port()}
	write := func(s clock.State) {
		require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.TimeState), s))
		k.look(t.Context())
	}
	write(clock.State{Wrong: true})
	require.Equal(t, uint8(ntp.LeapAlarm), k.state().Leap, "a clock that is known to be wrong")
	write(clock.State{})
	require.Equal(t, "LOCL", reference(k.state()), "one that nobody keeps, and that may be right")
	require.False(t, k.state().Follows.IsValid())

	write(clock.State{Synchronized: true, From: "127.0.0.1"})
	require.NotNil(t, k.now.Heard)
	require.Equal(t, own, k.state().Follows)
	// This host's kernel has the last word on whether anybody keeps its clock.
	k.now.Synchronized = true
	s := k.state()
	require.Equal(t, uint8(3), s.Stratum)
	require.Equal(t, [4]byte{127, 0, 0, 1}, s.Reference)
	require.GreaterOrEqual(t, s.RootDispersion, 2*time.Millisecond)

	write(clock.State{Synchronized: true})
	k.now.Synchronized = true
	require.Equal(t, uint8(3), k.state().Stratum, "it goes on for a while when the server is gone")
	require.False(t, k.state().Follows.IsValid())
}

func reference(s ntp.State) string { return string(s.Reference[:]) }

func TestANodeThatNobodyAsksServesNoTime(t *testing.T) {
	require.Error(t, Serve(t.Context(), node.New("spore-agent", paths.Root(t.TempDir()))), "who it is, is not known")
}
