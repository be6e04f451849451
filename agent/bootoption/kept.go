package bootoption

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Kept is an option that the firmware keeps.
type Kept struct {
	Number uint16
	Option
}

// Kept lists the options that start a file from a GPT partition, by their numbers. Places are in units of sectors of
// the given size. Options with other paths, and those that cannot be read, are left out.
func (v Variables) Kept(sectorSize int) ([]Kept, error) {
	numbers, err := v.numbers()
	if err != nil {
		return nil, err
	}
	var out []Kept
	for _, n := range numbers {
		data, err := v.read(Name(n))
		if err != nil {
			continue
		}
		if o, err := Parse(data, sectorSize); err == nil {
			out = append(out, Kept{n, o})
		}
	}
	return out, nil
}

// Drop removes an option, and takes it off the boot order. The order goes first: an option that no order has is
// started by nobody.
func (v Variables) Drop(number uint16) error {
	next, err := v.IsNext(number)
	if err == nil && next {
		err = v.remove("BootNext")
	}
	if err != nil {
		return err
	}
	old, err := v.order()
	if err != nil {
		return err
	}
	order := slices.DeleteFunc(slices.Clone(old), func(n uint16) bool { return n == number })
	switch {
	case len(order) == 0:
		err = v.remove("BootOrder") // A variable without content is none (UEFI 2.10, section 8.2).
	case len(order) < len(old):
		err = v.setOrder(order)
	}
	if err != nil {
		return err
	}
	return v.remove(Name(number))
}

// numbers are those of all options, in ascending order.
func (v Variables) numbers() ([]uint16, error) {
	names, err := filepath.Glob(filepath.Join(string(v), "Boot????-"+vendor))
	if err != nil {
		return nil, fmt.Errorf("EFI variables: %w", err)
	}
	var out []uint16
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), "-"+vendor)
		n, err := strconv.ParseUint(strings.TrimPrefix(base, "Boot"), 16, 16)
		if err == nil { // Such as BootNext is none.
			out = append(out, uint16(n))
		}
	}
	slices.Sort(out)
	return out, nil
}
