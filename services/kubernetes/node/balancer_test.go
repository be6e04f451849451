package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/kubernetes"
)

func TestTheBalancerListensAtThePortOfItsRow(t *testing.T) {
	require.Equal(t, netip.AddrPortFrom(loopback, kubernetes.PortBalancer).String(), balancerAddress)
}
