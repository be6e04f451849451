// Package efi reads the EFI variables that say what a machine was booted from, and finds the disk of an EFI device path
// in sysfs (UEFI specification 2.10, sections 3.1.3, 3.3 and 10.3; systemd's Boot Loader Interface).
//
// It writes no variable. What it reads is outside data and bounded.
package efi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf16"

	"spore/storage/gpt"
)

// Vendors of variables.
const (
	globalVendor = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	loaderVendor = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

// maxVariable bounds a variable in bytes.
const maxVariable = 64 << 10

// Boot is what firmware and boot loader tell. A zero Boot tells nothing.
type Boot struct {
	// LoaderPartition is the PARTUUID of the ESP that systemd-boot, or the stub, was read from; zero when not known.
	LoaderPartition gpt.GUID
	// Option is the description of the boot option that the firmware used, Path its device path; empty when not known.
	Option string
	Path   Path
	// SecureBoot tells that the firmware starts only what is signed.
	SecureBoot bool
}

// ReadBoot reads Boot from the directory of efivarfs. What cannot be read stays empty; err says why, for the log.
func ReadBoot(vars fs.FS) (b Boot, err error) {
	partition, loaderErr := loaderPartition(vars)
	b.LoaderPartition = partition
	option, path, optionErr := bootOption(vars)
	b.Option, b.Path = option, path
	b.SecureBoot, err = secureBoot(vars)
	return b, errors.Join(loaderErr, optionErr, err)
}

// secureBoot is the firmware's switch (UEFI 2.10, section 3.3). Firmware without Secure Boot has none. One that cannot
// be read counts as on.
func secureBoot(vars fs.FS) (bool, error) {
	data, err := variable(vars, "SecureBoot", globalVendor)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && len(data) != 1 {
		err = fmt.Errorf("EFI variable SecureBoot: %d bytes", len(data))
	}
	return err != nil || data[0] != 0, err
}

func loaderPartition(vars fs.FS) (gpt.GUID, error) {
	data, err := variable(vars, "LoaderDevicePartUUID", loaderVendor)
	if err != nil {
		return gpt.GUID{}, err
	}
	text, _, err := utf16z(data)
	if err != nil {
		return gpt.GUID{}, fmt.Errorf("EFI variable LoaderDevicePartUUID: %w", err)
	}
	g, err := gpt.ParseGUID(text)
	if err != nil {
		return gpt.GUID{}, fmt.Errorf("EFI variable LoaderDevicePartUUID: %w", err)
	}
	return g, nil
}

// LoaderImage is the file of the boot loader that started the machine, with slashes, and the PARTUUID of the partition
// that it was read from (systemd's Boot Loader Interface, LoaderImageIdentifier and LoaderDevicePartUUID).
func LoaderImage(vars fs.FS) (string, gpt.GUID, error) {
	partition, err := loaderPartition(vars)
	if err != nil {
		return "", partition, err
	}
	data, err := variable(vars, "LoaderImageIdentifier", loaderVendor)
	if err != nil {
		return "", partition, err
	}
	image, _, err := utf16z(data)
	if err != nil {
		return "", partition, fmt.Errorf("EFI variable LoaderImageIdentifier: %w", err)
	}
	return strings.ReplaceAll(image, `\`, "/"), partition, nil
}

func bootOption(vars fs.FS) (string, Path, error) {
	current, err := variable(vars, "BootCurrent", globalVendor)
	if err != nil {
		return "", nil, err
	}
	if len(current) != 2 {
		return "", nil, fmt.Errorf("EFI variable BootCurrent: %d bytes", len(current))
	}
	name := fmt.Sprintf("Boot%04X", binary.LittleEndian.Uint16(current))
	data, err := variable(vars, name, globalVendor)
	if err != nil {
		return "", nil, err
	}
	description, path, err := ParseLoadOption(data)
	if err != nil {
		return "", nil, fmt.Errorf("EFI variable %s: %w", name, err)
	}
	return name + " " + description, path, nil
}

// ParseLoadOption reads description and first device path of an EFI_LOAD_OPTION.
func ParseLoadOption(data []byte) (string, Path, error) {
	if len(data) < 6 {
		return "", nil, fmt.Errorf("load option of %d bytes", len(data))
	}
	pathLen := int(binary.LittleEndian.Uint16(data[4:]))
	description, rest, err := utf16z(data[6:])
	if err != nil {
		return "", nil, fmt.Errorf("load option: description: %w", err)
	}
	if pathLen > len(rest) {
		return "", nil, fmt.Errorf("load option: a device path of %d bytes in %d", pathLen, len(rest))
	}
	path, err := ParsePath(rest[:pathLen])
	if err != nil {
		return "", nil, fmt.Errorf("load option %q: %w", description, err)
	}
	return description, path, nil
}

// variable reads a variable without its four bytes of attributes.
func variable(vars fs.FS, name, vendor string) ([]byte, error) {
	f, err := vars.Open(name + "-" + vendor)
	if err != nil {
		return nil, fmt.Errorf("EFI variable: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxVariable+1))
	if err != nil {
		return nil, fmt.Errorf("EFI variable %s: %w", name, err)
	}
	if len(b) < 4 || len(b) > maxVariable {
		return nil, fmt.Errorf("EFI variable %s: %d bytes", name, len(b))
	}
	return b[4:], nil
}

// utf16z reads UTF-16LE up to a zero, and returns what follows.
func utf16z(b []byte) (string, []byte, error) {
	var text []uint16
	for ; len(b) >= 2; b = b[2:] {
		c := binary.LittleEndian.Uint16(b)
		if c == 0 {
			return string(utf16.Decode(text)), b[2:], nil
		}
		text = append(text, c)
	}
	return "", nil, errors.New("text without an end")
}
