package media

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/image"
	"spore/builder/secureboot"
	"spore/builder/uki"
	"spore/builder/uki/ukitest"
	"spore/cluster"
	"spore/pki/authenticode"
)

// netbootMedia is enough of a root for network boot.
func netbootMedia(t *testing.T, kernel string) *Media {
	t.Helper()
	dir := t.TempDir()
	file := func(name, content string) image.Source {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return image.Source{Path: path}
	}
	config := &cluster.Config{}
	config.Cluster.Name = "plant"
	inside := file("disk", "....ROOT....")
	inside.Offset, inside.Size = 4, 4
	return &Media{
		ClusterHash: "bb", ClusterFile: file("cluster", "CLUSTER").Path, UKI: []byte("UKI"), config: config,
		root: Root{Hash: "aa", Squashfs: inside, Verity: file("verity", "VERITY"), Kernel: uki.Bytes(kernel), Microcode: []byte("MICROCODE."), Initrd: uki.Bytes("INITRD")},
	}
}

func TestTheFolderForNetworkBoot(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	out := t.TempDir()
	dir := filepath.Join(out, "netboot")
	loaders := map[string][]byte{"undionly.kpxe": []byte("PXE")}
	require.NoError(t, netbootMedia(t, "KERNEL 1").WriteNetboot(t.Context(), dir, loaders))
	for name, want := range map[string]string{
		"root.squashfs": "ROOT", "root.verity": "VERITY", "cluster.squashfs": "CLUSTER", "spore.efi": "UKI", "vmlinuz": "KERNEL 1",
		"initrd": "MICROCODE.INITRD", "ipxe/undionly.kpxe": "PXE", "cmdline": netbootMedia(t, "").Cmdline(),
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), name)
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.EqualValues(t, 0o644, info.Mode().Perm(), "a web server can read %s", name)
	}
	script, err := os.ReadFile(filepath.Join(dir, "boot.ipxe"))
	require.NoError(t, err)
	require.Contains(t, string(script), "kernel vmlinuz initrd=initrd roothash=aa spore.clusterhash=bb ro ")

	t.Run("another build takes its place whole", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "left over"), nil, 0o600))
		require.NoError(t, netbootMedia(t, "KERNEL 2").WriteNetboot(t.Context(), dir, loaders))
		got, err := os.ReadFile(filepath.Join(dir, "vmlinuz"))
		require.NoError(t, err)
		require.Equal(t, "KERNEL 2", string(got))
		require.NoFileExists(t, filepath.Join(dir, "left over"))
	})
	t.Run("what fails leaves the old one and nothing else", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, netbootMedia(t, "KERNEL 3").WriteNetboot(ctx, dir, loaders), context.Canceled)
		bad := netbootMedia(t, "KERNEL 3")
		bad.config.Image.KernelArguments = []string{"a=${b}"}
		require.ErrorContains(t, bad.WriteNetboot(t.Context(), dir, loaders), "change kernelArguments in image.yaml")
		got, err := os.ReadFile(filepath.Join(dir, "vmlinuz"))
		require.NoError(t, err)
		require.Equal(t, "KERNEL 2", string(got))
		left, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Len(t, left, 1)
	})
}

func TestIPXEForUEFIIsSigned(t *testing.T) {
	boot, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(1_800_000_000, 0)})
	require.NoError(t, err)
	program := ukitest.Program(0, ".text")
	write := func(t *testing.T, keys Keys, loaders map[string][]byte) (string, error) {
		m := netbootMedia(t, "KERNEL")
		m.keys = keys
		dir := filepath.Join(t.TempDir(), "netboot")
		return dir, m.WriteNetboot(t.Context(), dir, loaders)
	}
	loader := func(t *testing.T, dir, name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, NetbootLoaders, name))
		require.NoError(t, err)
		return data
	}
	loaders := map[string][]byte{"snponly.efi": program, "undionly.kpxe": []byte("PXE")}

	t.Run("by the key of the UKI", func(t *testing.T) {
		dir, err := write(t, Keys{Boot: boot.DB}, loaders)
		require.NoError(t, err)
		signed := loader(t, dir, "snponly.efi")
		list, err := authenticode.Signatures(bytes.NewReader(signed), int64(len(signed)))
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Empty(t, list[0].Problem, "the firmware takes it")
		c, err := authenticode.Certificate(signed)
		require.NoError(t, err)
		require.True(t, c.Equal(boot.DB.Certificate))
		require.Equal(t, "PXE", string(loader(t, dir, "undionly.kpxe")), "a binary for BIOS stays as it is")

		dir, err = write(t, Keys{Boot: boot.DB}, map[string][]byte{"snponly.efi": signed})
		require.NoError(t, err)
		require.Equal(t, signed, loader(t, dir, "snponly.efi"), "a change of the configuration signs the same again")
	})
	t.Run("and stays as it is without a key", func(t *testing.T) {
		dir, err := write(t, Keys{}, loaders)
		require.NoError(t, err)
		require.Equal(t, program, loader(t, dir, "snponly.efi"))
	})
	t.Run("a file that is not a program is not signed", func(t *testing.T) {
		dir, err := write(t, Keys{Boot: boot.DB}, map[string][]byte{"snponly.efi": []byte("PXE")})
		require.ErrorContains(t, err, "iPXE snponly.efi: sign for Secure Boot")
		require.NoDirExists(t, dir)
	})
}
