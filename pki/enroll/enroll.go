// Package enroll is how a machine gets its bundle of secrets over the network: it makes a key (X25519 of
// age-encryption.org/v1), shows the key's fingerprint on its console and sends key and node name to a server: the one
// that it was booted from, or the one of enroll in cluster.yaml. The operator compares the fingerprint and approves it;
// then the server hands out the bundle of that node, encrypted to that key alone.
//
// The way is plain HTTP: POST BASE/enroll with a Claim in JSON. The answer is 202 with a Pending, or 200 with the
// bundle. What it stands on is the operator's look at the fingerprint on one side, and on the other the signature of
// the bundle (package bundle), which the machine checks against the cluster part of its verified image. A fingerprint
// stands for cluster, node, key and TPM together, so that another key, or another node for the same key, is another
// one, and wants an approval of its own.
//
// The fingerprint does not say what shows it. Whoever answers a machine's PXE first, or puts a stick of his own into it,
// can start a system of his own there, which shows the fingerprint of a key that he has. Only the machine's TPM speaks against that (package attest):
// a Pending may bring a nonce, and the next Claim the TPM's quote over it.
//
// The server never sees a bundle that it could read: whoever approves seals it (Approval).
package enroll

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"spore/pki/attest"
	"spore/pki/bundle"
	"spore/pki/seal"
)

// Path is where the server answers, below the folder of the image.
const Path = "enroll"

// Bounds, in bytes but for maxMACs.
const (
	maxClaim = 32 << 10
	maxText  = 128
	maxMACs  = 64
	// maxSealed is for a bundle that is encrypted to the TPM as well, in base64.
	maxSealed = (bundle.MaxSize+4<<10)/3*4 + 4<<10
)

const version = 1

// Claim is what a machine says of itself. Nothing of it is proved.
type Claim struct {
	// Version is 1.
	Version int `json:"version"`
	// Cluster is the cluster's id.
	Cluster string `json:"cluster"`
	// Node is which node the machine found itself to be; empty when it is none.
	Node string `json:"node"`
	// Key is the age recipient that the bundle is to be encrypted to.
	Key string `json:"key"`
	// MACs, Serial and UUID are what the machine could be known by.
	MACs   []string `json:"macs,omitempty"`
	Serial string   `json:"serial,omitempty"`
	UUID   string   `json:"uuid,omitempty"`
	// TPM are the keys of the machine's TPM, where it has one that works; Evidence is its answer to the nonce of a
	// Pending.
	TPM      *attest.Keys     `json:"tpm,omitempty"`
	Evidence *attest.Evidence `json:"evidence,omitempty"`
}

// NewClaim fills in the version.
func NewClaim(c Claim) Claim {
	c.Version = version
	return c
}

// ErrForm is a message that is malformed.
var ErrForm = errors.New("the message is malformed")

// ParseClaim reads a claim and holds it to its bounds.
func ParseClaim(data []byte) (Claim, error) {
	var c Claim
	if len(data) > maxClaim {
		return c, fmt.Errorf("%w: it has more than %d bytes", ErrForm, maxClaim)
	}
	if err := decode(data, &c); err != nil {
		return c, err
	}
	if c.Version != version {
		return c, fmt.Errorf("%w: version %d is unknown, this program has %d", ErrForm, c.Version, version)
	}
	if key, err := age.ParseX25519Recipient(c.Key); err != nil || key.String() != c.Key {
		return c, fmt.Errorf("%w: its key is not an age recipient", ErrForm)
	}
	if c.Node != "" && !bundle.ValidName(c.Node) {
		return c, fmt.Errorf("%w: %.64q is not a name of a node", ErrForm, c.Node)
	}
	for _, text := range []string{c.Cluster, c.Serial, c.UUID} {
		if !printable(text) {
			return c, fmt.Errorf("%w: it has text that is long or cannot be printed", ErrForm)
		}
	}
	if len(c.MACs) > maxMACs {
		return c, fmt.Errorf("%w: it has %d MACs", ErrForm, len(c.MACs))
	}
	for _, m := range c.MACs {
		if hw, err := net.ParseMAC(m); err != nil || hw.String() != m {
			return c, fmt.Errorf("%w: %.64q is not a MAC", ErrForm, m)
		}
	}
	return c, c.checkTPM()
}

func (c Claim) checkTPM() error {
	if c.TPM != nil {
		if err := c.TPM.Check(); err != nil {
			return fmt.Errorf("%w: %w", ErrForm, err)
		}
	}
	if c.Evidence != nil {
		if err := c.Evidence.Check(); err != nil {
			return fmt.Errorf("%w: %w", ErrForm, err)
		}
		if c.TPM == nil {
			return fmt.Errorf("%w: it has a quote without a TPM", ErrForm)
		}
	}
	return nil
}

// decode reads one JSON value without fields that nobody knows.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: its JSON is not as it must be", ErrForm)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: something follows its JSON", ErrForm)
	}
	return nil
}

func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return len(s) <= maxText
}

// Fingerprint is what operator and console compare: 100 bits of a hash over cluster, node, key and the TPM's keys, in
// five groups of four characters of base32.
func (c Claim) Fingerprint() string {
	// No part can hold a newline (ParseClaim), so no two claims give the same text.
	text := fmt.Appendf(nil, "spore enroll 1\n%s\n%s\n%s\n", strings.ToLower(c.Cluster), c.Node, c.Key)
	if c.TPM != nil {
		text = fmt.Appendf(text, "%x\n%x\n", c.TPM.EK, c.TPM.AK)
	}
	sum := sha256.Sum256(text)
	shown := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
	var groups []string
	for i := 0; i < 20; i += 4 {
		groups = append(groups, shown[i:i+4])
	}
	return strings.Join(groups, "-")
}

// SameMachine tells whether two claims are of one machine, by what they say of it: the same key, the same TPM, or the
// same cards, serial number and UUID. A machine that keeps nothing comes with a new key at each start, and is known so.
// Nothing of it is proved: it keeps an operator from giving a node away twice by mistake, and takes no approval's place.
func (c Claim) SameMachine(o Claim) bool {
	if c.Key == o.Key {
		return true
	}
	if c.TPM != nil && o.TPM != nil {
		return bytes.Equal(c.TPM.EK, o.TPM.EK)
	}
	own, others := slices.Sorted(slices.Values(c.MACs)), slices.Sorted(slices.Values(o.MACs))
	return len(own) > 0 && slices.Equal(own, others) && c.Serial == o.Serial && strings.EqualFold(c.UUID, o.UUID)
}

// GivenTo says in words which machine has a node, for the operator and for the machine that comes second.
func GivenTo(node, holder string, since time.Time) string {
	return fmt.Sprintf("%s has been given to another machine (%s)", node, approved(holder, since))
}

// Again says to the operator that a machine says of itself what the one said that has the node, and has another key.
func Again(node, holder string, since time.Time) string {
	return fmt.Sprintf("It says that it is the machine that %s has been given to (%s), and has another key: "+
		"that is so after a start of a machine that keeps nothing", node, approved(holder, since))
}

func approved(holder string, since time.Time) string {
	if since.IsZero() {
		return "fingerprint " + holder
	}
	return "fingerprint " + holder + ", approved " + since.UTC().Format("2006-01-02 15:04 MST")
}

// States of a request.
const (
	// Waiting is for the operator's approval.
	Waiting = "waiting"
	// Unknown is a machine that does not match any node of the configuration; it can be given nothing.
	Unknown = "unknown"
	// Given is a machine that claims a node which another machine was approved for.
	Given = "given"
	// Denied is what the operator refused.
	Denied = "denied"
	// Approved is what the bundle is handed out for.
	Approved = "approved"
)

// Pending is the answer while there is no bundle to hand out.
type Pending struct {
	State       string `json:"state"`
	Fingerprint string `json:"fingerprint"`
	// Message says in words what is waited for, or what is wrong.
	Message string `json:"message,omitempty"`
	// Nonce is what the machine's TPM is to make a quote over, for the next claim; empty where none is asked for.
	Nonce []byte `json:"nonce,omitempty"`
	// Holder is the fingerprint of the machine that has the node, and Since when it was approved, in the state Given;
	// Since is zero where that is not known.
	Holder string    `json:"holder,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// ParsePending reads a server's answer. What it says is shown on a console and is held to what can be printed.
func ParsePending(data []byte) (Pending, error) {
	var p Pending
	if len(data) > maxClaim {
		return p, fmt.Errorf("%w: it has more than %d bytes", ErrForm, maxClaim)
	}
	if err := decode(data, &p); err != nil {
		return p, err
	}
	if p.State != Waiting && p.State != Unknown && p.State != Given && p.State != Denied {
		return p, fmt.Errorf("%w: the state %.40q", ErrForm, p.State)
	}
	if len(p.Nonce) != 0 && len(p.Nonce) != attest.NonceSize {
		return p, fmt.Errorf("%w: a nonce of %d bytes", ErrForm, len(p.Nonce))
	}
	if !printable(p.Fingerprint) || !printable(p.Message) || !printable(p.Holder) {
		return p, fmt.Errorf("%w: it has text that is long or cannot be printed", ErrForm)
	}
	return p, nil
}

// Key is the machine's.
type Key struct{ identity *age.X25519Identity }

// NewKey makes one.
func NewKey() (Key, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return Key{id}, nil
}

// ParseKey reads what Secret returned; its error quotes nothing.
func ParseKey(secret []byte) (Key, error) {
	id, err := age.ParseX25519Identity(string(secret))
	if err != nil {
		return Key{}, errors.New("it is not a key")
	}
	return Key{id}, nil
}

// Secret is the key as text, to be kept sealed.
func (k Key) Secret() []byte { return []byte(k.identity.String()) }

// Public is the recipient that a Claim names.
func (k Key) Public() string { return k.identity.Recipient().String() }

// String and Format never show the secret half.
func (k Key) String() string { return k.Public() }

// Format implements fmt.Formatter.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.Public()) }

// Activate has the machine's TPM open a credential; see package attest.
type Activate func(credential, secret []byte) ([]byte, error)

// Open decrypts what the server handed out: the bundle as it was signed, which nobody has verified yet. activate is nil
// where the machine has no TPM.
func (k Key) Open(sealed []byte, activate Activate) ([]byte, error) {
	if len(sealed) > maxSealed {
		return nil, fmt.Errorf("it has more than %d bytes", maxSealed)
	}
	if attest.IsWrapped(sealed) {
		if activate == nil {
			return nil, errors.New("it is encrypted to a TPM, but this machine showed no TPM")
		}
		var err error
		if sealed, err = attest.Unwrap(sealed, activate); err != nil {
			return nil, err
		}
	}
	data, err := seal.OpenIdentities(sealed, k.Secret(), bundle.MaxSize)
	if errors.Is(err, seal.ErrPassphrase) {
		return nil, errors.New("it is not encrypted to this machine's key")
	}
	return data, err
}

// Seal encrypts a bundle to the key of a claim and, with its TPM, to that, too. A TPM's keys are taken for what they
// are: whoever calls has verified them (package attest).
func Seal(data []byte, c Claim, toTPM bool) ([]byte, error) {
	sealed, err := seal.ForRecipients(data, []string{c.Key})
	if err != nil || !toTPM {
		return sealed, err
	}
	if c.TPM == nil {
		return nil, errors.New("the machine has shown no TPM")
	}
	return attest.Wrap(sealed, *c.TPM)
}
