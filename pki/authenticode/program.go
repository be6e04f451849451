package authenticode

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// Offsets in a PE32+ file (Microsoft's PE Format).
const (
	dosHeaderSize  = 64
	dosNewHeader   = 0x3c
	coffHeader     = 4  // from the PE signature
	optionalHeader = 24 // from the PE signature
	magicPE32Plus  = 0x20b
	sectionSize    = 40
	maxHeaders     = 64 << 10
	maxSections    = 96
	// from the beginning of the optional header
	optHeaders     = 60
	optCheckSum    = 64
	optDirectories = 108
	optMinSize     = 112
	// certificateDirectory is the row of the attribute certificate table.
	certificateDirectory = 4
)

// alignment is that of the certificate table and of each entry in it (PE Format, "The Attribute Certificate Table").
const alignment = 8

// Program is what signing has to know of a PE file.
type Program struct {
	r io.ReaderAt
	// Size is that of the file.
	Size int64
	// CheckSum and Row are where the two fields of the header are that no signature covers; the second is the row of the
	// table of signatures.
	CheckSum, Row int64
	// End is where the content ends, and Table the length of the table of signatures that follows it, in bytes.
	End, Table int64
}

// Read reads the headers of a PE32+ file. What other verifiers could hash in another way is refused: content that
// no section has in between, sections that overlap, and a certificate table that is not the end of the file.
func Read(r io.ReaderAt, size int64) (*Program, error) {
	le := binary.LittleEndian
	at := func(off int64, n int) ([]byte, error) {
		if off < 0 || off > size-int64(n) {
			return nil, errors.New("not a PE file: it is too short")
		}
		b := make([]byte, n)
		_, err := io.ReadFull(io.NewSectionReader(r, off, int64(n)), b)
		return b, err
	}
	dos, err := at(0, dosHeaderSize)
	if err != nil {
		return nil, err
	}
	begin := int64(le.Uint32(dos[dosNewHeader:]))
	if string(dos[:2]) != "MZ" || begin > maxHeaders {
		return nil, errors.New("not a PE file: its header is wrong")
	}
	fixed, err := at(begin, optionalHeader+optMinSize)
	if err != nil {
		return nil, err
	}
	opt := fixed[optionalHeader:]
	if string(fixed[:4]) != "PE\x00\x00" || le.Uint16(opt) != magicPE32Plus {
		return nil, errors.New("not a PE32+ file")
	}
	sections, optSize := int(le.Uint16(fixed[coffHeader+2:])), int64(le.Uint16(fixed[coffHeader+16:]))
	table := begin + optionalHeader + optSize
	headers := int64(le.Uint32(opt[optHeaders:]))
	row := begin + optionalHeader + optMinSize + certificateDirectory*8
	if sections > maxSections || headers > maxHeaders || table+int64(sections)*sectionSize > headers ||
		le.Uint32(opt[optDirectories:]) <= certificateDirectory || row+8 > table {
		return nil, errors.New("a PE file whose header is inconsistent")
	}
	p := &Program{r: r, Size: size, CheckSum: begin + optionalHeader + optCheckSum, Row: row, End: size}
	entry, err := at(row, 8)
	if err != nil {
		return nil, err
	}
	if where, n := int64(le.Uint32(entry)), int64(le.Uint32(entry[4:])); n > 0 {
		if where%alignment != 0 || where+n != size || where < headers {
			return nil, errors.New("a PE file whose certificate table is not its end")
		}
		p.End, p.Table = where, n
	}
	rows, err := at(table, sections*sectionSize)
	if err != nil {
		return nil, err
	}
	return p, p.checkSections(rows, headers)
}

// checkSections makes sure that headers and sections follow each other without a gap. Content behind the last section is
// hashed by everybody.
func (p *Program) checkSections(rows []byte, headers int64) error {
	le := binary.LittleEndian
	next := headers
	for len(rows) > 0 {
		// The row whose content comes next; a table of 96 rows is not worth sorting.
		found := -1
		for i := 0; i < len(rows); i += sectionSize {
			n, off := int64(le.Uint32(rows[i+16:])), int64(le.Uint32(rows[i+20:]))
			if n == 0 || off == next {
				found = i
				break
			}
		}
		if found < 0 {
			return errors.New("a PE file with a gap between sections, or with sections that overlap")
		}
		next += int64(le.Uint32(rows[found+16:]))
		rows = append(rows[:found:found], rows[found+sectionSize:]...)
	}
	if next > p.End {
		return errors.New("a PE file that ends before its sections do")
	}
	return nil
}

// Digest is the hash of Authenticode: of the whole file but the checksum, the row of the certificate table, and the table
// itself, padded to a multiple of eight bytes as the table wants it.
func (p *Program) Digest() (Hash, error) {
	h := sha256.New()
	for _, r := range [][2]int64{{0, p.CheckSum}, {p.CheckSum + 4, p.Row}, {p.Row + 8, p.End}} {
		if _, err := io.Copy(h, io.NewSectionReader(p.r, r[0], r[1]-r[0])); err != nil {
			return Hash{}, err
		}
	}
	h.Write(make([]byte, Padding(p.End)))
	return Hash(h.Sum(nil)), nil
}

// Padding is how many bytes there are between an offset and the next one that the table of signatures or an entry of it
// may begin at.
func Padding(n int64) int64 { return (alignment - n%alignment) % alignment }
