package iso

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Info is what Read finds.
type Info struct {
	Label   string `json:"label"`
	Sectors int64  `json:"sectors"`
	// Files are sorted as the volume has them, directory by directory.
	Files []File `json:"files"`
	// Boot holds the entries of the boot catalog that are marked as bootable.
	Boot []Entry `json:"boot,omitempty"`
}

// Bounds of what is read.
const (
	maxDescriptors = 64
	maxDirBytes    = 1 << 20
	maxFiles       = 1 << 14
	maxReadDirs    = 1 << 10
)

// ErrNone is returned for what is no ISO 9660 volume.
var ErrNone = errors.New("no ISO 9660 volume")

// Read reads the metadata of a volume that may be anything. What it returns lies inside of size bytes.
func Read(r io.ReaderAt, size int64) (*Info, error) {
	v := &volume{r: r, sectors: size / SectorSize}
	if err := v.read(); err != nil {
		return nil, fmt.Errorf("read ISO 9660 volume: %w", err)
	}
	return &v.info, nil
}

type volume struct {
	r       io.ReaderAt
	sectors int64
	info    Info
	dirs    int
}

func (v *volume) sector(n int64) ([]byte, error) {
	if n < 0 || n >= v.sectors {
		return nil, fmt.Errorf("sector %d of %d", n, v.sectors)
	}
	b := make([]byte, SectorSize)
	_, err := v.r.ReadAt(b, n*SectorSize)
	if errors.Is(err, io.EOF) {
		err = nil // what was asked for is there: the size was checked
	}
	return b, err
}

func (v *volume) read() error {
	var root []byte
	catalog := int64(-1)
	for n := int64(primarySector); ; n++ {
		b, err := v.sector(n)
		if err != nil || string(b[1:6]) != "CD001" {
			if root != nil {
				break // the end of the descriptors is missing, and nothing depends on it
			}
			return ErrNone
		}
		if n == primarySector+maxDescriptors {
			return fmt.Errorf("more than %d descriptors", maxDescriptors)
		}
		switch {
		case b[0] == kindPrimary && root == nil:
			if root, err = v.primary(b); err != nil {
				return err
			}
		case b[0] == kindBoot && strings.HasPrefix(string(b[7:39]), elTorito):
			catalog = int64(binary.LittleEndian.Uint32(b[71:]))
		}
		if b[0] == kindEnd {
			break
		}
	}
	if root == nil {
		return ErrNone
	}
	if catalog >= 0 {
		if err := v.readCatalog(catalog); err != nil {
			return fmt.Errorf("boot catalog: %w", err)
		}
	}
	return v.readDir("", root, 1)
}

// primary reads the primary volume descriptor and returns the record of the root.
func (v *volume) primary(b []byte) ([]byte, error) {
	if n := binary.LittleEndian.Uint16(b[128:]); n != SectorSize {
		return nil, fmt.Errorf("blocks of %d bytes; only %d are supported", n, SectorSize)
	}
	v.info.Label = printable(strings.TrimRight(string(b[40:72]), " "))
	v.info.Sectors = int64(binary.LittleEndian.Uint32(b[80:]))
	return b[156:190], nil
}

func (v *volume) readCatalog(at int64) error {
	b, err := v.sector(at)
	if err != nil {
		return err
	}
	if b[0] != validation || b[30] != 0x55 || b[31] != 0xaa || sum16(b[:catalogEntry]) != 0 {
		return errors.New("it has no validation entry")
	}
	v.addEntry(b[1], b[catalogEntry:])
	for b = b[2*catalogEntry:]; len(b) >= catalogEntry && (b[0] == header || b[0] == finalHeader); {
		platform, count, last := b[1], int(binary.LittleEndian.Uint16(b[2:])), b[0] == finalHeader
		b = b[catalogEntry:]
		for ; count > 0 && len(b) >= catalogEntry; count-- {
			v.addEntry(platform, b)
			b = b[catalogEntry:]
		}
		if last {
			return nil
		}
	}
	return nil
}

func (v *volume) addEntry(platform byte, b []byte) {
	e := Entry{Platform: platform, Sector: int64(binary.LittleEndian.Uint32(b[8:])), Load: binary.LittleEndian.Uint16(b[6:])}
	if b[0] == bootable && b[1] == 0 && e.Sector < v.sectors {
		v.info.Boot = append(v.info.Boot, e)
	}
}

// readDir reads the directory of a record and those below it.
func (v *volume) readDir(dir string, r []byte, depth int) error {
	sector, size := int64(binary.LittleEndian.Uint32(r[2:])), int64(binary.LittleEndian.Uint32(r[10:]))
	if v.dirs++; depth > maxDepth || v.dirs > maxReadDirs {
		return errors.New("its directories do not end")
	}
	if size > maxDirBytes {
		return fmt.Errorf("the directory /%s has %d bytes", dir, size)
	}
	more := false // the file before goes on
	for n := sector; n < sector+(size+SectorSize-1)/SectorSize; n++ {
		b, err := v.sector(n)
		if err != nil {
			return fmt.Errorf("the directory /%s: %w", dir, err)
		}
		for len(b) > fixedRecord && b[0] != 0 {
			length, name := int(b[0]), int(b[32])
			if length > len(b) || fixedRecord+name > length || name == 0 {
				return fmt.Errorf("the directory /%s has a record of %d bytes with a name of %d", dir, length, name)
			}
			if more, err = v.readRecord(dir, b[:length], string(b[fixedRecord:fixedRecord+name]), more, depth); err != nil {
				return err
			}
			b = b[length:]
		}
	}
	return nil
}

// readRecord reads one record of a directory; goesOn says that it continues the file before.
func (v *volume) readRecord(dir string, r []byte, name string, goesOn bool, depth int) (more bool, err error) {
	if name == "\x00" || name == "\x01" {
		return false, nil
	}
	name, _, _ = strings.Cut(name, ";")
	full := printable(strings.TrimSuffix(name, "."))
	if dir != "" {
		full = dir + "/" + full
	}
	if r[25]&flagDir != 0 {
		return false, v.readDir(full, r, depth+1)
	}
	f := File{Path: full, Sector: int64(binary.LittleEndian.Uint32(r[2:])), Size: int64(binary.LittleEndian.Uint32(r[10:]))}
	if f.Sector > v.sectors || f.Size > (v.sectors-f.Sector)*SectorSize {
		return false, fmt.Errorf("the file /%s is outside of the volume", full)
	}
	more = r[25]&flagMore != 0
	if n := len(v.info.Files); goesOn && n > 0 {
		last := &v.info.Files[n-1]
		if last.Path != full || last.Size%SectorSize != 0 || last.Sector+last.Size/SectorSize != f.Sector {
			return false, fmt.Errorf("the file /%s is fragmented", last.Path)
		}
		last.Size += f.Size
		return more, nil
	}
	if len(v.info.Files) == maxFiles {
		return false, fmt.Errorf("more than %d files", maxFiles)
	}
	v.info.Files = append(v.info.Files, f)
	return more, nil
}

// printable replaces what would disturb a terminal or a path.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '/' {
			return '?'
		}
		return r
	}, s)
}
