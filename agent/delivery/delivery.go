// Package delivery takes the node's bundle from where it is: sealed on the state partition, given by the firmware or in the
// user-data of NoCloud, or on the medium that the machine was booted from. It chooses the newest that is signed for this
// node, keeps it sealed, and takes it off the medium.
//
// Everything that is delivered is untrusted until its signature is checked (package bundle). A cut at any point leads, at
// the next boot, to the same end: the bundle is taken off the medium only after the sealed copy was read back and is equal.
package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"spore/agent/medium"
	"spore/pki/bundle"
	"spore/pki/seal"
	"spore/storage/atomicfile"
)

// Where bundles come from.
const (
	State    = "state"
	Firmware = "firmware"
	Medium   = "medium"
	Network  = "network"
	NoCloud  = "nocloud"
)

// names calls these places in sentences.
var names = map[string]string{
	State: "the stored bundle", Firmware: "the bundle that the firmware gave", Medium: "the bundle of the boot medium",
	Network: "the bundle that the server sent", NoCloud: "the bundle of NoCloud's user-data",
}

// CredentialName is the name of the bundle as a credential; the sealed file is bound to it.
const CredentialName = "spore.bundle"

// WithoutKeys is why an image that has no keys takes no bundle.
const WithoutKeys = "this image was built without keys; run `spore pki init`, and build again"

// Info is what became of the bundle; it is part of the status line.
type Info struct {
	// Serial is that of the bundle in use; 0 means that there is none.
	Serial uint64 `json:"serial,omitempty"`
	// From is where it came from, Sealed by which key it is kept; empty when it is not.
	From   string `json:"from,omitempty"`
	Sealed string `json:"sealed,omitempty"`
	// Problem says in words what is not as it should be.
	Problem string `json:"problem,omitempty"`
	// Forgets says why the serial of the bundle is not remembered, so that at the next boot an older one of this node,
	// which somebody has kept, would be taken as well; empty where it is remembered.
	Forgets string `json:"forgets,omitempty"`
	// Fingerprint is that of the machine's key while an operator is to approve it (package enroll).
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Vault keeps the bundle so that this machine alone can open it.
type Vault interface {
	// Open returns what is kept and by which key; the error is fs.ErrNotExist when nothing is.
	Open(ctx context.Context) (data []byte, kind string, err error)
	// Seal keeps data: when it returns, the data will survive a power cut and was read back.
	Seal(ctx context.Context, data []byte) (kind string, err error)
	// PutAside moves what Open could not open to where nothing is written over it.
	PutAside() error
}

// Remover removes the bundle from the boot medium when it is what same says it must be.
type Remover interface {
	Remove(same func(content []byte) bool) error
}

// Delivered is a bundle that came with the machine.
type Delivered struct {
	From string
	// Data is the file as it came.
	Data []byte
	// Opened is what a passphrase opened it to; nil while nobody has.
	Opened []byte
	// Err is why no passphrase will open it; nil otherwise.
	Err error
}

// Input is what Take works with.
type Input struct {
	// Whose says for whom the bundle must be.
	Whose bundle.Whose
	// Knows tells whether the node, with this bundle, trusts an authority's key by its id.
	Knows func(b *bundle.Bundle, authority, keyID string) (bool, error)
	// Delivered lists what came with the machine; the order decides between equals.
	Delivered []Delivered
	// Vault is nil when nothing lasts on this machine, and NoVault says why.
	Vault   Vault
	NoVault string
	// Taken is the file that remembers which encrypted file the stored bundle came in.
	Taken string
	// Medium is nil when the boot medium has no ESP.
	Medium Remover
	// Say reports what was done.
	Say func(string)
}

// Outcome is what Take returns.
type Outcome struct {
	Info Info
	// Bundle is the one to use; nil when there is none.
	Bundle *bundle.Bundle
	// Ask is the one of Input.Delivered that wants a passphrase; nil when none does.
	Ask *Delivered
	// Removed says that the boot medium holds no bundle any more.
	Removed bool
}

// found is a bundle that was opened, or the reason why not.
type found struct {
	from string
	// raw is the signed form, delivered the file that it came in.
	raw, delivered []byte
	// locked is what Opened made readable.
	locked bool
	bundle bundle.Bundle
	kind   string
	err    error
}

// Take chooses, seals and removes. It can be cut off at any point and run again.
func Take(ctx context.Context, in Input) Outcome {
	t := taking{Input: in}
	t.open(ctx)
	t.choose()
	t.seal(ctx)
	t.remove()
	t.out.Info.Problem = strings.Join(t.problems, "; ")
	return t.out
}

// taking is one run of Take.
type taking struct {
	Input
	out      Outcome
	problems []string
	// stored is nil when nothing is kept; unopened says that something is and cannot be opened.
	stored   *found
	unopened bool
	came     []*found
	// erased says that the boot medium has a file whose removal was cut off.
	erased bool
	best   *found
}

func (t *taking) problem(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if !slices.Contains(t.problems, text) {
		t.problems = append(t.problems, text)
	}
}

// open opens all that there is.
func (t *taking) open(ctx context.Context) {
	if t.Vault != nil {
		raw, kind, err := t.Vault.Open(ctx)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			t.unopened = true
			t.problem("the stored bundle cannot be opened and was kept as it is: %v; where no other was delivered, make one with `spore pki bundle --node %s` and bring it to the node", err, t.Whose.Node)
		default:
			t.stored = &found{from: State, raw: raw, kind: kind}
			t.check(t.stored)
		}
	}
	for i := range t.Delivered {
		d := &t.Delivered[i]
		f := &found{from: d.From, raw: d.Data, delivered: d.Data}
		switch {
		case medium.Erased(d.Data):
			t.erased = t.erased || d.From == Medium
			continue
		case !seal.IsSealed(d.Data):
		case d.Err != nil:
			t.problem("%s was refused: %v", names[d.From], d.Err)
			continue
		case d.Opened != nil:
			f.raw, f.locked = d.Opened, true
		case t.stored != nil && t.takenFrom(d.Data):
			f.raw, f.locked = t.stored.raw, true
		case len(t.Whose.Keys) == 0:
			t.problem("%s", WithoutKeys)
			continue
		case seal.CheckForNode(d.Data) != nil:
			t.problem("%s was refused: %v", names[d.From], seal.CheckForNode(d.Data))
			continue
		default:
			t.problem("%s is encrypted: waiting for the passphrase, which is asked for on the console", names[d.From])
			if t.out.Ask == nil {
				t.out.Ask = d
			}
			continue
		}
		t.check(f)
		t.came = append(t.came, f)
	}
}

// check verifies a bundle.
func (t *taking) check(f *found) {
	f.bundle, f.err = t.verify(f.raw)
	switch {
	case f.err == nil:
	case len(t.Whose.Keys) == 0:
		t.problem("%s", WithoutKeys)
	default:
		t.problem("%s was refused: %v", names[f.from], f.err)
	}
}

func (t *taking) verify(raw []byte) (bundle.Bundle, error) {
	b, err := bundle.Open(bytes.NewReader(raw), t.Whose)
	if err != nil {
		return b, err
	}
	list := slices.Sorted(maps.Keys(b.Authorities))
	for _, name := range list {
		known, err := t.Knows(&b, name, b.Authorities[name])
		if err != nil {
			return bundle.Bundle{}, err
		}
		if !known {
			return bundle.Bundle{}, fmt.Errorf("it stands on a key of the authority %q that this image does not know; build the image again and bring it to the node before the bundle", name)
		}
	}
	return b, nil
}

// choose takes the newest, and says why not the others.
func (t *taking) choose() {
	for _, f := range append([]*found{t.stored}, t.came...) {
		if f != nil && f.err == nil && (t.best == nil || f.bundle.Serial > t.best.bundle.Serial) {
			t.best = f
		}
	}
	if t.best == nil {
		return
	}
	t.out.Bundle = &t.best.bundle
	t.out.Info.Serial, t.out.Info.From, t.out.Info.Sealed = t.best.bundle.Serial, t.best.from, t.best.kind
	for _, f := range t.came {
		switch {
		case f.err != nil || f == t.best:
		case f.bundle.Serial < t.best.bundle.Serial:
			t.problem("%s has the serial %d and was refused: %s has %d; make a newer one with `spore pki bundle --node %s`", names[f.from], f.bundle.Serial, names[t.best.from], t.best.bundle.Serial, t.Whose.Node)
		case !bytes.Equal(f.raw, t.best.raw):
			t.problem("%s was refused: it has the serial %d, as has %s, and another content; make a newer one with `spore pki bundle --node %s`", names[f.from], f.bundle.Serial, names[t.best.from], t.Whose.Node)
		}
	}
}

// seal keeps the chosen bundle where it is not kept yet.
func (t *taking) seal(ctx context.Context) {
	if t.best == nil || t.best.from == State {
		return
	}
	if t.Vault == nil {
		t.out.Info.Forgets = t.NoVault
		return
	}
	kind, err := t.keep(ctx)
	if err != nil {
		t.out.Info.Forgets = err.Error()
		t.problem("the bundle is used and is not kept: %v", err)
		return
	}
	t.Say(fmt.Sprintf("sealed bundle %d to the %s", t.best.bundle.Serial, map[bool]string{true: "TPM", false: "host key"}[kind == "tpm2"]))
	t.out.Info.Sealed = kind
	t.stored = t.best
}

func (t *taking) keep(ctx context.Context) (string, error) {
	// First, since it means nothing before its bundle is stored.
	if t.best.locked {
		if err := atomicfile.WriteDurable(t.Taken, []byte(t.taken(t.best.delivered, t.best.raw)), 0o600); err != nil {
			return "", err
		}
	}
	if t.unopened {
		if err := t.Vault.PutAside(); err != nil {
			return "", err
		}
	}
	return t.Vault.Seal(ctx, t.best.raw)
}

// taken is the content of the file Taken: the hashes of an encrypted file and of the bundle in it, which has too many random
// bits to be guessed.
func (t *taking) taken(delivered, raw []byte) string {
	d, r := sha256.Sum256(delivered), sha256.Sum256(raw)
	return hex.EncodeToString(d[:]) + " " + hex.EncodeToString(r[:]) + "\n"
}

// takenFrom tells whether the stored bundle came in an encrypted file.
func (t *taking) takenFrom(delivered []byte) bool {
	text, err := atomicfile.ReadLimited(t.Taken, 256)
	return err == nil && string(text) == t.taken(delivered, t.stored.raw)
}

// remove takes the bundle off the boot medium when it is kept.
func (t *taking) remove() {
	var on *found
	for _, f := range t.came {
		if f.from == Medium {
			on = f
		}
	}
	kept := on != nil && t.stored != nil && bytes.Equal(on.raw, t.stored.raw)
	switch {
	case on == nil && !t.erased:
		return
	case on != nil && !kept:
		if on == t.best && t.Vault == nil {
			t.problem("the bundle stays on the boot medium: %s", t.NoVault)
		} else if on == t.best {
			t.problem("the bundle stays on the boot medium")
		}
		return
	case t.Medium == nil:
		t.problem("the bundle stays on the boot medium: its partition was not found")
		return
	}
	err := t.Medium.Remove(func(content []byte) bool { return on != nil && bytes.Equal(content, on.delivered) })
	if err != nil {
		t.problem("the bundle stays on the boot medium: %v", err)
		return
	}
	t.out.Removed = true
	t.Say("removed the bundle from the boot medium")
}
