// Package pcr tells, before a machine starts, which value its TPM's register 11 will have, and signs that value so that
// secrets can be bound to whoever signs images instead of to one image.
//
// systemd's EFI stub measures the sections of a unified kernel image into PCR 11 (systemd-stub(7), "TPM PCR Notes"; UAPI.5),
// and systemd-pcrextend(8) measures words for the phases of the boot after that. The signature is a section of the image
// (systemd-measure(1)). Only the SHA-256 bank is predicted.
package pcr

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"spore/builder/uki"
)

// Register is the number of the PCR.
const Register = 11

// Phases are the boot phases for which images are signed: the time until the state is open, in which the value is the
// one that the stub left. systemd's own phases are not measured: the initramfs is not systemd's, and its units for that
// are left out.
var Phases = []string{""}

// StateOpen is the phase after that, for which no image is signed: nothing has the TPM open the state once it is open.
// The agent measures it (agent/tpm).
const StateOpen = "spore-state-open"

// measured are the sections that the stub measures, in its order, which is not that of the file. A signature of the result
// cannot be part of it, so .pcrsig is not among them.
var measured = []string{
	".linux", ".osrel", ".cmdline", ".initrd", ".ucode", ".splash", ".dtb", ".uname", ".sbat", ".pcrpkey",
}

// others are sections that newer stubs measure in ways that are not modelled; an image with one is refused.
var others = []string{".profile", ".dtbauto", ".hwids", ".efifw"}

// Value is what the register holds.
type Value [sha256.Size]byte

// String is the value in hexadecimal digits, as the kernel shows it (in lower case).
func (v Value) String() string { return hex.EncodeToString(v[:]) }

// MarshalText is String.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// extend is TPM2_PCR_Extend with the hash of some data.
func (v Value) extend(sum []byte) Value {
	return sha256.Sum256(append(v[:len(v):len(v)], sum...))
}

// Enter is the value after a path of phases: words with colons between them, such as enter-initrd:leave-initrd.
func (v Value) Enter(path string) Value {
	for _, word := range strings.Split(path, ":") {
		if word != "" {
			sum := sha256.Sum256([]byte(word)) // without a final NUL
			v = v.extend(sum[:])
		}
	}
	return v
}

// Predict returns the value that the stub of a unified kernel image will leave in a register that holds zero, as it does
// after power-on.
func Predict(r io.ReaderAt) (Value, error) {
	v, err := predict(r)
	if err != nil {
		return Value{}, fmt.Errorf("predict PCR %d: %w", Register, err)
	}
	return v, nil
}

func predict(r io.ReaderAt) (Value, error) {
	info, err := uki.Inspect(r)
	if err != nil {
		return Value{}, err
	}
	byName := map[string]uki.Section{}
	for _, s := range info.Sections {
		if _, ok := byName[s.Name]; ok {
			return Value{}, fmt.Errorf("there are two sections %s", s.Name)
		}
		byName[s.Name] = s
	}
	for _, name := range others {
		if _, ok := byName[name]; ok {
			return Value{}, fmt.Errorf("the section %s is measured in an unknown way", name)
		}
	}
	var v Value
	for _, name := range measured {
		s, ok := byName[name]
		if !ok || s.VirtualSize == 0 {
			continue
		}
		sum, err := contentHash(r, s)
		if err != nil {
			return Value{}, fmt.Errorf("section %s: %w", name, err)
		}
		title := sha256.Sum256(append([]byte(name), 0))
		v = v.extend(title[:]).extend(sum)
	}
	return v, nil
}

// maxSection bounds what is hashed of one section, in bytes of memory.
const maxSection = 2 << 30

// contentHash hashes a section as it is in memory: what the file does not fill is zero there, and is measured. Kernels
// have some of that.
func contentHash(r io.ReaderAt, s uki.Section) ([]byte, error) {
	if s.VirtualSize > maxSection {
		return nil, fmt.Errorf("it has %d bytes", s.VirtualSize)
	}
	h := sha256.New()
	stored := int64(min(s.VirtualSize, s.RawSize))
	if n, err := io.Copy(h, io.NewSectionReader(r, int64(s.Offset), stored)); err != nil || n < stored {
		return nil, fmt.Errorf("the file has %d of its %d bytes: %w", n, stored, firstError(err, io.ErrUnexpectedEOF))
	}
	zeros := make([]byte, 64<<10)
	for left := int64(s.VirtualSize) - stored; left > 0; left -= int64(len(zeros)) {
		h.Write(zeros[:min(left, int64(len(zeros)))])
	}
	return h.Sum(nil), nil
}

func firstError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// Signed is one entry of the section .pcrsig.
type Signed struct {
	// PCRs are the numbers of the registers, Key the fingerprint of the public key, Policy the digest of the TPM policy that
	// the registers have a certain value, all in hexadecimal digits, and Signature the one over Policy.
	PCRs      []int  `json:"pcrs"`
	Key       string `json:"pkfp"`
	Policy    string `json:"pol"`
	Signature []byte `json:"sig"`
}

// signatures is the section .pcrsig: by the name of the bank.
type signatures struct {
	SHA256 []Signed `json:"sha256"`
}

// maxSignatures bounds the section .pcrsig that is read.
const maxSignatures = 64 << 10

// ReadSignatures reads the section .pcrsig of a unified kernel image; none when it has no such section.
func ReadSignatures(r io.ReaderAt) ([]Signed, error) {
	info, err := uki.Inspect(r)
	if err != nil {
		return nil, err
	}
	for _, s := range info.Sections {
		if s.Name != ".pcrsig" {
			continue
		}
		if s.VirtualSize > maxSignatures {
			return nil, fmt.Errorf("read .pcrsig: it has %d bytes", s.VirtualSize)
		}
		data, err := io.ReadAll(io.NewSectionReader(r, int64(s.Offset), int64(min(s.VirtualSize, s.RawSize))))
		if err != nil {
			return nil, fmt.Errorf("read .pcrsig: %w", err)
		}
		var out signatures
		if err := json.Unmarshal(bytes.TrimRight(data, "\x00"), &out); err != nil {
			return nil, fmt.Errorf("read .pcrsig: %w", err)
		}
		return out.SHA256, nil
	}
	return nil, nil
}
