// Package nvcounter has the machine's TPM remember how far the node has come with configurations, so that a copy of its
// state from before is found out: an NV index of the kind "counter", which only ever goes up (TCG TPM 2.0 Library, part
// 1, section 37.2.4). The highest serial that the node took is what the counter has gone up since a number that the
// node's record keeps.
//
// An index that was removed and made again goes on above the highest number that any counter of this TPM ever had, so
// that whoever may remove it, which is anybody who runs a system on the machine, makes the node refuse more and never
// less. A counter says nothing of a record that somebody else wrote: that its file is the node's own is what encrypted
// state is for.
package nvcounter

import (
	"errors"
	"fmt"
)

// maxSteps is how often the counter is raised for one configuration: the TPM's memory wears out, and each step takes
// some milliseconds. Over more serials than that the record is bound anew, with one step.
const maxSteps = 64

// Bound is what a record keeps: the node had taken the serial when the TPM's counter had the number.
type Bound struct {
	// TPM is the hash that names it.
	TPM    string `json:"tpm"`
	Count  uint64 `json:"count"`
	Serial uint64 `json:"serial"`
}

// Device is a TPM with the counter.
type Device interface {
	// ID is a hash that no other TPM has, and that clearing this one does not change.
	ID() string
	Count() (uint64, error)
	Increment() error
}

// errOther is a counter that somebody else moved meanwhile.
var errOther = errors.New("the TPM's counter does not go up by one")

// Floor is the highest serial that the node has taken as far as the TPM knows; 0 where the record was bound to no TPM or
// to another one.
func Floor(d Device, b *Bound) (uint64, error) {
	if b == nil || b.TPM != d.ID() {
		return 0, nil
	}
	count, err := d.Count()
	if err != nil || count < b.Count {
		return 0, err // A cut came before the counter was raised to what the record says.
	}
	return b.Serial + (count - b.Count), nil
}

// Bind is what the record of a serial is to keep, whose record before kept b. It changes nothing: once the record is
// written, Reach raises the counter.
func Bind(d Device, b *Bound, serial uint64) (Bound, error) {
	count, err := d.Count()
	if err != nil {
		return Bound{}, err
	}
	if b == nil || b.TPM != d.ID() || serial < b.Serial {
		return Bound{d.ID(), count, serial}, nil
	}
	switch want := b.reach(serial); {
	case want < count: // The operator's word was taken in place of the counter's.
		return Bound{d.ID(), count, serial}, nil
	case want-count > maxSteps:
		return Bound{d.ID(), count + 1, serial}, nil
	}
	return *b, nil
}

// reach is where the counter is when a serial was taken.
func (b Bound) reach(serial uint64) uint64 { return b.Count + (serial - b.Serial) }

// Reach raises the counter to where it is when the serial was taken. It can be cut off at any point and run again.
func Reach(d Device, b Bound, serial uint64) error {
	count, err := d.Count()
	if err != nil {
		return err
	}
	for want := b.reach(serial); count < want; {
		if want-count > maxSteps {
			return fmt.Errorf("internal error: the TPM's counter is at %d, and %d is too far to raise it to", count, want)
		}
		if err := d.Increment(); err != nil {
			return err
		}
		now, err := d.Count()
		if err != nil {
			return err
		}
		if now <= count {
			return errOther
		}
		count = now
	}
	return nil
}
