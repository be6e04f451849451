package vm

import (
	"fmt"
	"os"
	"path/filepath"
)

// Firmware of a machine.
const (
	// UEFI is OVMF without Secure Boot, and the default.
	UEFI = ""
	// BIOS is QEMU's own, SeaBIOS.
	BIOS = "bios"
	// SecureBoot is OVMF with Secure Boot. Its variables are in flash that only code in system management mode writes, as
	// in a real machine: a system cannot change the keys behind the firmware's back.
	SecureBoot = "secureboot"
)

// Files of Debian's package ovmf. The empty variables are the same for both: no keys, setup mode.
const (
	ovmfCode       = "OVMF_CODE_4M.fd"
	ovmfSecureCode = "OVMF_CODE_4M.secboot.fd"
	ovmfVars       = "OVMF_VARS_4M.fd"
	// hostOVMF is where the package of the host has them.
	hostOVMF = "/usr/share/OVMF"
)

// ovmf is a file of the firmware: code and variables are of one folder.
func ovmf(name string) string {
	if folder, ok := cached(); ok {
		return filepath.Join(folder, qemuOVMF, name)
	}
	return filepath.Join(hostOVMF, name)
}

// VarsPath is the file with the firmware's variables.
func (c Config) VarsPath() string { return filepath.Join(c.Dir, c.Name+".vars.fd") }

// bootArgs is either a kernel or the firmware with variables of its own, which last for all starts with the same Dir.
func (c Config) bootArgs() ([]string, error) {
	if c.Kernel != "" {
		args := []string{"-kernel", c.Kernel, "-append", c.Append}
		if c.Initrd != "" {
			args = append(args, "-initrd", c.Initrd)
		}
		return args, nil
	}
	code := ovmfCode
	var args []string
	switch c.Firmware {
	case UEFI:
	case BIOS:
		return nil, nil
	case SecureBoot:
		code = ovmfSecureCode
		args = []string{"-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on"}
	default:
		return nil, fmt.Errorf("unknown firmware %q", c.Firmware)
	}
	if err := c.makeVars(); err != nil {
		return nil, err
	}
	return append(args,
		"-drive", "if=pflash,format=raw,readonly=on,file="+escape(ovmf(code)),
		"-drive", "if=pflash,format=raw,file="+escape(c.VarsPath())), nil
}

// makeVars copies the variables that the machine begins with, unless it has some.
func (c Config) makeVars() error {
	if _, err := os.Stat(c.VarsPath()); err == nil {
		return nil
	}
	from := c.Vars
	if from == "" {
		from = ovmf(ovmfVars)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("firmware: %w; run make deps", err)
	}
	return os.WriteFile(c.VarsPath(), data, 0o600)
}
