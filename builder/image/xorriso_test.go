//go:build integration

package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The second opinion on the ISO is xorriso's, by which Debian makes its own.

func TestXorrisoSeesBothBootEntriesAndTheSystemArea(t *testing.T) {
	path := buildISO(t, isoOptions(t))
	out := run(t, "xorriso", "-indev", path, "-report_el_torito", "plain", "-report_system_area", "plain")
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"El Torito boot img : 1 BIOS y none 0x0000 0x00 4 ",
		"El Torito boot img : 2 UEFI y none 0x0000 0x00 0 ",
		"El Torito img path : 1 /ISOLINUX/ISOLINUX.BIN",
		"El Torito img opts : 1 boot-info-table isohybrid-suitable",
		"System area summary: MBR protective-msdos-label cyl-align-off GPT",
		"MBR partition : 1 0x00 0xee 1 ", "MBR partition : 2 0x80 0x17 ",
		"GPT start and size : 1 8192 131072", "GPT start and size : 2 2048 2048", "GPT start and size : 5 139264 2048",
	} {
		require.Contains(t, words, want)
	}
	for _, bad := range []string{"FATAL", "FAILURE", "WARNING", "damaged", "mismatch"} {
		require.NotContains(t, out, bad)
	}
}

func TestXorrisoExtractsWhatWasPutIn(t *testing.T) {
	o := isoOptions(t)
	to := filepath.Join(t.TempDir(), "tree")
	run(t, "xorriso", "-osirrox", "on", "-indev", buildISO(t, o), "-extract", "/", to)
	for name, want := range map[string][]byte{
		"BOOT/VMLINUZ": o.Kernel, "BOOT/INITRD": o.Initrd, "EFI/BOOT/BOOTX64.EFI": o.SystemdBoot,
		strings.ToUpper(UKIPath(o.UKI)): o.UKI, "SPORE/ROOT.SQUASHFS": readFile(t, o.Root.Path), "LOADER/LOADER.CONF": []byte(loaderConf),
	} {
		got := readFile(t, filepath.Join(to, name))
		require.Equal(t, string(want), string(got), name)
		st, err := os.Stat(filepath.Join(to, name))
		require.NoError(t, err)
		require.True(t, st.ModTime().Equal(o.Time), "%s: %s", name, st.ModTime())
	}
}

func TestSystemdRepartKeepsWhatOldBIOSesBoot(t *testing.T) {
	stick := buildISO(t, isoOptions(t))
	before := readFile(t, stick)[:sectorSize]
	require.NoError(t, os.Truncate(stick, 400*mib))
	definitions := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(definitions, "state.conf"),
		[]byte("[Partition]\nType=4d21b016-b534-45c2-a9fb-5c16e091fd2d\nSizeMinBytes=64M\n"), 0o644))
	run(t, "systemd-repart", "--dry-run=no", "--no-pager", "--empty=refuse", "--discard=no", "--definitions="+definitions, stick)
	after := readFile(t, stick)
	require.Equal(t, before, after[:sectorSize], "the MBR is as it was")
	info, err := inspect(t, stick)
	require.NoError(t, err)
	require.Empty(t, info.Problems)
	require.Len(t, info.Partitions, 6)
	require.GreaterOrEqual(t, info.Partitions[5].Offset, int64(69*mib), "behind all that the ISO has")
	require.Greater(t, info.Partitions[5].Size, int64(320*mib))
}
