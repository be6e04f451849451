package explain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestTheFileOfTheTimeServersIsThatOfTheProgramThatSetsTheClock(t *testing.T) {
	const timesyncd, chrony = "/etc/systemd/timesyncd.conf.d/10-spore.conf", "/etc/chrony/sources.d/10-spore.sources"
	files := func(packages ...string) []string {
		return nodeFiles(&cluster.Config{Image: spec.Image{Packages: packages}}, &facts.Node{Name: "edge-01"}, nil)
	}
	require.Contains(t, files("nginx"), timesyncd)
	require.NotContains(t, files("nginx"), chrony)
	require.Contains(t, files("nginx", "chrony"), chrony)
	require.NotContains(t, files("nginx", "chrony"), timesyncd)
}
