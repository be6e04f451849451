package bootoption

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"spore/agent/efivars"
)

// vendor is that of the boot manager's variables (UEFI 2.10, section 3.3).
const vendor = "8be4df61-93ca-11d2-aa0d-00e098032b8c"

// maxOrder bounds the boot order, in bytes.
const maxOrder = 4096

// Variables is the directory of efivarfs.
type Variables string

// Name is that of the variable of an option.
func Name(number uint16) string { return fmt.Sprintf("Boot%04X", number) }

// Add gives an option a number: the one that it has already, or the first that is free.
func (v Variables) Add(o Option) (uint16, error) {
	number, there, err := v.find(o)
	if err != nil || there {
		return number, err
	}
	return number, v.write(Name(number), o.Encode())
}

// find is the number of an option, or the first that is free.
func (v Variables) find(o Option) (number uint16, there bool, err error) {
	numbers, err := v.numbers()
	if err != nil {
		return 0, false, err
	}
	for _, n := range numbers {
		if data, err := v.read(Name(n)); err == nil && o.is(data) {
			return n, true, nil
		}
	}
	for n := range uint16(0xffff) {
		if !slices.Contains(numbers, n) {
			return n, false, nil
		}
	}
	return 0, false, errors.New("all boot entries are in use: delete some in the firmware's setup")
}

// First makes an option the first of the boot order.
func (v Variables) First(number uint16) error {
	old, err := v.order()
	if err != nil {
		return err
	}
	order := []uint16{number}
	for _, n := range old {
		if n != number {
			order = append(order, n)
		}
	}
	if slices.Equal(order, old) {
		return nil
	}
	return v.setOrder(order)
}

// Current is the option that the firmware started the machine by. The error is fs.ErrNotExist where it does not say.
func (v Variables) Current() (uint16, error) {
	data, err := v.read("BootCurrent")
	if err == nil && len(data) != 2 {
		err = fmt.Errorf("EFI variable BootCurrent: %d bytes", len(data))
	}
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint16(data), nil
}

// Has tells whether the boot order has an option.
func (v Variables) Has(number uint16) (bool, error) {
	order, err := v.order()
	return slices.Contains(order, number), err
}

// IsFirst tells whether the option that the firmware started the machine by is the first of its order.
func (v Variables) IsFirst() (bool, error) {
	number, err := v.Current()
	if err != nil {
		return false, err
	}
	order, err := v.order()
	return err == nil && len(order) > 0 && order[0] == number, err
}

// Started tells whether the firmware started the machine by an option.
func (v Variables) Started(o Option) (bool, error) {
	number, err := v.Current()
	if err != nil {
		return false, err
	}
	data, err := v.read(Name(number))
	return err == nil && o.is(data), err
}

// Behind puts options directly behind another one in the boot order, so that the firmware takes them where that one
// does not start. Those that are there already in this order, whatever is before them, stay where they are.
func (v Variables) Behind(first uint16, more []uint16) error {
	old, err := v.order()
	if err != nil {
		return err
	}
	if has(old, more) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(old), func(n uint16) bool { return n != first && slices.Contains(more, n) })
	at := slices.Index(rest, first)
	if at < 0 {
		return fmt.Errorf("EFI variable BootOrder does not have %s", Name(first))
	}
	return v.setOrder(slices.Insert(rest, at+1, slices.DeleteFunc(slices.Clone(more), func(n uint16) bool {
		return n == first
	})...))
}

// has tells whether an order has options one behind the other, and something before them.
func has(order, options []uint16) bool {
	if len(options) == 0 {
		return true
	}
	at := slices.Index(order, options[0])
	return at > 0 && len(order)-at >= len(options) && slices.Equal(order[at:at+len(options)], options)
}

// order is the boot order; empty where there is none.
func (v Variables) order() ([]uint16, error) {
	data, err := v.read("BootOrder")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (len(data)%2 != 0 || len(data) > maxOrder) {
		err = fmt.Errorf("EFI variable BootOrder: %d bytes", len(data))
	}
	if err != nil {
		return nil, err
	}
	var out []uint16
	for i := 0; i < len(data); i += 2 {
		out = append(out, binary.LittleEndian.Uint16(data[i:]))
	}
	return out, nil
}

func (v Variables) setOrder(order []uint16) error {
	var data []byte
	for _, n := range order {
		data = binary.LittleEndian.AppendUint16(data, n)
	}
	return v.write("BootOrder", data)
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
	number, there, err := v.find(o)
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
	return efivars.Read(string(v), name+"-"+vendor)
}

func (v Variables) write(name string, data []byte) error {
	return efivars.Write(string(v), name+"-"+vendor, data)
}

func (v Variables) remove(name string) error {
	return efivars.Remove(string(v), name+"-"+vendor)
}
