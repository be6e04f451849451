//go:build e2e

package e2e

import (
	"bytes"
	"debug/pe"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/storage/fat"
)

// Places of boot loaders on an ESP, as package bootloader has them.
const (
	loaderPath  = "/EFI/BOOT/BOOTX64.EFI"
	loaderTwin  = "/EFI/systemd/systemd-bootx64.efi"
	loaderTried = "/EFI/BOOT/NEXTX64.EFI"
)

// withESP gives the ESP of a raw disk to a function.
func withESP(t *testing.T, disk string, do func(*fat.Editor)) {
	t.Helper()
	p, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	e, err := fat.Edit(section{io.NewSectionReader(f, p.Start, p.Size), f, p.Start}, p.Size)
	require.NoError(t, err)
	do(e)
}

// fileOnESP is a file; nil where there is none.
func fileOnESP(t *testing.T, e *fat.Editor, name string) []byte {
	t.Helper()
	list, err := e.List(filepath.Dir(name))
	require.NoError(t, err)
	entry, ok := fat.Find(list, filepath.Base(name))
	if !ok {
		return nil
	}
	r, err := e.Open(entry)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return data
}

// setLoader gives an image another boot loader, and returns the one that it had.
func setLoader(t *testing.T, image string, make func(old []byte) []byte) (old []byte) {
	t.Helper()
	withESP(t, image, func(e *fat.Editor) {
		old = fileOnESP(t, e, loaderPath)
		loader := make(old)
		for _, name := range []string{loaderPath, loaderTwin} {
			when := time.Unix(1_800_000_000, 0)
			require.NoError(t, e.Replace(filepath.Dir(name), filepath.Base(name), int64(len(loader)), bytes.NewReader(loader), when))
		}
	})
	return old
}

// renewed is another boot loader that does the same: what is behind the last section is never looked at.
func renewed(old []byte) []byte {
	return append(bytes.Clone(old), bytes.Repeat([]byte("renewed "), 64)...)
}

// returning is a program of UEFI that ends at once with EFI_LOAD_ERROR: its first instructions are mov rax, 1<<63|1 and
// ret. (After EFI_SUCCESS firmware shows its menu, and waits for a person: UEFI 2.10, section 3.1.1.)
func returning(t *testing.T, loader []byte) []byte {
	t.Helper()
	return beginsWith(t, loader, []byte{0x48, 0xb8, 1, 0, 0, 0, 0, 0, 0, 0x80, 0xc3})
}

// beginsWith is a program of UEFI with other first instructions.
func beginsWith(t *testing.T, program, code []byte) []byte {
	t.Helper()
	p, err := pe.NewFile(bytes.NewReader(program))
	require.NoError(t, err)
	entry := p.OptionalHeader.(*pe.OptionalHeader64).AddressOfEntryPoint
	out := bytes.Clone(program)
	for _, s := range p.Sections {
		if entry >= s.VirtualAddress && entry+uint32(len(code)) <= s.VirtualAddress+s.Size {
			copy(out[s.Offset+entry-s.VirtualAddress:], code)
			return out
		}
	}
	t.Fatal("the program has no room for its first instructions")
	return nil
}

// loaderOf is what a status line says of a new boot loader.
func loaderOf(t *testing.T, s vm.Status) string {
	t.Helper()
	var out struct {
		Configuration struct {
			Loader string `json:"loader"`
		} `json:"configuration"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.Raw), &out))
	return out.Configuration.Loader
}

// triesItsLoaders restarts a node whose new boot loader is the next to be tried, and gives it one that ends at once:
// the first stays, and with the other the firmware takes the one before by itself. In the end the disk has fresh.
func triesItsLoaders(t *testing.T, g *guest, disk string, fresh []byte, push func(loader []byte) string) {
	t.Helper()
	require.NoError(t, g.Reset())
	g.await("a status line that tells of none", func(s vm.Status) bool { return s.System == "running" && loaderOf(t, s) == "" })

	require.Contains(t, push(returning(t, fresh)), "its boot loader is tried")
	g.await("a status line that tells of it", func(s vm.Status) bool {
		return strings.Contains(loaderOf(t, s), "is tried at the next start")
	})
	require.NoError(t, g.Reset())
	g.await("a status line that tells of it", func(s vm.Status) bool {
		return s.System == "running" && strings.Contains(loaderOf(t, s), "since then this machine was started by the one before")
	})
	g.off()
	withESP(t, disk, func(e *fat.Editor) {
		require.True(t, bytes.Equal(fresh, fileOnESP(t, e, loaderPath)))
		require.True(t, bytes.Equal(fresh, fileOnESP(t, e, loaderTwin)))
		require.Nil(t, fileOnESP(t, e, loaderTried))
	})
}
