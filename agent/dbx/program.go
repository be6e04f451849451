package dbx

import (
	"crypto/sha256"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Places in the header of a program (Microsoft, "PE Format"; Authenticode skips what signing changes).
const (
	newHeader         = 0x3c
	checkSum          = 24 + 64
	directorySecurity = 4
	directories       = 24 + 112
	alignment         = 8
)

// HashOf computes a program's hash: of the whole file but its checksum, the row of its table of signatures, and that
// table.
func HashOf(r io.ReaderAt, size int64) (Hash, error) {
	f, err := pe.NewFile(r)
	if err != nil {
		return Hash{}, fmt.Errorf("hash a program: %w", err)
	}
	header, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || header.NumberOfRvaAndSizes <= directorySecurity {
		return Hash{}, errors.New("hash a program: it is none for this kind of machine")
	}
	var at [4]byte
	if _, err := r.ReadAt(at[:], newHeader); err != nil {
		return Hash{}, fmt.Errorf("hash a program: %w", err)
	}
	begin, end := int64(binary.LittleEndian.Uint32(at[:])), size
	if table := header.DataDirectory[directorySecurity]; table.Size > 0 {
		end = int64(table.VirtualAddress) // Unlike in all other rows, this is a place in the file.
		if end+int64(table.Size) != size {
			return Hash{}, errors.New("hash a program: its table of signatures is not its end")
		}
	}
	sum, row := begin+checkSum, begin+directories+8*directorySecurity
	if row+8 > end {
		return Hash{}, errors.New("hash a program: it is too short")
	}
	h := sha256.New()
	for _, p := range [][2]int64{{0, sum}, {sum + 4, row}, {row + 8, end}} {
		if n, err := io.Copy(h, io.NewSectionReader(r, p[0], p[1]-p[0])); err != nil || n != p[1]-p[0] {
			return Hash{}, fmt.Errorf("hash a program: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
	}
	h.Write(make([]byte, (alignment-end%alignment)%alignment))
	return Hash(h.Sum(nil)), nil
}
