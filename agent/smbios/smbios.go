// Package smbios reads how the firmware names the machine: serial number and UUID of the system (SMBIOS type 1, DMTF
// DSP0134 section 7.2), as the kernel has them under /sys/class/dmi/id. It does not judge them: package identity knows
// which values vendors give to many machines.
package smbios

import (
	"io/fs"
	"strings"
)

// System is how the firmware names the machine. Fields are empty when unknown.
type System struct {
	Serial string `json:"serial,omitempty"`
	UUID   string `json:"uuid,omitempty"`
}

// maxValue bounds a value; SMBIOS strings are shorter.
const maxValue = 256

// Read reads from sys, the content of /sys.
func Read(sys fs.FS) System {
	return System{Serial: value(sys, "class/dmi/id/product_serial"), UUID: value(sys, "class/dmi/id/product_uuid")}
}

func value(sys fs.FS, name string) string {
	data, err := fs.ReadFile(sys, name)
	if err != nil || len(data) > maxValue {
		return ""
	}
	return strings.TrimSpace(string(data))
}
