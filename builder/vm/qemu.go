package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The emulator of Debian 13 boots a machine in four fifths of the processor time of Debian 12's, and its firmware reaches
// the boot loader in half of it. Both fit into one folder of the user's cache, so that no package of the host is replaced.

// hostQEMU is the program of the host.
const hostQEMU = "qemu-system-x86_64"

// Paths in the folder of QEMUFolder, which are those of Debian's packages.
const (
	qemuProgram = "usr/bin/" + hostQEMU
	qemuLibs    = "usr/lib/x86_64-linux-gnu"
	// qemuLoader starts the program with the libraries of the folder, which those of the host may be too old for (ld.so(8)).
	qemuLoader = qemuLibs + "/ld-linux-x86-64.so.2"
	qemuROMs   = "usr/share/qemu"
	seaBIOS    = "usr/share/seabios"
	qemuOVMF   = "usr/share/OVMF"
)

// BelongsToQEMU tells whether a path of a package, such as /usr/bin/qemu-system-x86_64, belongs into the folder: the program,
// its libraries, and what it gives to machines.
func BelongsToQEMU(name string) bool {
	for _, folder := range []string{qemuROMs, seaBIOS, qemuOVMF} {
		if in, err := filepath.Rel("/"+folder, name); err == nil && filepath.IsLocal(in) && in != "." {
			return true
		}
	}
	if dir := filepath.Dir(name); dir == "/"+qemuLibs || dir == "/"+qemuLibs+"/pulseaudio" {
		library, err := filepath.Match("*.so*", filepath.Base(name))
		return err == nil && library
	}
	return name == "/"+qemuProgram
}

// QEMUFolder is where QEMU and its firmware are looked for first, in the user's cache: `make deps` brings those of
// Debian 13 there. It holds files of packages under their paths.
func QEMUFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	return filepath.Join(base, "spore-qemu"), nil
}

// HasQEMU tells whether a folder has QEMU and its firmware.
func HasQEMU(folder string) bool {
	for _, name := range []string{qemuProgram, qemuLoader, filepath.Join(qemuROMs, "efi-virtio.rom"), filepath.Join(seaBIOS, "bios-256k.bin"),
		filepath.Join(qemuOVMF, ovmfCode), filepath.Join(qemuOVMF, ovmfSecureCode), filepath.Join(qemuOVMF, ovmfVars)} {
		if s, err := os.Stat(filepath.Join(folder, name)); err != nil || !s.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// cached is the folder with QEMU, if there is one.
func cached() (folder string, ok bool) {
	folder, err := QEMUFolder()
	return folder, err == nil && HasQEMU(folder)
}

// QEMU is the program and its first arguments: what SPORE_QEMU names, else QEMU of the user's cache, else the host's.
func QEMU() []string {
	if named := os.Getenv("SPORE_QEMU"); named != "" {
		return []string{named}
	}
	if folder, ok := cached(); ok {
		return QEMUIn(folder)
	}
	return []string{hostQEMU}
}

// QEMUIn is the program of a folder and its first arguments. The name is that of its process, which would be the loader's.
func QEMUIn(folder string) []string {
	in := func(name string) string { return filepath.Join(folder, name) }
	return []string{in(qemuLoader), "--library-path", in(qemuLibs) + ":" + in(qemuLibs+"/pulseaudio"), "--argv0", hostQEMU,
		in(qemuProgram), "-L", in(qemuROMs), "-L", in(seaBIOS), "-name", "process=" + hostQEMU}
}

// HostHasQEMU tells whether the host's QEMU is as new as Debian 13's, and needs no other one.
func HostHasQEMU(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, hostQEMU, "--version").Output()
	v, ok := qemuVersion(string(out))
	return err == nil && ok && !v.before(10, 0)
}

// command is QEMU with arguments.
func command(ctx context.Context, args ...string) *exec.Cmd {
	words := append(QEMU(), args...)
	return exec.CommandContext(ctx, words[0], words[1:]...)
}
