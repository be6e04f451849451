package explain

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/exposure"
	"spore/cluster"
	"spore/cluster/role"
	"spore/cluster/role/unit"
	"spore/cluster/units"
)

func TestExplainSaysHowExposedServicesOfOwnRolesAre(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	const own = "../../../examples/own-valkey"
	code, out, errs := spore(own, "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, `
exposure of the services of own roles, from 0 to 10, by systemd-analyze security of this machine
  gateway.service: systemd-analyze is not on this machine
  valkey-server.service: systemd-analyze is not on this machine
`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, analyzer), []byte(`#!/bin/sh
case "$4" in
*/gateway.service) echo "-> Overall exposure level for gateway.service: 2.3 OK :-)" ;;
*) echo "Failed to read it" >&2; exit 1 ;;
esac
`), 0o755))
	_, out, _ = spore(own, "--node", "edge-01")
	require.Contains(t, out, "\n  gateway.service: 2.3 OK\n")
	require.Contains(t, out, "\n  valkey-server.service: ask systemd-analyze about valkey-server.service: exit status 1: Failed to read it\n")
	_, out, _ = spore(example, "--node", "edge-01")
	require.NotContains(t, out, "exposure", "a node without roles of the configuration's own")
}

func TestAnExposureSaysWhatItIsOf(t *testing.T) {
	var out bytes.Buffer
	printExposures(&out, []Exposure{{Unit: "a.service", Level: &exposure.Level{Figure: 9, Word: "UNSAFE"}, Elsewhere: true}})
	require.Contains(t, out.String(), "  a.service: 9.0 UNSAFE, by what the role lays over the unit, which is not in units/\n")
}

func TestTheTextsOfAServiceAreThoseThatSystemdReads(t *testing.T) {
	d := &role.Definition{Name: "x", Units: []string{"backup@daily.service", "other.service"}}
	text := func(name string) units.File { return units.File{Path: name, Data: []byte(name)} }
	c := &cluster.Config{Units: []units.File{text("backup@.service"), text("backup@.service.d/a.conf"), text("backup@daily.service.d/b.conf"), text("foreign.service")}}
	drops := unit.DropIns(d)
	files, own := textsOf(c, d, "backup@daily.service")
	require.True(t, own)
	require.Equal(t, map[string]string{
		"backup@daily.service": "backup@.service", "backup@.service.d/a.conf": "backup@.service.d/a.conf",
		"backup@daily.service.d/b.conf": "backup@daily.service.d/b.conf", "backup@daily.service.d/90-role.conf": drops["backup@daily.service.d/90-role.conf"],
	}, files)
	files, own = textsOf(c, d, "other.service")
	require.False(t, own)
	require.Equal(t, map[string]string{"other.service": bare, "other.service.d/90-role.conf": drops["other.service.d/90-role.conf"]}, files)

	c.Units = append(c.Units, text("backup@daily.service"))
	files, _ = textsOf(c, d, "backup@daily.service")
	require.Equal(t, "backup@daily.service", files["backup@daily.service"], "an instance of its own counts before the template")
}
