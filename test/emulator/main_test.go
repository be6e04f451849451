package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/deb/debtest"
	"spore/builder/vm"
)

// files are those that HasQEMU wants.
var files = []string{
	"usr/bin/qemu-system-x86_64", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "usr/share/qemu/efi-virtio.rom",
	"usr/share/seabios/bios-256k.bin", "usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
	"usr/share/OVMF/OVMF_VARS_4M.fd",
}

func TestAllFilesOrNoneAreUnpacked(t *testing.T) {
	pack := func(names ...string) []byte {
		d := debtest.Deb{Control: debtest.Control("qemu", "1"), Data: []debtest.Entry{
			{Name: "./usr/bin/qemu-system-i386", Body: "not wanted"},
			{Name: "./usr/share/OVMF/OVMF.elsewhere.fd", Type: '2', Link: "/etc/passwd"},
			{Name: "./usr/lib/x86_64-linux-gnu/libc.so", Type: '2', Link: "libc.so.6"},
		}}
		for _, name := range names {
			d.Data = append(d.Data, debtest.Entry{Name: "./" + name, Body: "of " + name})
		}
		return d.Bytes()
	}
	all := pack(files...)
	for name, c := range map[string]struct {
		data []byte
		err  string
	}{
		"all, and more": {all, ""},
		"one is not in": {pack(files[1:]...), "do not have all files"},
		"torn":          {all[:len(all)-100], "EOF"},
		"no package":    {[]byte("<html>"), "ar"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "qemu")
			err := whole(folder, func(part string) error { return unpack(bytes.NewReader(c.data), part) })
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				left, err := os.ReadDir(filepath.Dir(folder))
				require.NoError(t, err)
				require.Empty(t, left)
				return
			}
			require.NoError(t, err)
			require.True(t, vm.HasQEMU(folder))
			for _, name := range files {
				data, err := os.ReadFile(filepath.Join(folder, name))
				require.NoError(t, err)
				require.Equal(t, "of "+name, string(data))
			}
			require.NoFileExists(t, filepath.Join(folder, "usr/bin/qemu-system-i386"))
			_, err = os.Lstat(filepath.Join(folder, "usr/share/OVMF/OVMF.elsewhere.fd"))
			require.ErrorIs(t, err, os.ErrNotExist, "a link that leaves the folder")
			link, err := os.Readlink(filepath.Join(folder, "usr/lib/x86_64-linux-gnu/libc.so"))
			require.NoError(t, err)
			require.Equal(t, "libc.so.6", link)
		})
	}
}

func TestNothingIsLeftOfWhatDoesNotStart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "qemu")
	err := whole(folder, func(part string) error {
		for _, name := range files {
			require.NoError(t, os.MkdirAll(filepath.Join(part, filepath.Dir(name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(part, name), []byte("#!/bin/sh\necho a library is missing; exit 127\n"), 0o755))
		}
		_, err := starts(t.Context(), part)
		return err
	})
	require.ErrorContains(t, err, "does not start: exit status 127: a library is missing")
	left, err := os.ReadDir(filepath.Dir(folder))
	require.NoError(t, err)
	require.Empty(t, left)
}
