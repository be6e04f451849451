// Package tpm does the little that the agent asks of a TPM 2.0 itself (TCG, TPM 2.0 Library): it reads registers (PCRs)
// as the kernel shows them, extends one, and computes the digest of the policy that encrypted state is bound to.
// Sealing and opening are systemd's. Only the SHA-256 bank is looked at.
package tpm

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Registers that state is bound to (UAPI.7, Linux TPM PCR Registry).
const (
	// Keys (7) holds whether Secure Boot is on, the firmware's keys, and which of them let the boot loader and the image
	// start.
	Keys = 7
	// Image (11) holds what systemd's stub measured of the image, and the phases after it.
	Image = 11
	// Words (12) holds what came from outside of the image: words for the kernel, credentials, add-ons. It is zero without
	// any.
	Words = 12
)

// StateOpen is the phase of the boot that begins when the state is open or is not there: its hash goes into Image, and
// no signed value has it. spore inspect knows it too (package builder/pcr).
const StateOpen = "spore-state-open"

// Size is that of a register, in bytes.
const Size = sha256.Size

// Digest is the content of a register, or the digest of a policy.
type Digest [Size]byte

// String is the digest in lower-case hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Extend is the register after a digest was extended into it.
func (d Digest) Extend(digest Digest) Digest {
	return sha256.Sum256(append(d[:len(d):len(d)], digest[:]...))
}

// Read reads a register below the root of the machine. The error is fs.ErrNotExist without a TPM that has the bank.
func Read(root fs.FS, register int) (Digest, error) {
	var d Digest
	f, err := root.Open(fmt.Sprintf("sys/class/tpm/tpm0/pcr-sha256/%d", register))
	if err != nil {
		return d, fmt.Errorf("read PCR %d: %w", register, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4*Size))
	if err != nil {
		return d, fmt.Errorf("read PCR %d: %w", register, err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != Size {
		return d, fmt.Errorf("read PCR %d: the kernel shows %.80q, which is no SHA-256", register, text)
	}
	return Digest(raw), nil
}

// Numbers of the library, part 2.
const (
	noSessions       = 0x8001 // TPM_ST_NO_SESSIONS
	sessions         = 0x8002 // TPM_ST_SESSIONS
	password         = 0x40000009
	algSHA256        = 0x000b
	algNull          = 0x0010
	algRSA           = 0x0001
	ccPCRExtend      = 0x182
	ccPolicyAuthVal  = 0x16b
	ccPolicyAuthoriz = 0x16a
	ccPolicyPCR      = 0x17f
	// keyAttributes are decrypt, sign and userWithAuth.
	keyAttributes   = 0x60040
	defaultExponent = 65537
	headerSize      = 10
	maxResponse     = 4096
)

// Extend extends the digest of data into a register of the TPM behind a device such as /dev/tpmrm0: nobody can take
// that back before the machine starts again.
func Extend(device io.ReadWriter, register int, data []byte) error {
	sum := sha256.Sum256(data)
	be := binary.BigEndian
	var body []byte
	body = be.AppendUint32(body, uint32(register))
	// The authorization area: the empty password.
	body = be.AppendUint32(body, 9)
	body = be.AppendUint32(body, password)
	body = append(body, 0, 0, 0, 0, 0) // no nonce, no attributes, no password
	body = be.AppendUint32(body, 1)    // one digest (TPML_DIGEST_VALUES)
	body = be.AppendUint16(body, algSHA256)
	body = append(body, sum[:]...)
	if err := run(device, sessions, ccPCRExtend, body); err != nil {
		return fmt.Errorf("extend PCR %d: %w", register, err)
	}
	return nil
}

// run sends one command and looks at the code that comes back.
func run(device io.ReadWriter, tag uint16, command uint32, body []byte) error {
	be := binary.BigEndian
	request := be.AppendUint16(nil, tag)
	request = be.AppendUint32(request, uint32(headerSize+len(body)))
	request = be.AppendUint32(request, command)
	if _, err := device.Write(append(request, body...)); err != nil {
		return err
	}
	answer := make([]byte, maxResponse)
	n, err := device.Read(answer)
	if err != nil {
		return err
	}
	if n < headerSize || be.Uint32(answer[2:]) != uint32(n) || be.Uint16(answer) != tag && be.Uint16(answer) != noSessions {
		return fmt.Errorf("the TPM answered %d bytes that are not an answer", n)
	}
	if code := be.Uint32(answer[6:]); code != 0 {
		return fmt.Errorf("the TPM refused with code %#x", code)
	}
	return nil
}

// PublicKey reads an RSA public key, PEM.
func PublicKey(text []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the key that signs PCR 11 is not PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the key that signs PCR 11: %w", err)
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("the key that signs PCR 11 is no RSA key")
	}
	return key, nil
}

// Policy is what a TPM asks for before it opens: a value of PCR 11 that Signer signed, PCR 7 with the value Keys, PCR
// 12 with nothing in it, and a PIN. systemd-cryptenroll(1) writes its digest into the token of LUKS2 (systemd,
// src/shared/tpm2-util.c, tpm2_calculate_sealing_policy).
type Policy struct {
	Signer *rsa.PublicKey
	Keys   Digest
	PIN    bool
}

// PCRs is the value of --tpm2-pcrs=. What comes from outside of the image has to be nothing, whatever it is now.
func (p Policy) PCRs() string {
	return fmt.Sprintf("%d:sha256=%s+%d:sha256=%s", Keys, p.Keys, Words, Digest{})
}

// Digest is the policy's, for a key whose exponent is written as it is.
func (p Policy) Digest() Digest { return p.digest(uint32(p.Signer.E)) }

// Is tells whether a token's digest, in lower-case hexadecimal digits, is that of the policy. There are two: programs
// write the usual exponent of a key as it is, or as zero, and the key has another name with each.
func (p Policy) Is(digest string) bool {
	return digest == p.Digest().String() || p.Signer.E == defaultExponent && digest == p.digest(0).String()
}

// digest is the policy's. Each step hashes the digest before it, its command and what it asserts (part 3, section 23).
func (p Policy) digest(exponent uint32) Digest {
	be := binary.BigEndian
	step := func(d Digest, command uint32, parts ...[]byte) Digest {
		b := be.AppendUint32(d[:len(d):len(d)], command)
		for _, part := range parts {
			b = append(b, part...)
		}
		return sha256.Sum256(b)
	}
	// TPM2_PolicyAuthorize begins anew, and ends with the reference of the policy, which is empty.
	d := step(Digest{}, ccPolicyAuthoriz, keyName(p.Signer, exponent))
	d = sha256.Sum256(d[:])
	values := sha256.Sum256(append(p.Keys[:len(p.Keys):len(p.Keys)], make([]byte, Size)...))
	selection := be.AppendUint16(be.AppendUint32(nil, 1), algSHA256)
	selection = append(selection, 3, 1<<Keys, 1<<(Words-8), 0)
	d = step(d, ccPolicyPCR, selection, values[:])
	if p.PIN {
		d = step(d, ccPolicyAuthVal)
	}
	return d
}

// keyName is the name by which a TPM knows a public key (part 1, section 16): the algorithm of its hash, and the hash
// of TPMT_PUBLIC.
func keyName(key *rsa.PublicKey, exponent uint32) []byte {
	be := binary.BigEndian
	modulus := key.N.Bytes()
	var b []byte
	b = be.AppendUint16(b, algRSA)
	b = be.AppendUint16(b, algSHA256)
	b = be.AppendUint32(b, keyAttributes)
	b = be.AppendUint16(b, 0) // no policy of its own
	b = be.AppendUint16(b, algNull)
	b = be.AppendUint16(b, algNull)
	b = be.AppendUint16(b, uint16(key.N.BitLen()))
	b = be.AppendUint32(b, exponent)
	b = be.AppendUint16(b, uint16(len(modulus)))
	b = append(b, modulus...)
	sum := sha256.Sum256(b)
	return append(be.AppendUint16(nil, algSHA256), sum[:]...)
}
