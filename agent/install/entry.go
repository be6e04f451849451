package install

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"spore/storage/gpt"
)

// globalVendor is that of the boot manager's variables (UEFI 2.10, section 3.3).
const globalVendor = "8be4df61-93ca-11d2-aa0d-00e098032b8c"

// attributes are those of boot variables: kept, and seen before and after the system starts.
const attributes = 0x7

// maxOrder bounds the boot order, in bytes.
const maxOrder = 4096

// Register makes the boot entry of a disk the first of the firmware's boot order: an entry with the same path is used
// again. With next, the firmware also takes it for the very next start, since some firmware puts its own order back at each
// start. vars is the directory of efivarfs. It returns the entry's name, such as Boot0003.
func Register(vars string, description string, esp gpt.Partition, sectorSize int, next bool) (string, error) {
	option := loadOption(description, esp, sectorSize)
	number, there, err := slot(vars, option)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("Boot%04X", number)
	if !there {
		if err := write(vars, name, option); err != nil {
			return "", err
		}
	}
	old, err := read(vars, "BootOrder")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(old)%2 != 0 || len(old) > maxOrder {
		return "", fmt.Errorf("EFI variable BootOrder: %d bytes", len(old))
	}
	order := binary.LittleEndian.AppendUint16(nil, number)
	for i := 0; i < len(old); i += 2 {
		if binary.LittleEndian.Uint16(old[i:]) != number {
			order = append(order, old[i:i+2]...)
		}
	}
	if !bytes.Equal(order, old) {
		if err := write(vars, "BootOrder", order); err != nil {
			return "", err
		}
	}
	if !next {
		return name, nil
	}
	return name, write(vars, "BootNext", order[:2])
}

// slot is the number of the entry that is there already, or the first that is free.
func slot(vars string, option []byte) (number uint16, there bool, err error) {
	names, err := filepath.Glob(filepath.Join(vars, "Boot????-"+globalVendor))
	if err != nil {
		return 0, false, err
	}
	slices.Sort(names)
	used := map[uint16]bool{}
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), "-"+globalVendor)
		n, err := strconv.ParseUint(strings.TrimPrefix(base, "Boot"), 16, 16)
		if err != nil {
			continue // Such as BootNext.
		}
		used[uint16(n)] = true
		if data, err := read(vars, base); err == nil && bytes.Equal(data, option) {
			return uint16(n), true, nil
		}
	}
	for n := range uint16(0xffff) {
		if !used[n] {
			return n, false, nil
		}
	}
	return 0, false, errors.New("there is no free boot entry: delete some in the firmware's setup")
}

// loadOption is an EFI_LOAD_OPTION (section 3.1.3) with the short path of a file on a partition (section 10.3.5.1).
func loadOption(description string, esp gpt.Partition, sectorSize int) []byte {
	le := binary.LittleEndian
	drive := []byte{4, 1, 42, 0}
	drive = le.AppendUint32(drive, uint32(esp.Number))
	drive = le.AppendUint64(drive, uint64(esp.Start)/uint64(sectorSize))
	drive = le.AppendUint64(drive, uint64(esp.Size)/uint64(sectorSize))
	drive = append(drive, esp.GUID.OnDisk()...)
	drive = append(drive, 2, 2) // a GPT, named by the GUID of its partition
	name := text(strings.ReplaceAll(LoaderPath, "/", `\`))
	file := le.AppendUint16([]byte{4, 4}, uint16(4+len(name)))
	path := append(append(append(drive, file...), name...), 0x7f, 0xff, 4, 0)
	option := le.AppendUint32(nil, 1) // active
	option = le.AppendUint16(option, uint16(len(path)))
	return append(append(option, text(description)...), path...)
}

// text is UTF-16 with a zero at its end.
func text(s string) []byte {
	var out []byte
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// read reads a variable without its attributes.
func read(vars, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(vars, name+"-"+globalVendor))
	if err != nil {
		return nil, fmt.Errorf("EFI variable: %w", err)
	}
	if len(data) < 4 {
		return nil, fmt.Errorf("EFI variable %s: %d bytes", name, len(data))
	}
	return data[4:], nil
}

// write sets a variable: efivarfs wants all of it in one write, with the attributes in front.
func write(vars, name string, data []byte) error {
	f, err := os.OpenFile(filepath.Join(vars, name+"-"+globalVendor), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("EFI variable: %w", err)
	}
	_, err = f.Write(append(binary.LittleEndian.AppendUint32(nil, attributes), data...))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}
	return nil
}
