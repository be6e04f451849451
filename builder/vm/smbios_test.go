package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachCredentialHasACarrierThatTakesIt(t *testing.T) {
	x := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	for _, c := range []struct {
		what, name string
		data       []byte
		// args are QEMU's, where FILE is that of the credential, and content is what the file holds.
		args, content, err string
	}{
		{"a small one is an SMBIOS string", "spore.node", []byte("edge-01"), "-smbios type=11,path=FILE", "io.systemd.credential.binary:spore.node=ZWRnZS0wMQ==", ""},
		{"the largest string", "c", x(1024), "-smbios type=11,path=FILE", "", ""},
		{"a larger one is an item of fw_cfg", "spore.bundle", x(1025), "-fw_cfg name=opt/io.systemd.credentials/spore.bundle,file=FILE", string(x(1025)), ""},
		{"what 64 KiB do not hold", "spore.bundle", x(500 << 10), "-fw_cfg name=opt/io.systemd.credentials/spore.bundle,file=FILE", string(x(500 << 10)), ""},
		{"a long name of a small one", strings.Repeat("n", 40), []byte("1"), "-smbios type=11,path=FILE", "", ""},
		{"a long name of a large one", strings.Repeat("n", 29), x(2000), "", "", "its name may have 28 characters"},
		{"more than systemd takes", "spore.bundle", x(1<<20 + 1), "", "", "more than 1048576 bytes"},
	} {
		t.Run(c.what, func(t *testing.T) {
			in := scratch(t.TempDir())
			args, err := SMBIOS{Credentials: map[string][]byte{c.name: c.data}}.args(in)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			file := in.credential(0)
			require.Equal(t, c.args, strings.ReplaceAll(strings.Join(args, " "), file, "FILE"))
			if c.content != "" {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, c.content, string(data))
			}
			require.NoError(t, in.forget())
			left, err := filepath.Glob(filepath.Join(string(in), "*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestCredentialsTogetherHaveABound(t *testing.T) {
	half := bytes.Repeat([]byte("x"), 600<<10)
	_, err := SMBIOS{Credentials: map[string][]byte{"a": half, "b": half}}.args(scratch(t.TempDir()))
	require.ErrorContains(t, err, "credential b: all of them have more than 1048576 bytes")
}
