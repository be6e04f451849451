package osd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"

	"spore/storage/gpt"
)

// labelSize is the size of the label in bytes (Ceph 18, BDEV_LABEL_BLOCK_SIZE).
const labelSize = 4096

// magic begins the label, in text for people who look at the disk.
const magic = "bluestore block device\n"

// label is what BlueStore writes at the beginning of its device (Ceph 18, bluestore_bdev_label_t).
type label struct {
	// UUID is the OSD's.
	UUID gpt.GUID
	// Size is that of the device in bytes.
	Size uint64
	// Meta is what the OSD has written about itself: whoami, ceph_fsid, osd_key, mkfs_done, ready and others.
	Meta map[string]string
}

// Errors of readLabel.
var (
	errNoLabel = errors.New("it has no label of BlueStore")
	errDamaged = errors.New("its label of BlueStore is damaged")
)

// readLabel reads the label of a device. errNoLabel means that there is none.
func readLabel(r io.ReaderAt) (label, error) {
	b := make([]byte, labelSize)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return label{}, fmt.Errorf("read its label: %w", err)
	}
	if !bytes.HasPrefix(b, []byte(magic)) {
		return label{}, errNoLabel
	}
	d := decoder{b: b, at: len(magic) + 37}
	text, err := gpt.ParseGUID(string(b[len(magic) : len(magic)+36]))
	if err != nil || b[d.at-1] != '\n' {
		return label{}, errDamaged
	}
	// ENCODE_START: version, the oldest version that reads it, length.
	_, compat, length := d.byte(), d.byte(), d.uint32()
	if compat > 2 {
		return label{}, fmt.Errorf("its label of BlueStore has the version %d, and 2 is the newest that is known", compat)
	}
	end := d.at + int(length)
	if length > labelSize || end+4 > labelSize {
		return label{}, errDamaged
	}
	// Ceph's CRC-32C begins with all ones like everybody's, and is not inverted at the end.
	if ^crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(b[end:]) {
		return label{}, errDamaged
	}
	d.b = b[:end]
	l := label{Meta: map[string]string{}}
	copy(l.UUID[:], d.bytes(16))
	l.Size = d.uint64()
	d.bytes(8) // Its time of birth: seconds and nanoseconds.
	d.string() // "main", as against a device for metadata alone.
	for n := d.uint32(); n > 0 && !d.failed; n-- {
		key := d.string()
		l.Meta[key] = d.string()
	}
	if d.failed || l.UUID != text {
		return label{}, errDamaged
	}
	return l, nil
}

// Number reads the number of the OSD on a device from its label. found is false where no OSD was made there, or not to
// its end.
func Number(device string) (id int, found bool, err error) {
	f, err := os.Open(device)
	if err != nil {
		return 0, false, fmt.Errorf("read the number of an OSD: %w", err)
	}
	defer f.Close()
	l, err := readLabel(f)
	if errors.Is(err, errNoLabel) || err == nil && l.Meta["ready"] != "ready" {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the number of the OSD on %s: %w", device, err)
	}
	id, err = l.number()
	return id, err == nil, err
}

// number is that of the OSD.
func (l label) number() (int, error) {
	id, err := strconv.ParseUint(l.Meta["whoami"], 10, 31)
	if err != nil {
		return 0, fmt.Errorf("its label gives the number %.64q", l.Meta["whoami"])
	}
	return int(id), nil
}

// decoder reads Ceph's little-endian encoding; what runs over the end is zero and fails the whole.
type decoder struct {
	b      []byte
	at     int
	failed bool
}

func (d *decoder) bytes(n int) []byte {
	if d.failed || n < 0 || n > len(d.b)-d.at {
		d.failed = true
		return make([]byte, min(max(n, 0), 16))
	}
	d.at += n
	return d.b[d.at-n : d.at]
}

func (d *decoder) byte() byte     { return d.bytes(1)[0] }
func (d *decoder) uint32() uint32 { return binary.LittleEndian.Uint32(d.bytes(4)) }
func (d *decoder) uint64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *decoder) string() string {
	n := d.uint32()
	if n > labelSize {
		d.failed = true
		return ""
	}
	return strings.ToValidUTF8(string(d.bytes(int(n))), "?")
}
