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

func TestAllFilesOrNoneAreUnpacked(t *testing.T) {
	pack := func(names ...string) []byte {
		d := debtest.Deb{Control: debtest.Control("ovmf", "1"), Data: []debtest.Entry{{Name: "./usr/share/OVMF/"}}}
		for _, name := range names {
			d.Data = append(d.Data, debtest.Entry{Name: "./usr/share/OVMF/" + name, Body: "of " + name})
		}
		return d.Bytes()
	}
	whole := pack(append([]string{"OVMF_CODE_4M.ms.fd"}, vm.OVMFFiles...)...)
	for name, c := range map[string]struct {
		data []byte
		err  string
	}{
		"all, and more": {whole, ""},
		"one is not in": {pack(vm.OVMFFiles[1:]...), "it does not have all of"},
		"torn":          {whole[:len(whole)-100], "EOF"},
		"no package":    {[]byte("<html>"), "ar"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "ovmf")
			err := unpack(bytes.NewReader(c.data), folder)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				left, err := os.ReadDir(filepath.Dir(folder))
				require.NoError(t, err)
				require.Empty(t, left)
				return
			}
			require.NoError(t, err)
			files, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Len(t, files, len(vm.OVMFFiles))
			for _, name := range vm.OVMFFiles {
				data, err := os.ReadFile(filepath.Join(folder, name))
				require.NoError(t, err)
				require.Equal(t, "of "+name, string(data))
			}
		})
	}
}
