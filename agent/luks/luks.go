// Package luks reads what the header of a LUKS2 volume says about its keys (LUKS2 On-Disk Format Specification, version
// 1.1.1), and destroys it. Opening volumes and changing keys are systemd's and libcryptsetup's.
package luks

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"spore/storage/gpt"
)

// TokenTPM is the type of the tokens that systemd-cryptenroll(1) makes for a TPM.
const TokenTPM = "systemd-tpm2"

// Sizes in bytes (section 2.1).
const (
	binarySize = 4096
	minHeader  = 16 << 10
	maxHeader  = 4 << 20
	// defaultData is where data begins in a volume whose header cannot be read (cryptsetup's default).
	defaultData = 16 << 20
	// maxKeys bounds the area that Destroy overwrites; the specification allows 128 MiB of keys.
	maxKeys = 128<<20 + 2*maxHeader
)

// Magic values of the two copies of the header.
var (
	magicFirst  = []byte("LUKS\xba\xbe")
	magicSecond = []byte("SKUL\xba\xbe")
)

// ErrNone says that there is no LUKS2 header.
var ErrNone = errors.New("it has no LUKS2 header")

// Header is what a volume says of itself.
type Header struct {
	// Slots are the key slots in use, sorted.
	Slots []int
	// Tokens say what opens some of them.
	Tokens []Token
	// Data is where the data begins, in bytes.
	Data int64
}

// Token is one token.
type Token struct {
	Type string
	// Slots are the key slots that it opens.
	Slots []int
	// PublicKey is the PEM of the key that signs the policy of a TokenTPM; nil where it has no such policy.
	PublicKey []byte
	// Policy is the digest of the policy of a TokenTPM in lower-case hexadecimal digits, and PIN tells that it wants a PIN
	// besides.
	Policy string
	PIN    bool
	// PCRs are the registers whose values the policy names.
	PCRs []int
}

// Token is the first token of a type.
func (h Header) Token(kind string) (Token, bool) {
	for _, t := range h.Tokens {
		if t.Type == kind {
			return t, true
		}
	}
	return Token{}, false
}

// All are the tokens of a type.
func (h Header) All(kind string) (out []Token) {
	for _, t := range h.Tokens {
		if t.Type == kind {
			out = append(out, t)
		}
	}
	return out
}

// Plain are the key slots that no token opens: those of passphrases and keys in files.
func (h Header) Plain() []int {
	var out []int
	for _, s := range h.Slots {
		if !slices.ContainsFunc(h.Tokens, func(t Token) bool { return slices.Contains(t.Slots, s) }) {
			out = append(out, s)
		}
	}
	return out
}

// Read reads the header: of its two copies the newer one whose checksum is right.
func Read(r io.ReaderAt) (Header, error) {
	begin := make([]byte, len(magicFirst))
	if n, err := r.ReadAt(begin, 0); n < len(begin) {
		return Header{}, fmt.Errorf("read the LUKS header: %w", err)
	}
	found, damage := copyAt(r, 0, magicFirst)
	// The second copy lies right behind the first, which has one of few sizes (section 2.2).
	for at := int64(minHeader); at <= maxHeader; at *= 2 {
		second, err := copyAt(r, at, magicSecond)
		if err == nil && (damage != nil || second.sequence > found.sequence) {
			found, damage = second, nil
		}
	}
	if damage != nil {
		if !bytes.Equal(begin, magicFirst) {
			return Header{}, ErrNone
		}
		return Header{}, fmt.Errorf("the LUKS header is damaged: %w", damage)
	}
	return parse(found.text)
}

// headerCopy is one of the two.
type headerCopy struct {
	sequence uint64
	text     []byte
}

// copyAt reads one copy of the header (section 2.1, binary header).
func copyAt(r io.ReaderAt, at int64, magic []byte) (headerCopy, error) {
	b := make([]byte, binarySize)
	if n, err := r.ReadAt(b, at); n < len(b) {
		return headerCopy{}, fmt.Errorf("read it: %w", err)
	}
	be := binary.BigEndian
	size := be.Uint64(b[8:])
	switch {
	case !bytes.Equal(b[:len(magic)], magic):
		return headerCopy{}, errors.New("no magic value")
	case be.Uint16(b[6:]) != 2:
		return headerCopy{}, fmt.Errorf("its version is %d, not 2", be.Uint16(b[6:]))
	case size < minHeader || size > maxHeader:
		return headerCopy{}, fmt.Errorf("its size is %d bytes", size)
	case be.Uint64(b[256:]) != uint64(at):
		return headerCopy{}, errors.New("it says that it lies elsewhere")
	case !bytes.Equal(b[72:104], append([]byte("sha256"), make([]byte, 26)...)):
		return headerCopy{}, errors.New("its checksum is not SHA-256")
	}
	all := make([]byte, size)
	if n, err := r.ReadAt(all, at); n < len(all) {
		return headerCopy{}, fmt.Errorf("read it: %w", err)
	}
	sum := [sha256.Size]byte(all[448:])
	clear(all[448:512])
	if got := sha256.Sum256(all); subtle.ConstantTimeCompare(got[:], sum[:]) != 1 {
		return headerCopy{}, errors.New("its checksum is wrong")
	}
	text := all[binarySize:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return headerCopy{sequence: be.Uint64(b[16:]), text: text}, nil
}

// metadata is the part of the JSON area that matters here (section 3).
type metadata struct {
	Keyslots map[string]json.RawMessage `json:"keyslots"`
	Tokens   map[string]struct {
		Type     string   `json:"type"`
		Keyslots []string `json:"keyslots"`
		// PublicKey is base64 of the PEM (systemd, src/shared/tpm2-util.c, tpm2_make_luks2_json).
		PublicKey []byte `json:"tpm2_pubkey"`
		// Policy is a string; a list of them is a key in parts, which nothing here makes.
		Policy json.RawMessage `json:"tpm2-policy-hash"`
		PIN    bool            `json:"tpm2-pin"`
		PCRs   []int           `json:"tpm2-pcrs"`
	} `json:"tokens"`
	Segments map[string]struct {
		Offset string `json:"offset"`
	} `json:"segments"`
}

func parse(text []byte) (Header, error) {
	var m metadata
	if err := json.Unmarshal(text, &m); err != nil {
		return Header{}, fmt.Errorf("the LUKS header is damaged: %w", err)
	}
	var h Header
	var err error
	names := make([]string, 0, len(m.Keyslots))
	for name := range m.Keyslots {
		names = append(names, name)
	}
	if h.Slots, err = numbers(names); err != nil {
		return Header{}, err
	}
	names = names[:0]
	for name := range m.Tokens {
		names = append(names, name)
	}
	ids, err := numbers(names)
	if err != nil {
		return Header{}, err
	}
	for _, id := range ids {
		t := m.Tokens[strconv.Itoa(id)]
		slots, err := numbers(t.Keyslots)
		if err != nil {
			return Header{}, err
		}
		token := Token{Type: t.Type, Slots: slots, PublicKey: t.PublicKey, PIN: t.PIN, PCRs: t.PCRs}
		if json.Unmarshal(t.Policy, &token.Policy) != nil {
			token.Policy = ""
		}
		token.Policy = strings.ToLower(token.Policy)
		h.Tokens = append(h.Tokens, token)
	}
	for _, s := range m.Segments {
		at, err := strconv.ParseInt(s.Offset, 10, 64)
		if err != nil || at < minHeader {
			return Header{}, fmt.Errorf("the LUKS header is damaged: its data begins at %.32q", s.Offset)
		}
		if h.Data == 0 || at < h.Data {
			h.Data = at
		}
	}
	if h.Data == 0 {
		return Header{}, errors.New("the LUKS header is damaged: it says of no data")
	}
	return h, nil
}

// numbers are object names, which are numbers of 0 to 31 or so (section 3.1).
func numbers(names []string) ([]int, error) {
	var out []int
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 || n > 1<<16 || strconv.Itoa(n) != name {
			return nil, fmt.Errorf("the LUKS header is damaged: %.32q is not a number", name)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}

// Volume is a volume that can be written to.
type Volume interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// Destroy overwrites both copies of the header and all key slots of a volume of size bytes, and syncs. Nothing opens it
// afterwards, the recovery key included. Flash may keep old copies of a sector where nothing but a reader of its chips
// finds them.
//
// The first copy of the header goes last, when all else is on the disk: where this is cut off, the volume is still
// known as one, and is destroyed when it is called again.
func Destroy(v Volume, size int64) error {
	end := int64(defaultData)
	if h, err := Read(v); err == nil {
		end = max(end, min(h.Data, maxKeys))
	}
	end = min(end, size)
	first := min(firstCopy, end)
	err := overwrite(v, first, end)
	if err == nil {
		err = overwrite(v, 0, first)
	}
	if err != nil {
		return fmt.Errorf("overwrite the key slots: %w", err)
	}
	return nil
}

// firstCopy is what the first copy of the header has at least, in bytes (section 2.1).
const firstCopy = 16 << 10

// overwrite writes zeros, and syncs.
func overwrite(v Volume, from, to int64) error {
	zero := make([]byte, 1<<20)
	for at := from; at < to; at += int64(len(zero)) {
		if _, err := v.WriteAt(zero[:min(int64(len(zero)), to-at)], at); err != nil {
			return err
		}
	}
	return v.Sync()
}

// DestroyAll destroys the LUKS volumes among the partitions of a disk; what is none is left as it is.
func DestroyAll(disk Volume, partitions []gpt.Partition) error {
	for _, p := range partitions {
		v := part{disk, p.Start}
		if _, err := Read(v); errors.Is(err, ErrNone) {
			continue
		}
		if err := Destroy(v, p.Size); err != nil {
			return err
		}
	}
	return nil
}

// DestroyDisk destroys the LUKS volumes of a disk that is given to another use: the disk itself, and its partitions.
func DestroyDisk(disk Volume, size int64, sectorSize int) error {
	whole := []gpt.Partition{{Size: size}}
	if t, err := gpt.Read(disk, size, sectorSize); err == nil {
		whole = append(whole, t.Partitions...)
	}
	return DestroyAll(disk, whole)
}

// part is a partition of a disk.
type part struct {
	Volume
	start int64
}

func (p part) ReadAt(b []byte, off int64) (int, error)  { return p.Volume.ReadAt(b, p.start+off) }
func (p part) WriteAt(b []byte, off int64) (int, error) { return p.Volume.WriteAt(b, p.start+off) }
