package served

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/pcr"
	"spore/builder/uki"
	"spore/builder/uki/ukitest"
	"spore/pki/authenticode"
)

func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	kernel := ukitest.Program(4096, ".text")
	image, err := uki.Build(uki.Options{Stub: ukitest.Program(0, ".text"), Kernel: uki.Bytes(kernel), Initrd: uki.Bytes("initrd"), Cmdline: "roothash=aa ro", Uname: "6.12"})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "ipxe"), 0o755))
	for name, data := range map[string][]byte{
		"spore.efi": image, "vmlinuz": kernel, "cmdline": []byte("roothash=aa ro"), "ipxe/snponly.efi": ukitest.Program(0, ".data"), "ipxe/undionly.kpxe": []byte("PXE"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	return dir
}

func TestTheFolderSaysWhatMachinesMeasure(t *testing.T) {
	dir := folder(t)
	w, err := Want(dir)
	require.NoError(t, err)
	var names []string
	for _, name := range w.Programs {
		names = append(names, name)
	}
	require.Subset(t, names, []string{"spore.efi", "snponly.efi", "vmlinuz"})
	require.NotContains(t, names, "undionly.kpxe", "nobody measures what BIOS starts")
	require.Equal(t, "roothash=aa ro", w.Cmdline)
	image, err := os.ReadFile(filepath.Join(dir, "spore.efi"))
	require.NoError(t, err)
	value, err := pcr.Predict(bytes.NewReader(image))
	require.NoError(t, err)
	require.Equal(t, [][32]byte{value, value.Enter("spore-state-open")}, w.Measured, "before the state is open, and after")

	// The kernel as its section is in memory.
	info, err := uki.Inspect(bytes.NewReader(image))
	require.NoError(t, err)
	for _, s := range info.Sections {
		if s.Name == ".linux" {
			memory := make([]byte, s.VirtualSize)
			copy(memory, image[s.Offset:s.Offset+min(s.RawSize, s.VirtualSize)])
			sum, err := authenticode.HashOf(bytes.NewReader(memory), int64(len(memory)))
			require.NoError(t, err)
			require.Equal(t, "vmlinuz", w.Programs[sum])
		}
	}
}

func TestAFolderThatCannotBeMeasuredIsAnError(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"spore.efi": func(dir string) error { return os.WriteFile(filepath.Join(dir, "spore.efi"), []byte("x"), 0o644) },
		"vmlinuz":   func(dir string) error { return os.Remove(filepath.Join(dir, "vmlinuz")) },
		"cmdline":   func(dir string) error { return os.Remove(filepath.Join(dir, "cmdline")) },
		"ipxe/snponly.efi": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ipxe/snponly.efi"), []byte("x"), 0o644)
		},
	} {
		dir := folder(t)
		require.NoError(t, change(dir))
		_, err := Want(dir)
		require.ErrorContains(t, err, filepath.Base(name))
	}
}
