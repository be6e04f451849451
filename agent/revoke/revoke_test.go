package revoke

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/storage/fat"
)

func TestTheFirmwareGetsNoListWhereItWouldDoHarm(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	var said []string
	m.Say = func(s string) { said = append(said, s) }
	require.NoError(t, Run(t.Context(), m), "the configuration has none")
	list := filepath.Join(bootinfo.ClusterDir, facts.RevokedFile)
	nodetest.Put(t, m, list, "no write")
	require.ErrorContains(t, Run(t.Context(), m), "firmware/dbx.auth of the configuration: ")

	nodetest.Put(t, m, list, writeOfDBX)
	require.NoError(t, Run(t.Context(), m))
	require.Contains(t, strings.Join(said, "\n"), "Secure Boot is off: the firmware gets no revoked images")
	nodetest.Put(t, m, nodetest.SecureBoot, "\x06\x00\x00\x00\x01")
	bootCount := filepath.Join(paths.EFIVars, "LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
	nodetest.Put(t, m, bootCount, "x")
	require.NoError(t, Run(t.Context(), m))
	require.Contains(t, strings.Join(said, "\n"), "the configuration is on trial")
	require.NoError(t, os.Remove(m.Root.At(bootCount)))
	require.ErrorIs(t, Run(t.Context(), m), fs.ErrNotExist, "it is not known what the state is")
	nodetest.Put(t, m, paths.State, `{"kind":"partition"}`)
	require.ErrorContains(t, Run(t.Context(), m), "it is not known which ESP the machine was started from")
}

// writeOfDBX is one with a hash, as spore keys revoke makes it but for the signature, which is the firmware's to check.
var writeOfDBX = strings.Repeat("\x00", 16) + "\x18\x00\x00\x00\x00\x02\xf1\x0e" + "\x9d\xd2\xaf\x4a\xdf\x68\xee\x49\x8a\xa9\x34\x7d\x37\x56\x65\xa7" +
	"\x26\x16\xc4\xc1\x4c\x50\x92\x40\xac\xa9\x41\xf9\x36\x93\x43\x28" + "\x4c\x00\x00\x00\x00\x00\x00\x00\x30\x00\x00\x00" + strings.Repeat("\x01", 48)

func TestAllProgramsOfTheESPAreHashed(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	esp := filepath.Join(t.TempDir(), "esp")
	write := func(files ...fat.File) {
		image, err := fat.New(fat.Options{Size: 64 << 20, Files: files})
		require.NoError(t, err)
		f, err := os.Create(esp)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(image.Size()))
		require.NoError(t, image.WriteAll(f, 0))
		require.NoError(t, f.Close())
	}
	file := func(name, content string) fat.File {
		return fat.File{Path: name, Size: int64(len(content)), Content: strings.NewReader(content)}
	}
	m.Boot.ESP = esp
	write(file("/loader/loader.conf", "timeout 0"))
	programs, err := espPrograms(m)
	require.NoError(t, err)
	require.Empty(t, programs)
	// What cannot be hashed could be the image that is revoked.
	write(file("/EFI/Linux/x.EFI", "MZ and no more"))
	_, err = espPrograms(m)
	require.ErrorContains(t, err, "/EFI/Linux/x.EFI: hash a program")
}
