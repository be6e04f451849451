// Package update is the wire format of an update of running nodes: a signed line (package signedline), the head as
// canonical JSON in one line, and behind it any number of objects of what the head names.
//
//	spore-update 2 KEYID SIGNATURE
//	{"cluster":…,"nodes":[…],"issued":…,"until":…,"serial":…,"rootHash":…,"clusterHash":…,"root":{…},"boot":{…},"part":{…},"uki":{…},"loader":{…}}
//	LENGTH CONTENT LENGTH CONTENT …
//
// The signature is over the JSON, which names all that an update is made of: by the hash of its index (package pieces)
// the root, and by that of another index the unified kernel image (UKI) and the cluster part. An object is an index or
// a piece of one; it is known by its SHA-256 alone, so that a node takes it from wherever it comes. Whoever sends an
// update sends the head, is told which objects the node does not have, and sends those (Transfer).
//
// It holds no secret. What is in the cluster part, and whether the UKI starts it, is for whoever makes it.
package update

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"spore/storage/pieces"
	"spore/wire/signedline"
)

// Bounds. The head has the names of all nodes, of which there may be ten thousand.
const (
	MaxHead = 4 << 20
	MaxRoot = 64 << 30
	MaxPart = 1 << 30
	MaxUKI  = 512 << 20
	// MaxLoader is that of a boot loader: systemd-boot has about 120 KiB.
	MaxLoader = 1 << 20
	// MaxMessage is that of what is sent at once in bytes: a head and objects.
	MaxMessage = 32<<20 + MaxHead + signedline.Max

	maxNodes    = 100_000
	maxVersions = 100
	blockSize   = 4096
)

var format = signedline.Format{Magic: "spore-update", Version: "2"}

// Errors that callers tell apart.
var (
	// ErrVersion is an update of a format that this program does not know.
	ErrVersion = errors.New("the update has a format that this version does not know")
	// ErrSignature is an update that the cluster's key did not sign, or that was changed or cut afterwards.
	ErrSignature = errors.New("the update is not signed by this cluster, or was changed or cut short")
	// ErrForm is an update that is none.
	ErrForm = errors.New("the update is malformed")
)

// Blob is content that the head names.
type Blob struct {
	// Size is in bytes, SHA256 in lower-case hexadecimal.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Root is a root filesystem whose dm-verity root hash is in the head.
type Root struct {
	// Size is that of the data in bytes, a multiple of 4096.
	Size int64 `json:"size"`
	// Salt and UUID are those of the superblock of its hash tree, in lower-case hexadecimal: of them and the data a node
	// makes the tree.
	Salt string `json:"salt"`
	UUID string `json:"uuid"`
	// Index is the index of its pieces.
	Index Blob `json:"index"`
	// BuildTime is that of the image, in Unix seconds.
	BuildTime int64 `json:"buildTime"`
	// Versions are those of programs whose data outlives a way back, by the name of the service.
	Versions map[string]string `json:"versions,omitempty"`
}

// Head says what an update is.
type Head struct {
	// Cluster is the cluster's id in lower case, Nodes are the names of the nodes that the configuration has, sorted.
	Cluster string   `json:"cluster"`
	Nodes   []string `json:"nodes"`
	// Issued is when it was made, in whole seconds of UTC.
	Issued time.Time `json:"issued"`
	// Until is when it is no news any more, in whole seconds of UTC: a node whose clock is synchronised does not take it
	// by itself after that. The zero time is never.
	Until time.Time `json:"until,omitzero"`
	// Serial counts what the cluster's key signs; a newer update has the higher one.
	Serial uint64 `json:"serial"`
	// Force has nodes take it whose last one has a higher serial, as long as it was issued after that one. It is signed
	// like the rest: nobody else can have a node go back.
	Force bool `json:"force,omitempty"`
	// RootHash is the root that the UKI starts, ClusterHash the cluster part: verity root hashes in lower-case
	// hexadecimal.
	RootHash    string `json:"rootHash"`
	ClusterHash string `json:"clusterHash"`
	Root        Root   `json:"root"`
	// Boot is the index of the pieces of UKI, cluster part and boot loader, in this order.
	Boot Blob `json:"boot"`
	// UKI is the unified kernel image, Part the cluster part with its hash tree.
	UKI  Blob `json:"uki"`
	Part Blob `json:"part"`
	// Loader is the boot loader that firmware starts; the zero blob where the update brings none.
	Loader Blob `json:"loader,omitzero"`
}

// String says which update it is.
func (h Head) String() string {
	text := fmt.Sprintf("update %d of %s", h.Serial, h.Issued.UTC().Format(time.RFC3339))
	if h.Force {
		text += ", by force"
	}
	return text
}

// Sum is the blob of content.
func Sum(r io.Reader) (Blob, error) {
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	return Blob{n, hex.EncodeToString(sum.Sum(nil))}, err
}

// Sign returns the beginning of an update, line and head; objects may follow.
func Sign(h Head, key ed25519.PrivateKey) ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	head, err := canonical(h)
	if err != nil {
		return nil, err
	}
	if len(head) > MaxHead {
		return nil, fmt.Errorf("the head of the update has %d bytes, more than %d", len(head), MaxHead)
	}
	return append([]byte(format.Sign(head, key)), head...), nil
}

func canonical(h Head) ([]byte, error) {
	h.Issued, h.Until = h.Issued.UTC().Truncate(time.Second), h.Until.UTC().Truncate(time.Second)
	head, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("internal error: encode an update: %w", err)
	}
	return append(head, '\n'), nil
}

// Read reads the head of an update and verifies its signature by one of the keys. r is then at the
// first object (Objects).
func Read(r *bufio.Reader, keys []ed25519.PublicKey) (Head, error) {
	first, err := readLine(r, signedline.Max)
	if err != nil {
		return Head{}, err
	}
	line, err := format.Parse(first)
	switch {
	case errors.Is(err, signedline.ErrVersion):
		return Head{}, fmt.Errorf("%w: %w; push with the program that built the image that runs", ErrVersion, err)
	case err != nil:
		return Head{}, fmt.Errorf("%w: %w", ErrForm, err)
	}
	head, err := readLine(r, MaxHead)
	if err != nil {
		return Head{}, err
	}
	body := []byte(head + "\n")
	if !line.Verify(body, keys) {
		return Head{}, ErrSignature
	}
	return parse(body)
}

// readLine reads a line of at most limit bytes without its end.
func readLine(r *bufio.Reader, limit int) (string, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		if out = append(out, part...); len(out) > limit {
			return "", fmt.Errorf("%w: a line has more than %d bytes", ErrForm, limit)
		}
		switch {
		case err == nil:
			return string(out[:len(out)-1]), nil
		case errors.Is(err, io.EOF):
			return "", fmt.Errorf("%w: it ends in its head", ErrForm)
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", fmt.Errorf("read the update: %w", err)
		}
	}
}

func parse(text []byte) (Head, error) {
	var h Head
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return Head{}, fmt.Errorf("%w: %v", ErrForm, err)
	}
	if err := h.check(); err != nil {
		return Head{}, err
	}
	if again, err := canonical(h); err != nil || !bytes.Equal(again, text) {
		return Head{}, fmt.Errorf("%w: its JSON is not canonical", ErrForm)
	}
	return h, nil
}

// check holds a head to its bounds.
func (h *Head) check() error {
	switch {
	case h.Cluster == "" || h.Serial == 0 || len(h.Nodes) == 0:
		return fmt.Errorf("%w: it names no cluster, nodes or serial", ErrForm)
	case len(h.Nodes) > maxNodes:
		return fmt.Errorf("%w: it has %d nodes, more than %d", ErrForm, len(h.Nodes), maxNodes)
	case h.Root.Size <= 0 || h.Root.Size > MaxRoot || h.Root.Size%blockSize != 0:
		return fmt.Errorf("%w: a root of %d bytes", ErrForm, h.Root.Size)
	case h.Part.Size <= 0 || h.Part.Size > MaxPart || h.UKI.Size <= 0 || h.UKI.Size > MaxUKI:
		return fmt.Errorf("%w: a cluster part of %d bytes and a UKI of %d", ErrForm, h.Part.Size, h.UKI.Size)
	case h.Loader != (Blob{}) && (h.Loader.Size <= 0 || h.Loader.Size > MaxLoader):
		return fmt.Errorf("%w: a boot loader of %d bytes", ErrForm, h.Loader.Size)
	case h.Root.BuildTime < 0 || len(h.Root.Versions) > maxVersions:
		return fmt.Errorf("%w: a root of the time %d with %d versions", ErrForm, h.Root.BuildTime, len(h.Root.Versions))
	}
	for _, b := range []Blob{h.Root.Index, h.Boot} {
		if b.Size <= 0 || b.Size > pieces.MaxSize {
			return fmt.Errorf("%w: an index of %d bytes", ErrForm, b.Size)
		}
	}
	hashes := []string{h.RootHash, h.ClusterHash, h.Part.SHA256, h.UKI.SHA256, h.Root.Index.SHA256, h.Boot.SHA256, h.Root.Salt}
	if h.Loader != (Blob{}) {
		hashes = append(hashes, h.Loader.SHA256)
	}
	for _, hash := range hashes {
		if _, err := pieces.ParseSum(hash); err != nil {
			return fmt.Errorf("%w: %w", ErrForm, err)
		}
	}
	if b, err := hex.DecodeString(h.Root.UUID); err != nil || len(b) != 16 || hex.EncodeToString(b) != h.Root.UUID {
		return fmt.Errorf("%w: %.80q is not a UUID in 32 lower-case hexadecimal digits", ErrForm, h.Root.UUID)
	}
	return nil
}
