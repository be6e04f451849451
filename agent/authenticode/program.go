package authenticode

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// Offsets in a PE32+ file (Microsoft's PE Format).
const (
	newHeader      = 0x3c
	fileHeader     = 4  // from the PE signature
	optionalHeader = 24 // from the PE signature
	magicPE32Plus  = 0x20b
	rowSize        = 40
	maxHeaders     = 64 << 10
	maxSections    = 96
	maxTable       = maxSignatures * maxSignature
	// from the beginning of the optional header
	optHeaders     = 60
	optCheckSum    = 64
	optDirectories = 108
	optMinSize     = 112
	// tableRow is the row of the table of signatures; unlike all others it is a place in the file.
	tableRow = 4
	// alignment is that of the table and of its entries.
	alignment = 8
)

// program is what a signature covers.
type program struct {
	r    io.ReaderAt
	size int64
	// checkSum and row are where the two fields of the header are that no signature covers, and end where the table
	// begins.
	checkSum, row, end int64
}

var errHeader = errors.New("it is not a program that firmware starts: its header is inconsistent")

// readProgram reads the headers. What other verifiers could hash in another way is refused: content between sections,
// sections that overlap, and a table of signatures that is not the end of the file.
func readProgram(r io.ReaderAt, size int64) (*program, error) {
	le := binary.LittleEndian
	at := func(off int64, n int) ([]byte, error) {
		if off < 0 || off > size-int64(n) {
			return nil, errors.New("it is not a program that firmware starts: it is too short")
		}
		b := make([]byte, n)
		_, err := io.ReadFull(io.NewSectionReader(r, off, int64(n)), b)
		return b, err
	}
	dos, err := at(0, newHeader+4)
	if err != nil {
		return nil, err
	}
	begin := int64(le.Uint32(dos[newHeader:]))
	if string(dos[:2]) != "MZ" || begin > maxHeaders {
		return nil, errHeader
	}
	fixed, err := at(begin, optionalHeader+optMinSize)
	if err != nil {
		return nil, err
	}
	opt := fixed[optionalHeader:]
	sections, optSize := int(le.Uint16(fixed[fileHeader+2:])), int64(le.Uint16(fixed[fileHeader+16:]))
	rows, headers := begin+optionalHeader+optSize, int64(le.Uint32(opt[optHeaders:]))
	row := begin + optionalHeader + optMinSize + tableRow*8
	if string(fixed[:4]) != "PE\x00\x00" || le.Uint16(opt) != magicPE32Plus ||
		sections > maxSections || headers > maxHeaders || rows+int64(sections)*rowSize > headers || le.Uint32(opt[optDirectories:]) <= tableRow || row+8 > rows {
		return nil, errHeader
	}
	p := &program{r: r, size: size, checkSum: begin + optionalHeader + optCheckSum, row: row, end: size}
	entry, err := at(row, 8)
	if err != nil {
		return nil, err
	}
	if where, n := int64(le.Uint32(entry)), int64(le.Uint32(entry[4:])); n > 0 {
		if where%alignment != 0 || where+n != size || where < headers || n > maxTable {
			return nil, errors.New("its table of signatures is not its end")
		}
		p.end = where
	}
	list, err := at(rows, sections*rowSize)
	if err != nil {
		return nil, err
	}
	return p, p.checkSections(list, headers)
}

// checkSections makes sure that headers and sections follow each other without a gap.
func (p *program) checkSections(rows []byte, headers int64) error {
	le, next := binary.LittleEndian, headers
	for len(rows) > 0 {
		// The row whose content comes next; a table of 96 rows is not worth sorting.
		found := -1
		for i := 0; i < len(rows); i += rowSize {
			if n, off := le.Uint32(rows[i+16:]), int64(le.Uint32(rows[i+20:])); n == 0 || off == next {
				found = i
				break
			}
		}
		if found < 0 {
			return errors.New("its sections overlap, or there is something between them")
		}
		next += int64(le.Uint32(rows[found+16:]))
		rows = append(rows[:found:found], rows[found+rowSize:]...)
	}
	if next > p.end {
		return errors.New("it ends before its sections do")
	}
	return nil
}

// digest is of the whole file but the checksum, the row of the table and the table, padded as the table wants it.
func (p *program) digest() ([]byte, error) {
	h := sha256.New()
	for _, part := range [][2]int64{{0, p.checkSum}, {p.checkSum + 4, p.row}, {p.row + 8, p.end}} {
		if _, err := io.Copy(h, io.NewSectionReader(p.r, part[0], part[1]-part[0])); err != nil {
			return nil, err
		}
	}
	h.Write(make([]byte, padding(p.end)))
	return h.Sum(nil), nil
}

func padding(n int64) int64 { return (alignment - n%alignment) % alignment }
