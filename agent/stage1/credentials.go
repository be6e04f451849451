package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spore/agent/stage1/outside"
)

const (
	// credentials is where systemd looks for those of the system. When init is told so (systemd.exec(5),
	// $CREDENTIALS_DIRECTORY), it imports none by itself: neither from SMBIOS nor from fw_cfg, nor from the kernel command
	// line.
	credentials = "/run/credentials/@system"
	// itemsDevice is QEMU's fw_cfg among the devices of ACPI (QEMU, docs/specs/fw_cfg.rst), itemsModule its driver.
	itemsDevice = "bus/acpi/devices/QEMU0002:00"
	itemsModule = "qemu_fw_cfg"
)

// initEnvironment is what init is started with.
var initEnvironment = []string{"CREDENTIALS_DIRECTORY=" + credentials}

// handOverCredentials leaves what firmware and hypervisor give to the units that name it. It makes the directory in any
// case: without it systemd would import everything.
func (b *boot) handOverCredentials() (string, error) {
	if _, err := fs.Stat(b.sys, itemsDevice); err == nil {
		if err := b.loader.Load(itemsModule); err != nil {
			b.say(warning, "the items of QEMU's fw_cfg cannot be read: %s", oneLine(err))
		}
	}
	taken, said := outside.Read(b.sys)
	for _, s := range said {
		b.say(warning, "%s", s)
	}
	return layCredentials(credentials, taken)
}

func layCredentials(dir string, taken []outside.Credential) (string, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	text := ""
	for _, c := range taken {
		if err := os.WriteFile(filepath.Join(dir, c.Name), c.Data, 0o400); err != nil {
			return "", err
		}
		text += " " + c.Name
	}
	if text == "" {
		return "", nil
	}
	return fmt.Sprintf("firmware or hypervisor gave%s (not authenticated)", text), nil
}
