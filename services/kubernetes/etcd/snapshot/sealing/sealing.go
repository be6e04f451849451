// Package sealing encrypts snapshots of etcd's database and opens them again.
//
// A sealed snapshot is a file of age (age-encryption.org/v1) for the one recipient of the cluster's key for snapshots, which
// masters and the operator have. In it is a stream of Zstandard (RFC 8878): a skippable frame (section 3.1.2) that holds a
// Header as JSON, and the database as etcd gave it out, with its SHA-256 at the end. Decompressors pass over skippable
// frames, so that `age -d -i KEY FILE | zstd -d` gives what etcdutl takes, and needs nothing of ours.
//
// Only who knows the public half of the key can make such a file, and that is published nowhere: it is made of the private
// one where it is needed. It signs nothing, though: whoever has the key can make a snapshot.
package sealing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

const (
	// version is that of the header.
	version = 1
	// headerMagic is the magic number of the skippable frame.
	headerMagic = 0x184D2A5E
	// maxHeader bounds the header in bytes.
	maxHeader = 16 << 10
	// maxWindow bounds the memory that opening takes, in bytes.
	maxWindow = 8 << 20
)

// Header says what a snapshot is. Nobody without the key can have changed it.
type Header struct {
	// Version is that of the form.
	Version int `json:"version"`
	// Cluster is the id of the cluster, Node the master that took the snapshot, Taken when.
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Taken   time.Time `json:"taken"`
	// Revision is that of the newest key, Keys how many there are.
	Revision int64 `json:"revision"`
	Keys     int   `json:"keys"`
	// Size and SHA256 are those of what etcd gave out, in bytes and hexadecimal digits.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Identity reads the key for snapshots, the entry etcd-snapshot-key of the bundle. Its errors never hold any of it.
func Identity(secret []byte) (*age.X25519Identity, error) {
	id, err := age.ParseX25519Identity(strings.TrimSpace(string(secret)))
	if err != nil {
		return nil, errors.New("the key for snapshots (etcd-snapshot-key) is not a key of age")
	}
	return id, nil
}

// Seal writes the database of h.Size bytes to w.
func Seal(w io.Writer, id *age.X25519Identity, h Header, db io.Reader) error {
	h.Version = version
	head, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	sealed, err := age.Encrypt(w, id.Recipient())
	if err != nil {
		return fmt.Errorf("encrypt a snapshot: %w", err)
	}
	frame := binary.LittleEndian.AppendUint32(nil, headerMagic)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(head)))
	if _, err := sealed.Write(append(frame, head...)); err != nil {
		return fmt.Errorf("encrypt a snapshot: %w", err)
	}
	// One thread: this is not to be noticed.
	packed, err := zstd.NewWriter(sealed, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	in := check(db, h)
	if _, err := io.Copy(packed, in); err != nil {
		return fmt.Errorf("encrypt a snapshot: %w", err)
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("encrypt a snapshot: %w", err)
	}
	if err := sealed.Close(); err != nil {
		return fmt.Errorf("encrypt a snapshot: %w", err)
	}
	return nil
}

// Open reads what Seal wrote, up to its header. The reader gives the database, and an error in the place of its end when
// it is not the one that the header tells of. Close it.
func Open(r io.Reader, id *age.X25519Identity) (Header, io.ReadCloser, error) {
	plain, err := age.Decrypt(r, id)
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return Header{}, nil, errors.New("open a snapshot: it is encrypted for another key than this cluster's")
	}
	if err != nil {
		return Header{}, nil, fmt.Errorf("open a snapshot: %w", err)
	}
	h, err := readHeader(plain)
	if err != nil {
		return Header{}, nil, fmt.Errorf("open a snapshot: %w", err)
	}
	db, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return Header{}, nil, fmt.Errorf("open a snapshot: %w", err)
	}
	return h, closer{check(db, h), db.Close}, nil
}

type closer struct {
	io.Reader
	close func()
}

func (c closer) Close() error {
	c.close()
	return nil
}

func readHeader(r io.Reader) (h Header, err error) {
	var frame [8]byte
	if _, err := io.ReadFull(r, frame[:]); err != nil {
		return h, fmt.Errorf("its header: %w", err)
	}
	size := binary.LittleEndian.Uint32(frame[4:])
	if binary.LittleEndian.Uint32(frame[:4]) != headerMagic || size > maxHeader {
		return h, errors.New("it has no header as spore makes them")
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return h, fmt.Errorf("its header: %w", err)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("its header: %w", err)
	}
	switch {
	case h.Version != version:
		return h, fmt.Errorf("its header is of version %d, and this is %d; use the image that made it", h.Version, version)
	case h.Cluster == "" || h.Node == "" || h.Taken.IsZero() || h.Revision < 0 || h.Size <= 0 || len(h.SHA256) != 2*sha256.Size:
		return h, errors.New("its header is incomplete")
	}
	return h, nil
}

// checked gives what it reads, and an error in the place of the end when that is not what a header tells of.
type checked struct {
	r    io.Reader
	h    Header
	size int64
	hash hash.Hash
}

func check(r io.Reader, h Header) io.Reader { return &checked{r: r, h: h, hash: sha256.New()} }

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.size += int64(n)
	c.hash.Write(p[:n])
	switch {
	case c.size > c.h.Size || errors.Is(err, io.EOF) && c.size != c.h.Size:
		return 0, fmt.Errorf("the database has not the %d bytes that its header tells of", c.h.Size)
	case errors.Is(err, io.EOF) && hex.EncodeToString(c.hash.Sum(nil)) != c.h.SHA256:
		return 0, errors.New("the database has not the hash that its header tells of")
	}
	return n, err
}
