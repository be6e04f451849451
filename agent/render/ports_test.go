package render

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/roles"
)

func TestTheBalancerListensAtThePortOfItsRow(t *testing.T) {
	require.Equal(t, netip.AddrPortFrom(loopback, roles.PortBalancer).String(), balancerAddress)
}
