package slot

import (
	"fmt"
	"strconv"
	"strings"
)

// Entry is the name of a unified kernel image on the ESP: STEM.efi, or STEM+LEFT.efi or STEM+LEFT-DONE.efi while starts are
// counted (UAPI.1, Boot Loader Specification, "Boot counting").
type Entry struct {
	Stem    string
	Counted bool
	// Left are the starts that the loader will try yet, Done those that it has tried.
	Left, Done int
}

// firstGeneration is the number that is in the name of the first pushed image. systemd-boot starts the entry whose name is the
// newest version (UAPI.10): a number of 13 digits is newer than the hash of 12 that `spore build` names an image by, whatever
// its digits are.
const firstGeneration = 1_000_000_000_001

// ParseEntry reads the name of a file; ok is false for what is no entry.
func ParseEntry(file string) (e Entry, ok bool) {
	if len(file) < 5 || !strings.EqualFold(file[len(file)-4:], ".efi") {
		return Entry{}, false
	}
	e.Stem = file[:len(file)-4]
	i := strings.LastIndexByte(e.Stem, '+')
	if i < 0 {
		return e, true
	}
	left, done, both := strings.Cut(e.Stem[i+1:], "-")
	l, err := strconv.ParseUint(left, 10, 16)
	d, err2 := uint64(0), error(nil)
	if both {
		d, err2 = strconv.ParseUint(done, 10, 16)
	}
	if err != nil || err2 != nil {
		return e, true // A name with a plus, and no counter.
	}
	return Entry{Stem: e.Stem[:i], Counted: true, Left: int(l), Done: int(d)}, true
}

// File is the name of the entry's file.
func (e Entry) File() string {
	switch {
	case !e.Counted:
		return e.Stem + ".efi"
	case e.Done == 0:
		return fmt.Sprintf("%s+%d.efi", e.Stem, e.Left)
	}
	return fmt.Sprintf("%s+%d-%d.efi", e.Stem, e.Left, e.Done)
}

// Good is the entry when its system is known to be good: it is counted no more.
func (e Entry) Good() Entry { return Entry{Stem: e.Stem} }

// Bad is the entry when the loader shall not start it by itself any more.
func (e Entry) Bad() Entry { return Entry{Stem: e.Stem, Counted: true, Done: e.Left + e.Done} }

// Returned is the entry with the try given back that the start which runs took: it was ended on purpose.
func (e Entry) Returned() Entry {
	if !e.Counted || e.Done == 0 {
		return e
	}
	return Entry{Stem: e.Stem, Counted: true, Left: e.Left + 1, Done: e.Done - 1}
}

// generation is the number in the name of a pushed image; 0 for one of `spore build`.
func (e Entry) generation() uint64 {
	number, _, _ := strings.Cut(strings.TrimPrefix(e.Stem, prefix), "_")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n < firstGeneration {
		return 0
	}
	return n
}

const prefix = "spore_"

// newEntry is the name of an image that the loader takes for newer than all there are.
func newEntry(there []Entry, sha256 string) Entry {
	n := uint64(firstGeneration)
	for _, e := range there {
		n = max(n, e.generation()+1)
	}
	return Entry{Stem: fmt.Sprintf("%s%d_%s", prefix, n, sha256[:12]), Counted: true, Left: Tries}
}
