package efivars

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spore/storage/atomicfile"
)

// attributes are those of a variable that is kept, and seen before and after the system starts.
const attributes = 0x7

// MaxSize bounds a variable that is read or written, in bytes; the longest are boot options.
const MaxSize = 16 << 10

// Read reads a variable without its attributes; name has its vendor, as efivarfs names files. The error of one that is
// not there is fs.ErrNotExist.
func Read(vars, name string) ([]byte, error) {
	data, err := atomicfile.ReadLimited(filepath.Join(vars, name), MaxSize+4)
	// efivarfs keeps a file without content where the firmware refused to make the variable.
	if err == nil && len(data) == 0 {
		err = fs.ErrNotExist
	}
	if err == nil && len(data) < 4 {
		err = fmt.Errorf("it has %d bytes", len(data))
	}
	if err != nil {
		return nil, fmt.Errorf("EFI variable %s: %w", name, err)
	}
	return data[4:], nil
}

// Write sets a variable, and reads it back: efivarfs wants all of it in one write, with the attributes in front.
func Write(vars, name string, data []byte) error {
	path := filepath.Join(vars, name)
	if err := Mutable(path); err != nil {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("EFI variable: %w", err)
	}
	content := append(binary.LittleEndian.AppendUint32(nil, attributes), data...)
	if _, err = f.Write(content); err == nil {
		err = f.Truncate(int64(len(content))) // Of efivarfs the write has done it.
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}
	got, err := Read(vars, name)
	if err == nil && !bytes.Equal(got, data) {
		err = fmt.Errorf("EFI variable %s: the firmware does not keep what was written to it", name)
	}
	return err
}

// Remove removes a variable; one that is not there is fine.
func Remove(vars, name string) error {
	path := filepath.Join(vars, name)
	err := Mutable(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}
	return nil
}
