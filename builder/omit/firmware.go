package omit

import (
	"path"
	"strings"
)

// FirmwareDir is where packages put firmware.
const FirmwareDir = "/usr/lib/firmware"

// Firmware returns what to leave out of the given paths below FirmwareDir: the firmware that modules which are left out ask
// for and no other module does. A module asks for files by name, but drivers make names at run time too, and take
// older versions of a file. So what is compared is the directory of a file, and of one in FirmwareDir itself its name up to
// the first dash: when a module that stays asks for one file of such a group, the group stays. Firmware that no module
// asks for stays as well.
func (k *Kernel) Firmware(paths []string) []Omission {
	if k.Keep.Class(Firmware) {
		return nil
	}
	var out []Omission
	for _, p := range paths {
		rel, ok := strings.CutPrefix(p, FirmwareDir+"/")
		if !ok || k.Keep.Path(p) {
			continue
		}
		g := group(rel)
		if class := k.LeftFirmware[g]; class != "" && !k.KeptFirmware[g] {
			out = append(out, Omission{Path: p, Class: Firmware, Why: "only modules of the class " + class + " ask for it, which are left out"})
		}
	}
	return out
}

// group is what is compared of the path of firmware.
func group(p string) string {
	if dir := path.Dir(p); dir != "." {
		return dir + "/"
	}
	for _, suffix := range []string{".xz", ".zst"} { // CONFIG_FW_LOADER_COMPRESS
		p = strings.TrimSuffix(p, suffix)
	}
	name, _, _ := strings.Cut(p, "-")
	return name
}
