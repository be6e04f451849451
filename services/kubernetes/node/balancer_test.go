package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/service"
)

func TestTheBalancerListensAtThePortOfItsRow(t *testing.T) {
	require.Equal(t, netip.AddrPortFrom(loopback, service.PortBalancer).String(), balancerAddress)
}
