package units

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDirectoriesOfUnits(t *testing.T) {
	for unit, want := range map[string][]string{
		"calico-node.service":    {"/run/calico-node", "/run/calico", "/run/cni", "/var/lib/calico"},
		"etcd-snapshot.service":  {"/var/lib/etcd-snapshots"},
		"kubernetes-api.service": nil,
		"../units.go":            nil,
		"nobody.service":         nil,
	} {
		require.ElementsMatch(t, want, Directories(unit), unit)
	}
}
