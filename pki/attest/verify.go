package attest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/google/go-tpm/tpm2"
)

// Want is what a machine must have started.
type Want struct {
	// Programs are the names of what may have been started, by the hash of Authenticode.
	Programs map[[sha256.Size]byte]string
	// UKI is the name in Programs of the one that must have been.
	UKI string
	// Measured are the values of register 11 that the UKI makes.
	Measured [][sha256.Size]byte
	// Cmdline is the command line in the UKI.
	Cmdline string
	// More are the beginnings of the words that may follow it, such as "spore.url=".
	More []string
}

// harmless are what firmware puts into register 4 besides programs: its separator and remarks (TCG PC Client Platform
// Firmware Profile 1.06, section 3.3.4.5).
var harmless = func() map[[sha256.Size]byte]bool {
	out := map[[sha256.Size]byte]bool{sha256.Sum256(make([]byte, 4)): true}
	for _, remark := range []string{
		"Calling EFI Application from Boot Option", "Returning from EFI Application from Boot Option", "BOOT ATTEMPTS OMITTED",
	} {
		out[sha256.Sum256([]byte(remark))] = true
	}
	return out
}()

// Verify tells whether the TPM with these keys vouches that its machine started what is wanted, and nothing else, and
// for the subject. It says nothing of whose TPM that is.
func Verify(k Keys, e Evidence, nonce []byte, subject string, want Want) error {
	if err := errors.Join(k.Check(), e.Check()); err != nil {
		return err
	}
	if !bytes.Equal(e.Nonce, nonce) {
		return errors.New("the quote is an answer to another question")
	}
	if err := e.signedBy(k.AK, Qualify(nonce, subject)); err != nil {
		return err
	}
	if err := e.checkStarted(want); err != nil {
		return err
	}
	if !slices.ContainsFunc(want.Measured, func(v [sha256.Size]byte) bool { return bytes.Equal(v[:], e.Registers[measured]) }) {
		return fmt.Errorf("the machine's PCR 11 is %x, and the UKI that is served makes %x: another build of it was started, or more was measured since", e.Registers[measured], want.Measured)
	}
	return e.checkOutside(want)
}

// signedBy checks the quote: form, signature, and that the registers are those that are said.
func (e *Evidence) signedBy(ak, qualified []byte) error {
	public, err := publicOf(ak, AKTemplate())
	if err != nil {
		// Above all, a key that is not restricted signs a quote that nobody made.
		return fmt.Errorf("its AK may sign data that the TPM has not made: %w", err)
	}
	anyKey, err := tpm2.Pub(*public)
	key, ok := anyKey.(*ecdsa.PublicKey)
	if err != nil || !ok {
		return fmt.Errorf("%w: its AK is not a point on the curve", ErrForm)
	}
	if _, err := key.ECDH(); err != nil {
		return fmt.Errorf("%w: its AK is not a point on the curve", ErrForm)
	}
	signature, err := tpm2.Unmarshal[tpm2.TPMTSignature](e.Signature)
	if err != nil {
		return fmt.Errorf("%w: its signature cannot be read", ErrForm)
	}
	rs, err := signature.Signature.ECDSA()
	if err != nil || rs.Hash != tpm2.TPMAlgSHA256 {
		return fmt.Errorf("%w: its signature is not ECDSA with SHA-256", ErrForm)
	}
	sum := sha256.Sum256(e.Quote)
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(rs.SignatureR.Buffer), new(big.Int).SetBytes(rs.SignatureS.Buffer)) {
		return errors.New("the quote is not signed by the TPM's key")
	}
	quote, err := tpm2.Unmarshal[tpm2.TPMSAttest](e.Quote)
	if err != nil || quote.Magic != tpm2.TPMGeneratedValue || quote.Type != tpm2.TPMSTAttestQuote {
		return fmt.Errorf("%w: the signed data is not a quote", ErrForm)
	}
	if !bytes.Equal(quote.ExtraData.Buffer, qualified) {
		return errors.New("the quote is for another machine, or an answer to another question")
	}
	info, err := quote.Attested.Quote()
	if err != nil {
		return fmt.Errorf("%w: the signed data is not a quote", ErrForm)
	}
	if !bytes.Equal(tpm2.Marshal(info.PCRSelect), tpm2.Marshal(Selection())) {
		return fmt.Errorf("the quote is over other registers than PCR %v", Registers)
	}
	digest := sha256.Sum256(bytes.Join(e.Registers, nil))
	if !bytes.Equal(info.PCRDigest.Buffer, digest[:]) {
		return errors.New("the quoted registers differ from the values that were sent")
	}
	return nil
}

// ErrProgram is a program in register 4 that is not wanted there. Machines that start from a disk or stick have one: the
// boot loader of that medium.
var ErrProgram = errors.New("the firmware started a program that is not served here")

// checkStarted replays register 4, and looks at each hash in it.
func (e *Evidence) checkStarted(want Want) error {
	value, uki := make([]byte, sha256.Size), false
	for _, hash := range e.Started {
		next := sha256.Sum256(append(bytes.Clone(value), hash...))
		value = next[:]
		name, known := want.Programs[[sha256.Size]byte(hash)]
		if !known && !harmless[[sha256.Size]byte(hash)] {
			return fmt.Errorf("%w, with the Authenticode hash %x: another boot loader, as that of a disk or stick, or a tool of the machine's maker", ErrProgram, hash)
		}
		uki = uki || known && name == want.UKI
	}
	if !bytes.Equal(value, e.Registers[started]) {
		return errors.New("the machine's list of programs that its firmware started does not match its PCR 4")
	}
	if !uki {
		return fmt.Errorf("the firmware has not started %s", want.UKI)
	}
	return nil
}

// checkOutside looks at register 12: nothing, or the command line that iPXE gives.
func (e *Evidence) checkOutside(want Want) error {
	if bytes.Equal(e.Registers[outside], make([]byte, sha256.Size)) {
		return nil
	}
	// systemd-stub measures the text in UTF-16 with the zero at its end.
	var text []byte
	for _, u := range append(utf16.Encode([]rune(e.Cmdline)), 0) {
		text = binary.LittleEndian.AppendUint16(text, u)
	}
	sum := sha256.Sum256(text)
	value := sha256.Sum256(append(make([]byte, sha256.Size), sum[:]...))
	if !bytes.Equal(value[:], e.Registers[outside]) {
		return errors.New("the machine's PCR 12 says that the UKI was given more than a command line, or a command line that differs from the kernel's")
	}
	// "ro" is the name by which iPXE starts it (builder/netboot/ipxe).
	given, known := strings.Fields(e.Cmdline), append([]string{"ro"}, strings.Fields(want.Cmdline)...)
	if len(given) < len(known) || !slices.Equal(given[:len(known)], known) {
		return fmt.Errorf("the machine was started with a command line that is not served: %.200q", e.Cmdline)
	}
	for _, word := range given[len(known):] {
		if !slices.ContainsFunc(want.More, func(begin string) bool { return strings.HasPrefix(word, begin) }) {
			return fmt.Errorf("the machine was started with the word %.100q on its command line, which is not served here", word)
		}
	}
	return nil
}

// ekPublic is the RSA key of an EK of the one template that is used.
func ekPublic(ek []byte) (*rsa.PublicKey, error) {
	public, err := publicOf(ek, EKTemplate())
	if err != nil {
		return nil, fmt.Errorf("its EK does not match the TCG's template for RSA with 2048 bits: %w", err)
	}
	key, err := tpm2.Pub(*public)
	if rsaKey, ok := key.(*rsa.PublicKey); err == nil && ok && rsaKey.N.BitLen() == 2048 {
		return rsaKey, nil
	}
	return nil, fmt.Errorf("%w: its EK is not an RSA key of 2048 bits", ErrForm)
}

// publicOf reads a public key that is as a template has it in all but its numbers.
func publicOf(data []byte, template tpm2.TPMTPublic) (*tpm2.TPMTPublic, error) {
	public, err := tpm2.Unmarshal[tpm2.TPMTPublic](data)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be read", ErrForm)
	}
	// Marshal panics at a number of another type than that of the key.
	if public.Type != template.Type {
		return nil, fmt.Errorf("%w: it is a key of another type", ErrForm)
	}
	template.Unique = public.Unique
	if !bytes.Equal(tpm2.Marshal(template), data) {
		return nil, fmt.Errorf("%w: it is a key with other attributes", ErrForm)
	}
	return public, nil
}
