// Package update is the wire format of a new configuration for running nodes: one line that names the format, the signing key
// and an Ed25519 signature (RFC 8032), canonical JSON in one line, and behind it the cluster part and the unified kernel image
// (UKI) as they go to a disk.
//
//	spore-update 1 KEYID SIGNATURE
//	{"cluster":…,"nodes":[…],"issued":…,"serial":…,"force":true,"rootHash":…,"clusterHash":…,"part":{"size":…,"sha256":…},"uki":{…}}
//	PART UKI
//
// KEYID is 16 hexadecimal digits of the SHA-256 of the public key, SIGNATURE is base64. The signature covers "spore-update 1",
// a NUL byte and the JSON as it stands; the JSON has the hashes of what follows. Bundles of secrets are signed with the same
// key: the words in front keep one from being taken for the other.
//
// It holds no secret. What is in the cluster part, and whether the UKI starts it, is for whoever makes it.
package update

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Bounds. The head has the names of all nodes, of which there may be ten thousand.
const (
	MaxHead = 4 << 20
	MaxPart = 1 << 30
	MaxUKI  = 512 << 20
	// MaxSize is that of a whole update in bytes.
	MaxSize = MaxPart + MaxUKI + MaxHead + maxLine

	maxLine  = 256
	maxNodes = 100_000
)

const magic, version = "spore-update", "1"

// Errors that callers tell apart.
var (
	// ErrVersion is an update of a format that this program does not know.
	ErrVersion = errors.New("the update has a format that this version does not know")
	// ErrSignature is an update that the cluster's key did not sign, or that was changed or cut afterwards.
	ErrSignature = errors.New("the update is not signed by this cluster, or was changed or cut short")
	// ErrForm is an update that is none.
	ErrForm = errors.New("the update is malformed")
)

// Blob is content that follows the head.
type Blob struct {
	// Size is in bytes, SHA256 in lower-case hexadecimal.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Head says what an update is.
type Head struct {
	// Cluster is the cluster's id in lower case, Nodes are the names of the nodes that the configuration has, sorted.
	Cluster string   `json:"cluster"`
	Nodes   []string `json:"nodes"`
	// Issued is when it was made, in whole seconds of UTC.
	Issued time.Time `json:"issued"`
	// Serial counts what the cluster's key signs; a newer configuration has the higher one.
	Serial uint64 `json:"serial"`
	// Force has nodes take it whose last one has a higher serial, as long as it was issued after that one. It is signed
	// like the rest: nobody else can have a node go back.
	Force bool `json:"force,omitempty"`
	// RootHash is the root that the UKI starts, ClusterHash the cluster part: verity root hashes in lower-case hexadecimal.
	RootHash    string `json:"rootHash"`
	ClusterHash string `json:"clusterHash"`
	// Part is the cluster part with its hash tree, UKI the unified kernel image.
	Part Blob `json:"part"`
	UKI  Blob `json:"uki"`
}

// String says which update it is.
func (h Head) String() string {
	text := fmt.Sprintf("configuration %d of %s", h.Serial, h.Issued.UTC().Format(time.RFC3339))
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

func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

func signed(head []byte) []byte { return append([]byte(magic+" "+version+"\x00"), head...) }

// Sign returns the beginning of an update; the cluster part and the UKI follow.
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
	line := fmt.Sprintf("%s %s %s %s\n", magic, version, keyID(key.Public().(ed25519.PublicKey)), base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed(head))))
	return append([]byte(line), head...), nil
}

func canonical(h Head) ([]byte, error) {
	h.Issued = h.Issued.UTC().Truncate(time.Second)
	head, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("internal error: encode an update: %w", err)
	}
	return append(head, '\n'), nil
}

// Read reads the head of an update and verifies its signature by one of the keys. r is then at the cluster part, whose hash,
// like that of the UKI, is for the caller to check.
func Read(r *bufio.Reader, keys []ed25519.PublicKey) (Head, error) {
	line, err := readLine(r, maxLine)
	if err != nil {
		return Head{}, err
	}
	words := strings.Split(line, " ")
	if words[0] != magic {
		return Head{}, fmt.Errorf("%w: it does not begin with a line `%s %s …`", ErrForm, magic, version)
	}
	if len(words) > 1 && words[1] != version {
		return Head{}, fmt.Errorf("%w: format %.16q is unknown, this program has %s; push with the program that built the image that runs", ErrVersion, words[1], version)
	}
	if len(words) != 4 {
		return Head{}, fmt.Errorf("%w: its first line has %d words, not 4", ErrForm, len(words))
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(words[3])
	if err != nil || len(signature) != ed25519.SignatureSize {
		return Head{}, fmt.Errorf("%w: its signature is malformed", ErrForm)
	}
	head, err := readLine(r, MaxHead)
	if err != nil {
		return Head{}, err
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && keyID(key) == words[2] && ed25519.Verify(key, signed([]byte(head+"\n")), signature) {
			return parse([]byte(head + "\n"))
		}
	}
	return Head{}, ErrSignature
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
	case h.Part.Size <= 0 || h.Part.Size > MaxPart || h.UKI.Size <= 0 || h.UKI.Size > MaxUKI:
		return fmt.Errorf("%w: a cluster part of %d bytes and a UKI of %d", ErrForm, h.Part.Size, h.UKI.Size)
	}
	for _, hash := range []string{h.RootHash, h.ClusterHash, h.Part.SHA256, h.UKI.SHA256} {
		if b, err := hex.DecodeString(hash); err != nil || len(b) != sha256.Size || hash != strings.ToLower(hash) {
			return fmt.Errorf("%w: %.80q is not a SHA-256", ErrForm, hash)
		}
	}
	return nil
}
