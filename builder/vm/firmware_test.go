package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirmware(t *testing.T) {
	for firmware, want := range map[string]struct{ has, hasNot []string }{
		UEFI:       {[]string{ovmfCode, "m.vars.fd"}, []string{"smm=on", ovmfSecureCode}},
		BIOS:       {nil, []string{"pflash", "m.vars.fd"}},
		SecureBoot: {[]string{ovmfSecureCode, "smm=on", "property=secure,value=on", "m.vars.fd"}, nil},
	} {
		c := Config{Name: "m", Dir: t.TempDir(), Firmware: firmware}
		args, err := c.bootArgs()
		require.NoError(t, err)
		line := strings.Join(args, " ")
		for _, s := range want.has {
			require.Contains(t, line, s, firmware)
		}
		for _, s := range want.hasNot {
			require.NotContains(t, line, s, firmware)
		}
	}
	args, err := Config{Name: "a,b", Dir: t.TempDir()}.bootArgs()
	require.NoError(t, err)
	require.Contains(t, strings.Join(args, " "), "/a,,b.vars.fd", "a comma would end the option")
	_, err = Config{Name: "m", Dir: t.TempDir(), Firmware: "coreboot"}.bootArgs()
	require.ErrorContains(t, err, `unknown firmware "coreboot"`)
}

func TestAMachineBeginsWithTheVariablesThatItIsGiven(t *testing.T) {
	dir := t.TempDir()
	c := Config{Name: "m", Dir: dir, Firmware: SecureBoot, Vars: filepath.Join(dir, "template")}
	_, err := c.bootArgs()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(c.Vars, []byte("first"), 0o600))
	_, err = c.bootArgs()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.Vars, []byte("second"), 0o600))
	_, err = c.bootArgs()
	require.NoError(t, err)
	data, err := os.ReadFile(c.VarsPath())
	require.NoError(t, err)
	require.Equal(t, "first", string(data), "and keeps what it has")
}
