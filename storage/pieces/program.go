package pieces

import (
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"slices"
)

// programPiece is how long a piece of a program is at most, in bytes: what a changed byte in a kernel costs.
const programPiece = 256 << 10

// maxSections bounds those of a program.
const maxSections = 256

// OfProgram makes the index of a PE file such as a unified kernel image: its sections (kernel, initramfs, command line
// …) begin pieces of their own, so that one that is as before has the pieces of before wherever it is.
func OfProgram(r io.ReaderAt, size int64) (Index, error) {
	var x Index
	err := EachOfProgram(r, size, x.add)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// EachOfProgram hands over the content of each piece of OfProgram in their order. It is good until the next one.
func EachOfProgram(r io.ReaderAt, size int64, each func(content []byte) error) error {
	f, err := pe.NewFile(io.NewSectionReader(r, 0, size))
	if err != nil {
		return fmt.Errorf("cut a program into pieces: %w", err)
	}
	if len(f.Sections) > maxSections {
		return errors.New("cut a program into pieces: it has too many sections")
	}
	var at []int64
	for _, s := range f.Sections {
		at = append(at, int64(s.Offset), int64(s.Offset)+int64(s.Size))
	}
	slices.Sort(at)
	if err := cut(r, size, at, programPiece, each); err != nil {
		return fmt.Errorf("cut a program into pieces: %w", err)
	}
	return nil
}
