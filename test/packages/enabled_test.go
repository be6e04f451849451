package packages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/test/packages/reference"
)

func TestUnitsThatDebianEnablesAndTheImageDoesNot(t *testing.T) {
	const units, wants = "/usr/lib/systemd/system/", localUnits + "multi-user.target.wants/"
	image := tree.New()
	for name, origin := range map[string]string{"a.service": "deb:a_1", "b.service": "deb:a_1", "c.service": "deb:c_1"} {
		require.NoError(t, image.WriteFile(units+name, nil, 0o644, origin))
	}
	require.NoError(t, image.Symlink(units+"a.service", wants+"a.service", ""))
	root := &reference.Root{Files: map[string]reference.File{
		wants + "a.service": {Target: units + "a.service"}, wants + "b.service": {Target: "/lib/systemd/system/b.service"},
		wants + "c.service": {Target: units + "c.service"}, wants + "gone.service": {Target: units + "gone.service"},
		"/etc/other": {Target: units + "b.service"},
	}}
	e, err := enablementOf(image)
	require.NoError(t, err)
	require.Equal(t, []string{"not enabled: " + wants + "b.service leads to /lib/systemd/system/b.service in Debian  (package a)"},
		e.notEnabled("a", root))
	require.Empty(t, e.notEnabled("mosquitto", root))
}
