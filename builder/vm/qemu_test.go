package vm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQEMUOfTheCacheComesFirst(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("SPORE_QEMU", "")
	folder, err := QEMUFolder()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cache, "spore-qemu"), folder)
	for _, name := range []string{
		"usr/bin/qemu-system-x86_64", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "usr/share/qemu/efi-virtio.rom",
		"usr/share/seabios/bios-256k.bin", "usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
		"usr/share/OVMF/OVMF_VARS_4M.fd",
	} {
		require.Equal(t, []string{"qemu-system-x86_64"}, QEMU(), "all files, or none")
		require.Equal(t, "/usr/share/OVMF/OVMF_VARS_4M.fd", ovmf(ovmfVars), "all files, or none")
		require.NoError(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o755))
	}
	require.Equal(t, QEMUIn(folder), QEMU())
	require.Contains(t, QEMU(), filepath.Join(folder, "usr/bin/qemu-system-x86_64"))
	require.Equal(t, filepath.Join(folder, "usr/share/OVMF/OVMF_VARS_4M.fd"), ovmf(ovmfVars))

	t.Setenv("SPORE_QEMU", "/opt/qemu/bin/qemu-system-x86_64")
	require.Equal(t, []string{"/opt/qemu/bin/qemu-system-x86_64"}, QEMU())
	require.Equal(t, []string{"/opt/qemu/bin/qemu-system-x86_64", "--version"}, command(t.Context(), "--version").Args)
}

func TestWhatOfPackagesBelongsToQEMU(t *testing.T) {
	for name, want := range map[string]bool{
		"/usr/bin/qemu-system-x86_64":                       true,
		"/usr/bin/qemu-system-i386":                         false,
		"/usr/lib/x86_64-linux-gnu/libglib-2.0.so.0.8400.4": true,
		"/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2":    true,
		"/usr/lib/x86_64-linux-gnu/pulseaudio/libpulse.so":  true,
		"/usr/lib/x86_64-linux-gnu/security/pam_unix.so":    false,
		"/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.d":   false,
		"/usr/lib/x86_64-linux-gnu/libsoftokn3.chk":         false,
		"/usr/share/qemu/efi-virtio.rom":                    true,
		"/usr/share/qemu/keymaps/de":                        true,
		"/usr/share/qemu":                                   false,
		"/usr/share/seabios/bios-256k.bin":                  true,
		"/usr/share/OVMF/OVMF_CODE_4M.fd":                   true,
		"/usr/share/OVMF/../../../etc/passwd":               false,
		"/usr/share/doc/ovmf/copyright":                     false,
		"/etc/ld.so.conf":                                   false,
		"/usr/lib/x86_64-linux-gnu/../../bin/evil.so.1":     false,
		"/usr/share/qemu-guest/something":                   false,
		"usr/bin/qemu-system-x86_64":                        false,
	} {
		require.Equal(t, want, BelongsToQEMU(name), name)
	}
}
