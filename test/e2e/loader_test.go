//go:build e2e

package e2e

import (
	"bytes"
	"debug/pe"
	"encoding/json"
	"io"
	"os"
	"os/exec"
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

// imageWithLoader is the suite's image with another boot loader.
func imageWithLoader(t *testing.T, loader []byte) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "spore.img")
	info, err := os.Stat(suite.image)
	require.NoError(t, err)
	require.NoError(t, vm.Copy(suite.image, image, info.Size()))
	withESP(t, image, func(e *fat.Editor) {
		for _, name := range []string{loaderPath, loaderTwin} {
			when := time.Unix(1_800_000_000, 0)
			require.NoError(t, e.Replace(filepath.Dir(name), filepath.Base(name), int64(len(loader)), bytes.NewReader(loader), when))
		}
	})
	return image
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

// A boot loader that comes with an update starts the machine once, and then stays. One that ends at once does not: the
// firmware takes the one before by itself.
func TestABootLoaderIsRenewedAndABadOneIsNotTaken(t *testing.T) {
	inTurn(t)
	var old []byte
	disk := rawCopy(t)
	withESP(t, disk, func(e *fat.Editor) { old = fileOnESP(t, e, loaderPath) })
	// What is behind the last section is never looked at.
	fresh := append(bytes.Clone(old), bytes.Repeat([]byte("renewed "), 64)...)
	builder, err := compiled()
	require.NoError(t, err)
	good, bad := imageWithLoader(t, fresh), imageWithLoader(t, returning(t, old))

	c := edge("loader", bootDisk(disk))
	c.SMBIOS, c.Reboots = newBroker(t).bundle(t, "edge-01"), true
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
	g := boot(t, c)
	require.Empty(t, loaderOf(t, g.running()))
	api, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	push := func(image string) {
		t.Helper()
		cmd := exec.Command(builder, "push", filepath.Join(sourceTree, "examples/edge"), "--image", image, "--pki", suite.dir,
			"--node", "edge-01", "--address", "edge-01="+api)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
		require.Contains(t, string(out), "its boot loader is tried")
		g.await("a status line that tells of it", func(s vm.Status) bool {
			return strings.Contains(loaderOf(t, s), "is tried at the next start")
		})
	}

	push(good)
	require.NoError(t, g.Reset())
	g.awaitLine(`the new boot loader stays`)
	require.Empty(t, loaderOf(t, g.running()))

	push(bad)
	require.NoError(t, g.Reset())
	g.awaitLine(`the boot loader stays the one before`)
	s := g.await("a status line that tells of it", func(s vm.Status) bool { return s.System == "running" && loaderOf(t, s) != "" })
	require.Contains(t, loaderOf(t, s), "since then this machine was started by the one before")
	g.off()
	withESP(t, disk, func(e *fat.Editor) {
		require.True(t, bytes.Equal(fresh, fileOnESP(t, e, loaderPath)))
		require.True(t, bytes.Equal(fresh, fileOnESP(t, e, loaderTwin)))
		require.Nil(t, fileOnESP(t, e, loaderTried))
	})
}
