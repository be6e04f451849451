package bootoption

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

	"spore/storage/atomicfile"
)

// vendor is that of the boot manager's variables (UEFI 2.10, section 3.3).
const vendor = "8be4df61-93ca-11d2-aa0d-00e098032b8c"

// attributes are those of boot variables: kept, and seen before and after the system starts.
const attributes = 0x7

// maxOrder bounds the boot order, in bytes.
const maxOrder = 4096

// Variables is the directory of efivarfs. The kernel protects no variable of the boot manager by the immutable flag:
// they are written and removed as files are (Linux, Documentation/filesystems/efivarfs.rst).
type Variables string

// Name is that of the variable of an option.
func Name(number uint16) string { return fmt.Sprintf("Boot%04X", number) }

// Add gives an option a number: the one that it has already, or the first that is free.
func (v Variables) Add(o Option) (uint16, error) {
	option := o.Encode()
	number, there, err := v.find(option)
	if err != nil || there {
		return number, err
	}
	return number, v.write(Name(number), option)
}

// find is the number of an option, or the first that is free.
func (v Variables) find(option []byte) (number uint16, there bool, err error) {
	names, err := filepath.Glob(filepath.Join(string(v), "Boot????-"+vendor))
	if err != nil {
		return 0, false, err
	}
	slices.Sort(names)
	used := map[uint16]bool{}
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), "-"+vendor)
		n, err := strconv.ParseUint(strings.TrimPrefix(base, "Boot"), 16, 16)
		if err != nil {
			continue // Such as BootNext.
		}
		used[uint16(n)] = true
		if data, err := v.read(base); err == nil && bytes.Equal(data, option) {
			return uint16(n), true, nil
		}
	}
	for n := range uint16(0xffff) {
		if !used[n] {
			return n, false, nil
		}
	}
	return 0, false, errors.New("all boot entries are in use: delete some in the firmware's setup")
}

// First makes an option the first of the boot order.
func (v Variables) First(number uint16) error {
	old, err := v.read("BootOrder")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(old)%2 != 0 || len(old) > maxOrder {
		return fmt.Errorf("EFI variable BootOrder: %d bytes", len(old))
	}
	order := binary.LittleEndian.AppendUint16(nil, number)
	for i := 0; i < len(old); i += 2 {
		if binary.LittleEndian.Uint16(old[i:]) != number {
			order = append(order, old[i:i+2]...)
		}
	}
	if bytes.Equal(order, old) {
		return nil
	}
	return v.write("BootOrder", order)
}

// Next has the firmware take an option at the very next start, and then no more.
func (v Variables) Next(number uint16) error {
	return v.write("BootNext", binary.LittleEndian.AppendUint16(nil, number))
}

// IsNext tells whether the firmware takes an option at the very next start.
func (v Variables) IsNext(number uint16) (bool, error) {
	data, err := v.read("BootNext")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && bytes.Equal(data, binary.LittleEndian.AppendUint16(nil, number)), err
}

// Forget removes an option, and has the firmware not take it at the next start. An option that is gone already is fine.
func (v Variables) Forget(o Option) error {
	number, there, err := v.find(o.Encode())
	if err != nil || !there {
		return err
	}
	next, err := v.IsNext(number)
	if err == nil && next {
		err = v.remove("BootNext")
	}
	if err != nil {
		return err
	}
	return v.remove(Name(number))
}

// read reads a variable without its attributes.
func (v Variables) read(name string) ([]byte, error) {
	data, err := atomicfile.ReadLimited(v.file(name), maxOption+4)
	if err != nil {
		return nil, fmt.Errorf("EFI variable: %w", err)
	}
	// efivarfs keeps a file without content, until the machine starts anew, where the firmware refused to make the
	// variable.
	if len(data) == 0 {
		return nil, fmt.Errorf("EFI variable %s: %w", name, fs.ErrNotExist)
	}
	if len(data) < 4 {
		return nil, fmt.Errorf("EFI variable %s: %d bytes", name, len(data))
	}
	return data[4:], nil
}

// write sets a variable, and reads it back: efivarfs wants all of it in one write, with the attributes in front.
func (v Variables) write(name string, data []byte) error {
	f, err := os.OpenFile(v.file(name), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("EFI variable: %w", err)
	}
	_, err = f.Write(append(binary.LittleEndian.AppendUint32(nil, attributes), data...))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}
	got, err := v.read(name)
	if err == nil && !bytes.Equal(got, data) {
		err = fmt.Errorf("EFI variable %s: the firmware does not keep what was written to it", name)
	}
	return err
}

func (v Variables) remove(name string) error {
	if err := os.Remove(v.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}
	return nil
}

func (v Variables) file(name string) string { return filepath.Join(string(v), name+"-"+vendor) }
