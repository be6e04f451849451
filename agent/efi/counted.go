package efi

import (
	"io/fs"
	"regexp"
	"strings"
)

// counter is that of a file's name while starts are counted (UAPI.1, Boot Loader Specification, "Boot counting").
var counter = regexp.MustCompile(`\+[0-9]+(-[0-9]+)?(\.efi|\.conf)$`)

// Counted tells whether the boot loader counts this start (systemd-boot(7), LoaderBootCountPath), because the entry
// that it started is on trial. vars is the directory of efivarfs.
//
// The variable is there until the machine is reset. Where the loader could not start the entry, and the firmware
// started the loader once more, it tells of that entry, and LoaderEntrySelected of the one that runs.
func Counted(vars fs.FS) bool {
	counted, err := loaderText(vars, "LoaderBootCountPath")
	if err != nil {
		return HasCounted(vars) // One that cannot be read counts.
	}
	selected, err := loaderText(vars, "LoaderEntrySelected")
	return err != nil || stem(counted) == stem(selected)
}

// HasCounted tells whether the boot loader has counted an entry since the machine was reset: the one that runs, or one
// that it tried before and could not start.
func HasCounted(vars fs.FS) bool {
	_, err := fs.Stat(vars, "LoaderBootCountPath-"+loaderVendor)
	return err == nil
}

// stem is the name of an entry's file without folder and counter.
func stem(path string) string {
	name := strings.ToLower(path[strings.LastIndexAny(path, `\/`)+1:])
	return counter.ReplaceAllString(name, "$2")
}

// loaderText is a variable of the boot loader that is a text.
func loaderText(vars fs.FS, name string) (string, error) {
	data, err := variable(vars, name, loaderVendor)
	if err != nil {
		return "", err
	}
	text, _, err := utf16z(data)
	return text, err
}
