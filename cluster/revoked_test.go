package cluster

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

func TestRevokedImagesGoIntoTheClusterPartAsTheyAre(t *testing.T) {
	write := strings.Repeat("t", revokedKind) + signedWrite + "signature and list"
	fsys := folder(t, "../configs")
	c, report := Load(fsys)
	require.Empty(t, report.String())
	require.Empty(t, c.Revoked)
	files, err := Compile(c)
	require.NoError(t, err)
	require.NotContains(t, files, facts.RevokedFile)

	fsys[revokedFile] = &fstest.MapFile{Data: []byte(write)}
	c, report = Load(fsys)
	require.Empty(t, report.String())
	files, err = Compile(c)
	require.NoError(t, err)
	require.Equal(t, write, string(files[facts.RevokedFile]))

	for name, data := range map[string]string{
		"an empty file": "", "a list without a signature": write[revokedKind:], "text": strings.Repeat("text ", 100), "far too much": write + strings.Repeat("x", maxRevoked),
	} {
		fsys[revokedFile] = &fstest.MapFile{Data: []byte(data)}
		c, report := Load(fsys)
		require.Contains(t, report.String(), "dbx.auth:1:1: error: this is not a signed write of dbx; make it with `spore keys revoke`", name)
		require.Empty(t, c.Revoked, name)
	}
}
