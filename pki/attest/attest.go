// Package attest is the proof, by a machine's TPM 2.0, of what that machine has started (TPM 2.0 Library, part 1,
// "Attestation"; TCG PC Client Platform Firmware Profile 1.06, section 3.3): a quote of registers, signed by a key of
// the TPM, over a nonce of whoever asks. The machine's half is package agent/quote.
//
// Three registers are quoted, all of SHA-256. What they say together is what a machine runs that booted from the
// network:
//
//	4   each program that the firmware started, by the hash of Authenticode, in their order
//	11  what the started UKI measured of itself (package builder/pcr)
//	12  what came from outside of the UKI: a command line, credentials; zero where nothing did
//
// Register 11 alone would say little: any system can measure the public parts of a UKI into it. A program that the
// firmware started cannot take its own hash out of register 4 again. Register 7, the state of Secure Boot, is not asked
// for: who signed a program says less than which one it was, and register 4 says that with Secure Boot on or off.
//
// A quote proves nothing about which TPM made it, or even that one did, before its endorsement key (EK) is known: by
// its fingerprint, which the operator has seen before, or by a certificate of the TPM's maker, which says that some TPM
// of that maker answers. Wrap ties the two together as TPM2_ActivateCredential has it: what it encrypts can only be
// opened by the TPM that has both the EK and the key that signed the quote.
//
// github.com/google/go-tpm is used, and not google/go-attestation above it: that brings go-tpm-tools, the parser of the
// whole event log for the verifier, and code for Windows and for keys that are kept, for an agent that needs four
// commands. Here the verifier is sent the list of hashes alone, which it replays, so that it parses no log.
package attest

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-tpm/tpm2"
)

// Registers are those that are quoted, in the order of Evidence.Registers.
var Registers = []uint{4, 11, 12}

// Places of the registers in Evidence.Registers.
const (
	started = iota
	measured
	outside
)

// NonceSize is the size of a nonce, in bytes.
const NonceSize = 32

// Bounds, in bytes but for maxStarted.
const (
	maxPublic      = 1024
	maxCertificate = 4096
	maxQuote       = 1024
	maxStarted     = 64
	maxCmdline     = 4096
)

// ErrForm is what is malformed.
var ErrForm = errors.New("the proof of the TPM is malformed")

// Keys are the public halves of a TPM's keys.
type Keys struct {
	// EK is the endorsement key of RSA with 2048 bits (TCG EK Credential Profile 2.5, template L-1), AK the key that signs
	// quotes; both as TPMT_PUBLIC.
	EK []byte `json:"ek"`
	AK []byte `json:"ak"`
	// Certificate is that of EK, as the maker has put it into the TPM, in DER; empty when there is none.
	Certificate []byte `json:"certificate,omitempty"`
}

// Evidence is a quote with what it stands on.
type Evidence struct {
	// Nonce is the one that was asked with.
	Nonce []byte `json:"nonce"`
	// Quote is a TPMS_ATTEST, and Signature the TPMT_SIGNATURE over it.
	Quote     []byte `json:"quote"`
	Signature []byte `json:"signature"`
	// Registers are the values of the registers of that name.
	Registers [][]byte `json:"registers"`
	// Started are the hashes that the firmware put into register 4, by its log.
	Started [][]byte `json:"started"`
	// Cmdline is the kernel's command line.
	Cmdline string `json:"cmdline"`
}

// Check holds keys to their bounds.
func (k *Keys) Check() error {
	if len(k.EK) == 0 || len(k.EK) > maxPublic || len(k.AK) == 0 || len(k.AK) > maxPublic || len(k.Certificate) > maxCertificate {
		return fmt.Errorf("%w: keys of %d and %d bytes and a certificate of %d", ErrForm, len(k.EK), len(k.AK), len(k.Certificate))
	}
	return nil
}

// Check holds evidence to its bounds.
func (e *Evidence) Check() error {
	switch {
	case len(e.Nonce) != NonceSize:
		return fmt.Errorf("%w: a nonce of %d bytes", ErrForm, len(e.Nonce))
	case len(e.Quote) > maxQuote || len(e.Signature) > maxQuote:
		return fmt.Errorf("%w: a quote of %d bytes with a signature of %d", ErrForm, len(e.Quote), len(e.Signature))
	case len(e.Registers) != len(Registers):
		return fmt.Errorf("%w: %d registers", ErrForm, len(e.Registers))
	case len(e.Started) > maxStarted:
		return fmt.Errorf("%w: %d programs that the firmware started", ErrForm, len(e.Started))
	case len(e.Cmdline) > maxCmdline:
		return fmt.Errorf("%w: a command line of %d bytes", ErrForm, len(e.Cmdline))
	// The kernel takes the byte 0xa0, which is half of an "à", for a blank between words (lib/ctype.c), and nobody else does.
	case strings.ContainsFunc(e.Cmdline, func(r rune) bool { return r < 0x20 || r > 0x7e }):
		return fmt.Errorf("%w: a command line with other characters than printable ASCII", ErrForm)
	}
	for _, v := range append(e.Registers[:len(e.Registers):len(e.Registers)], e.Started...) {
		if len(v) != sha256.Size {
			return fmt.Errorf("%w: a hash of %d bytes", ErrForm, len(v))
		}
	}
	return nil
}

// Qualify is what a quote is made over: the nonce, and what the TPM is to vouch for, which is the machine's fingerprint
// with its cluster, its node and its key.
func Qualify(nonce []byte, subject string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "spore attest 1\n%x\n%s\n", nonce, subject))
	return sum[:]
}

// Fingerprint names a TPM by its EK: 160 bits of a hash over the public key, in eight groups of four characters of
// base32.
func Fingerprint(ek []byte) string {
	sum := sha256.Sum256(append([]byte("spore ek 1\n"), ek...))
	text := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))
	var groups []string
	for i := 0; i < len(text); i += 4 {
		groups = append(groups, text[i:i+4])
	}
	return strings.Join(groups, "-")
}

// EKTemplate is the template that makes an EK anew from the TPM's seed, always the same.
func EKTemplate() tpm2.TPMTPublic { return tpm2.RSAEKTemplate }

// AKTemplate is that of the key that signs quotes. Restricted keys sign nothing that the TPM has not made itself.
func AKTemplate() tpm2.TPMTPublic {
	return tpm2.TPMTPublic{
		Type: tpm2.TPMAlgECC, NameAlg: tpm2.TPMAlgSHA256, ObjectAttributes: akAttributes,
		Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC, &tpm2.TPMSECCParms{
			Scheme:  tpm2.TPMTECCScheme{Scheme: tpm2.TPMAlgECDSA, Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSigSchemeECDSA{HashAlg: tpm2.TPMAlgSHA256})},
			CurveID: tpm2.TPMECCNistP256,
		}),
		Unique: tpm2.NewTPMUPublicID(tpm2.TPMAlgECC, &tpm2.TPMSECCPoint{X: tpm2.TPM2BECCParameter{Buffer: make([]byte, 32)}, Y: tpm2.TPM2BECCParameter{Buffer: make([]byte, 32)}}),
	}
}

var akAttributes = tpm2.TPMAObject{
	FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, NoDA: true, Restricted: true, SignEncrypt: true,
}

// Selection is that of Registers.
func Selection() tpm2.TPMLPCRSelection {
	return tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{{Hash: tpm2.TPMAlgSHA256, PCRSelect: tpm2.PCClientCompatible.PCRs(Registers...)}}}
}

// subjectAltName is the extension that makers mark critical and fill with names that x509 does not know (TCG EK
// Credential Profile 2.5, section 3.2.9).
const subjectAltName = "2.5.29.17"

// CheckCertificate tells whether one of the roots, in a chain over the intermediate certificates, has signed the
// certificate of this EK. A good certificate says that a TPM of that maker has the EK, and not in which machine it is.
func (k *Keys) CheckCertificate(roots, intermediates *x509.CertPool) error {
	if len(k.Certificate) == 0 {
		return errors.New("the TPM has no certificate of its maker")
	}
	c, err := x509.ParseCertificate(k.Certificate)
	if err != nil {
		return fmt.Errorf("read the certificate of the TPM's EK: %w", err)
	}
	left := c.UnhandledCriticalExtensions[:0]
	for _, e := range c.UnhandledCriticalExtensions {
		if e.String() != subjectAltName {
			left = append(left, e)
		}
	}
	c.UnhandledCriticalExtensions = left
	// Makers give TPMs certificates without an end, or with one that has passed in the machine's life; what is asked is
	// who made it.
	_, err = c.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: c.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return fmt.Errorf("the certificate of the TPM's EK is not signed by a maker that you trust: %w", err)
	}
	public, err := ekPublic(k.EK)
	if err != nil {
		return err
	}
	if !public.Equal(c.PublicKey) {
		return errors.New("the certificate of the TPM's EK is for another key")
	}
	return nil
}
