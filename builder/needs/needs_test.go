package needs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/spec"
)

func TestAnImageCarriesTheProgramsOfItsServicesAlone(t *testing.T) {
	names := func(services ...string) []string {
		out := []string{}
		for _, p := range Programs(&cluster.Config{Cluster: spec.Cluster{Services: services}}) {
			out = append(out, p.Name)
		}
		return out
	}
	require.Equal(t, []string{"coredns", "mosquitto"}, names("mqtt", "dns"))
	require.Equal(t, []string{"coredns"}, names("dns"))
	require.Equal(t, []string{}, names())
}
