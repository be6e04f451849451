package origin

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"spore/storage/atomicfile"
)

// Types of records in etcd's write-ahead log (go.etcd.io/etcd/server/v3/storage/wal, wal.go).
const (
	walMetadata = 1
	walEntry    = 2
	walState    = 3
)

// maxWALHead bounds how much of a log is read to see whether it has entries: before the first, there are three records.
const maxWALHead = 1 << 20

// hasEntries tells whether a log has anything that a member may have promised to others. One without was cut off when etcd had
// just made it; etcd could not go on with it, as it would not know its members.
func (d Dir) hasEntries(home *os.Root) (bool, error) {
	logs, err := d.logs(home)
	if err != nil || len(logs) == 0 {
		return false, err
	}
	if len(logs) > 1 {
		return true, nil
	}
	found := false
	err = readLog(home, logs[0], func(kind uint64, _ []byte) bool {
		found = kind == walEntry || kind == walState
		return !found
	})
	// What cannot be read may be all that there is: etcd is to say what it makes of it.
	return found || errors.Is(err, errDamaged), ignore(err, errDamaged)
}

// errDamaged is in the error of a log that cannot be understood.
var errDamaged = errors.New("the log of etcd is damaged")

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// Member is by which ids the log of a member's data calls it and its cluster; zeros when there is no log.
func (d Dir) Member() (member, cluster uint64, err error) {
	home, err := d.home()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look for the log of etcd: %w", err)
	}
	defer home.Close()
	logs, err := d.logs(home)
	if err != nil || len(logs) == 0 {
		return 0, 0, err
	}
	var metadata []byte
	err = readLog(home, logs[len(logs)-1], func(kind uint64, data []byte) bool {
		if kind == walMetadata {
			metadata = data
		}
		return kind != walMetadata
	})
	if err != nil {
		return 0, 0, err
	}
	// etcdserverpb.Metadata: NodeID is field 1, ClusterID field 2.
	fields, err := parseFields(metadata)
	if err != nil {
		return 0, 0, err
	}
	return fields.numbers[1], fields.numbers[2], nil
}

// logs lists the files of the log in etcd's folder.
func (d Dir) logs(home *os.Root) (out []string, err error) {
	dir, err := atomicfile.DirIn(home, d.wal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the log of etcd: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("look for the log of etcd: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".wal") {
			out = append(out, d.wal()+"/"+name)
		}
	}
	return out, nil
}

func readLog(home *os.Root, name string, each func(kind uint64, data []byte) bool) error {
	f, err := atomicfile.OpenIn(home, name)
	if err != nil {
		return fmt.Errorf("read the log of etcd: %w", err)
	}
	defer f.Close()
	return parseLog(io.LimitReader(f, maxWALHead), each)
}

// parseLog calls each for the records of a log until it returns false. A log ends with its file or with zeros.
func parseLog(r io.Reader, each func(kind uint64, data []byte) bool) error {
	in := bufio.NewReader(r)
	for {
		var head uint64
		err := binary.Read(in, binary.LittleEndian, &head)
		if errors.Is(err, io.EOF) || err == nil && head == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		// encoder.go: the length in 56 bits; when the highest bit of all is set, three bits above hold the padding to 8 bytes.
		size, pad := head&(1<<56-1), uint64(0)
		if head>>63 == 1 {
			pad = head >> 56 & 7
		}
		if size+pad > maxWALHead {
			// Longer than what is read; only an entry is.
			each(walEntry, nil)
			return nil
		}
		data := make([]byte, size+pad)
		if _, err := io.ReadFull(in, data); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		// walpb.Record: type is field 1, data field 3.
		record, err := parseFields(data[:size])
		if err != nil {
			return err
		}
		if !each(record.numbers[1], record.bytes[3]) {
			return nil
		}
	}
}

// fields of a message of protocol buffers, by their numbers; of one that is there twice, the last.
type fields struct {
	numbers map[uint64]uint64
	bytes   map[uint64][]byte
}

// parseFields reads a message (protobuf.dev, "Encoding") that has varints and bytes alone.
func parseFields(data []byte) (fields, error) {
	out := fields{map[uint64]uint64{}, map[uint64][]byte{}}
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return out, fmt.Errorf("%w: a record ends too early", errDamaged)
		}
		data = data[n:]
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return out, fmt.Errorf("%w: a record ends too early", errDamaged)
		}
		data = data[n:]
		switch tag & 7 {
		case 0:
			out.numbers[tag>>3] = value
		case 2:
			if value > uint64(len(data)) {
				return out, fmt.Errorf("%w: a record ends too early", errDamaged)
			}
			out.bytes[tag>>3], data = data[:value], data[value:]
		default:
			return out, fmt.Errorf("%w: a record is of another kind", errDamaged)
		}
	}
	return out, nil
}
