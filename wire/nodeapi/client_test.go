package nodeapi

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/testca"
)

// identity is one that any server of the authority would take.
func identity(t *testing.T) Identity {
	t.Helper()
	ca, err := testca.New("agents")
	require.NoError(t, err)
	certificate, key, err := ca.Server("n-1")
	require.NoError(t, err)
	return Identity{Certificate: certificate, Key: key, Authorities: ca.PEM()}
}

func TestWhyANodeDoesNotAnswer(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	require.NoError(t, err)
	defer mute.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	id := identity(t)
	for name, tc := range map[string]struct {
		id        Identity
		addresses []string
		want      string
	}{
		"nothing listens":          {id, []string{gone.Addr().String()}, "no answer: connect: connection refused"},
		"it says nothing":          {id, []string{mute.Addr().String()}, "no answer in time"},
		"it has no address":        {id, nil, "it has no address"},
		"a name that is none":      {id, []string{"nosuchname.invalid"}, "no answer: lookup nosuchname.invalid"},
		"no certificate of ours":   {Identity{Authorities: id.Authorities}, nil, "own certificate"},
		"no authorities":           {Identity{Certificate: id.Certificate, Key: id.Key}, nil, "has no certificate"},
		"the second address helps": {id, []string{gone.Addr().String(), mute.Addr().String()}, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			c := Client{Identity: func() (Identity, error) { return tc.id, nil }, Addresses: func(string) ([]string, error) { return tc.addresses, nil }}
			_, err := c.Ask(ctx, "n-1", Request{Path: StatusPath})
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAnAddressIsAskedAtOurPortUnlessItHasOne(t *testing.T) {
	for address, want := range map[string]string{
		"10.77.0.11": "10.77.0.11:8643", "fd00::1": "[fd00::1]:8643", "[fd00::1]": "[fd00::1]:8643", "[fd00::1]:1": "[fd00::1]:1", "edge-01.plant.example": "edge-01.plant.example:8643", "h:7": "h:7",
	} {
		require.Equal(t, want, withPort(address))
	}
}
