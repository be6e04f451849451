package microcode

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/u-root/u-root/pkg/cpio"
)

func TestEachVendorIsOneFileInTheOrderOfNames(t *testing.T) {
	out, err := Archive(map[string][]byte{
		"/usr/lib/firmware/intel-ucode/06-02":           []byte("B"),
		"/usr/lib/firmware/intel-ucode/06-01":           []byte("A"),
		"/usr/lib/firmware/amd-ucode/microcode_amd.bin": []byte("C"),
		"/usr/lib/firmware/amd-ucode/README":            []byte("no"),
		"/usr/lib/firmware/amd-ucode/x.bin.asc":         []byte("no"),
		"/usr/lib/systemd/boot/efi/systemd-bootx64.efi": []byte("no"),
	})
	require.NoError(t, err)
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(out)))
	require.NoError(t, err)
	got := map[string]string{}
	for _, r := range records {
		if r.FileSize > 0 {
			data := make([]byte, r.FileSize)
			_, err := r.ReadAt(data, 0)
			require.NoError(t, err)
			got[r.Name] = string(data)
		}
	}
	require.Equal(t, map[string]string{
		"kernel/x86/microcode/AuthenticAMD.bin": "C",
		"kernel/x86/microcode/GenuineIntel.bin": "AB",
	}, got)
}

func TestNoMicrocodeIsNoArchive(t *testing.T) {
	out, err := Archive(map[string][]byte{"/boot/vmlinuz-6": []byte("x")})
	require.NoError(t, err)
	require.Nil(t, out)
}
