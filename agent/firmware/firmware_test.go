package firmware

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const value = "\x06\x00\x00\x00"

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func TestWhatTheKernelShows(t *testing.T) {
	sum := strings.Repeat("0A", 32)
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  *Info
	}{
		"no UEFI": {fstest.MapFS{lockdown: file("none [integrity] confidentiality\n")}, nil},
		"Secure Boot with a TPM": {fstest.MapFS{
			variables + "SecureBoot" + global: file(value + "\x01"), variables + "SetupMode" + global: file(value + "\x00"),
			lockdown: file("none [integrity] confidentiality\n"), pcr11: file(sum + "\n"),
		}, &Info{SecureBoot: true, Lockdown: "integrity", PCR11: strings.ToLower(sum)}},
		"setup mode": {fstest.MapFS{
			variables + "SecureBoot" + global: file(value + "\x00"), variables + "SetupMode" + global: file(value + "\x01"),
			lockdown: file("[none] integrity confidentiality\n"),
		}, &Info{SetupMode: true, Lockdown: "none"}},
		"files that say nothing": {fstest.MapFS{
			variables + "SecureBoot" + global: file("\x01"), variables + "SetupMode" + global: file(value + "\x01\x01"),
			lockdown: file("none [integ"), pcr11: file("zz" + sum[2:]),
		}, &Info{}},
		"nothing but UEFI": {fstest.MapFS{efiDir + "/fw_platform_size": file("64\n")}, &Info{}},
	} {
		require.Equal(t, c.want, Read(c.files), name)
	}
}

func TestFirmwareChecksWhatItStartsWithSecureBootAndAnOwner(t *testing.T) {
	require.True(t, Info{SecureBoot: true}.Checks())
	require.False(t, Info{SecureBoot: true, SetupMode: true}.Checks())
	require.False(t, Info{SetupMode: true}.Checks())
	require.False(t, Info{}.Checks())
}
