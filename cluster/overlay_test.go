package cluster

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestFilesAndUnitsOfAUserAreLoadedAndChangeNothingElse(t *testing.T) {
	plain, report := Check(goodFolder(t), Options{})
	require.False(t, report.Failed(), report.String())
	files := goodFolder(t)
	files["overlay/etc/gateway.conf"] = &fstest.MapFile{Data: []byte("-----BEGIN CERTIFICATE-----\npassword: see the bundle\n"), Mode: 0o600}
	files["overlay/opt/gateway/gateway"] = &fstest.MapFile{Data: []byte("\x7fELF"), Mode: 0o755}
	files["overlay.yaml"] = &fstest.MapFile{Data: []byte("files:\n  /etc/gateway.conf: {owner: mosquitto, mode: \"0640\"}\n")}
	files["units/gateway.service"] = &fstest.MapFile{Data: []byte("[Service]\nExecStart=/opt/gateway/gateway\n")}
	c, report := Check(files, Options{Strict: true})
	require.Empty(t, serious(report))
	require.Len(t, c.Overlay.Entries, 5)
	e := c.Overlay.Entries[1]
	require.Equal(t, "/etc/gateway.conf", e.Path)
	require.Equal(t, "mosquitto", e.File.Owner)
	require.Equal(t, uint32(0o640), e.Mode())
	require.Equal(t, "overlay.yaml:2:22", e.At)
	require.Equal(t, "overlay/opt/gateway/gateway", c.Overlay.Entries[4].At)
	require.Len(t, c.Units, 1)
	// They are in the root, and no part of what nodes read.
	require.Equal(t, plain.Source(), c.Source())
	before, err := Compile(plain)
	require.NoError(t, err)
	after, err := Compile(c)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
