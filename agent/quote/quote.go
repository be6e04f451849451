// Package quote is the machine's half of package attest: it has the machine's TPM 2.0 name its keys, quote what was
// started, and open what is encrypted to it.
//
// Keys are primary objects, which the TPM makes from its seeds, always the same. They are made for each use and
// flushed, so that nothing is kept in the TPM.
package quote

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"spore/pki/attest"
)

// Device is the TPM behind the kernel's resource manager, which keeps programs apart.
const Device = "/dev/tpmrm0"

// ekCertificate is where a maker puts the certificate of the RSA EK (TCG EK Credential Profile 2.5, section 2.2.1.4).
const ekCertificate = 0x01c00002

// Bounds of what is read of the certificate, in bytes: in all, and at once, for TPMs of small buffers.
const (
	maxCertificate = 4096
	readAtOnce     = 512
)

// Open opens the machine's TPM; the error is fs.ErrNotExist when there is none.
func Open(root string) (transport.TPMCloser, error) {
	f, err := os.OpenFile(filepath.Join(root, Device), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return transport.FromReadWriteCloser(f), nil
}

// object is a key that the TPM has at hand.
type object struct {
	t      transport.TPM
	handle tpm2.NamedHandle
	public []byte
}

func (o *object) flush() { _, _ = tpm2.FlushContext{FlushHandle: o.handle.Handle}.Execute(o.t) }

func primary(t transport.TPM, hierarchy tpm2.TPMHandle, template tpm2.TPMTPublic) (*object, error) {
	made, err := tpm2.CreatePrimary{PrimaryHandle: hierarchy, InPublic: tpm2.New2B(template)}.Execute(t)
	if err != nil {
		return nil, err
	}
	return &object{t, tpm2.NamedHandle{Handle: made.ObjectHandle, Name: made.Name}, made.OutPublic.Bytes()}, nil
}

func ek(t transport.TPM) (*object, error) {
	o, err := primary(t, tpm2.TPMRHEndorsement, attest.EKTemplate())
	if err != nil {
		return nil, fmt.Errorf("have the TPM make its endorsement key: %w", err)
	}
	return o, nil
}

func ak(t transport.TPM) (*object, error) {
	o, err := primary(t, tpm2.TPMRHOwner, attest.AKTemplate())
	if err != nil {
		return nil, fmt.Errorf("have the TPM make the key that signs quotes: %w", err)
	}
	return o, nil
}

// Keys names the TPM's keys.
func Keys(t transport.TPM) (attest.Keys, error) {
	e, err := ek(t)
	if err != nil {
		return attest.Keys{}, err
	}
	e.flush()
	a, err := ak(t)
	if err != nil {
		return attest.Keys{}, err
	}
	a.flush()
	// Virtual machines and some makers have none.
	certificate, err := readCertificate(t)
	if err != nil {
		certificate = nil
	}
	k := attest.Keys{EK: e.public, AK: a.public, Certificate: certificate}
	return k, k.Check()
}

func readCertificate(t transport.TPM) ([]byte, error) {
	public, err := tpm2.NVReadPublic{NVIndex: tpm2.TPMHandle(ekCertificate)}.Execute(t)
	if err != nil {
		return nil, err
	}
	info, err := public.NVPublic.Contents()
	if err != nil {
		return nil, err
	}
	if info.DataSize > maxCertificate {
		return nil, fmt.Errorf("it has %d bytes", info.DataSize)
	}
	var out []byte
	for len(out) < int(info.DataSize) {
		part, err := tpm2.NVRead{
			AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
			NVIndex:    tpm2.NamedHandle{Handle: tpm2.TPMHandle(ekCertificate), Name: public.NVName},
			Size:       uint16(min(readAtOnce, int(info.DataSize)-len(out))), Offset: uint16(len(out)),
		}.Execute(t)
		if err != nil {
			return nil, err
		}
		if len(part.Data.Buffer) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		out = append(out, part.Data.Buffer...)
	}
	return derOnly(out)
}

// derOnly takes off what fills the rest of the TPM's storage behind a certificate.
func derOnly(b []byte) ([]byte, error) {
	// SEQUENCE with a length of two bytes (X.690, section 8.1.3): a certificate is never as short as to have another one.
	if len(b) < 4 || b[0] != 0x30 || b[1] != 0x82 {
		return nil, errors.New("it is not a certificate")
	}
	n := 4 + int(b[2])<<8 + int(b[3])
	if n > len(b) {
		return nil, io.ErrUnexpectedEOF
	}
	return b[:n], nil
}

// Quote answers a nonce: what was started, by the registers, for a subject. log is the firmware's log of what it
// measured, and cmdline the kernel's command line.
func Quote(t transport.TPM, nonce []byte, subject string, log io.Reader, cmdline string) (*attest.Evidence, error) {
	started, err := Started(log)
	if err != nil {
		return nil, err
	}
	a, err := ak(t)
	if err != nil {
		return nil, err
	}
	defer a.flush()
	// Nothing measures while the machine runs, but for the agent itself; the values and the quote are of one moment.
	read, err := tpm2.PCRRead{PCRSelectionIn: attest.Selection()}.Execute(t)
	if err != nil {
		return nil, fmt.Errorf("read the TPM's registers: %w", err)
	}
	quoted, err := tpm2.Quote{
		SignHandle:     tpm2.AuthHandle{Handle: a.handle.Handle, Name: a.handle.Name, Auth: tpm2.PasswordAuth(nil)},
		QualifyingData: tpm2.TPM2BData{Buffer: attest.Qualify(nonce, subject)},
		InScheme:       tpm2.TPMTSigScheme{Scheme: tpm2.TPMAlgNull}, PCRSelect: attest.Selection(),
	}.Execute(t)
	if err != nil {
		return nil, fmt.Errorf("have the TPM quote its registers: %w", err)
	}
	e := &attest.Evidence{
		Nonce: nonce, Quote: quoted.Quoted.Bytes(), Signature: tpm2.Marshal(quoted.Signature), Started: started, Cmdline: cmdline,
	}
	for _, d := range read.PCRValues.Digests {
		e.Registers = append(e.Registers, d.Buffer)
	}
	return e, e.Check()
}

// Activate opens a credential that was made for this TPM's EK and the AK beside it.
func Activate(t transport.TPM, credential, secret []byte) ([]byte, error) {
	e, err := ek(t)
	if err != nil {
		return nil, err
	}
	defer e.flush()
	a, err := ak(t)
	if err != nil {
		return nil, err
	}
	defer a.flush()
	// The template's policy is that of the endorsement hierarchy, whose password is empty.
	policy := func(t transport.TPM, handle tpm2.TPMISHPolicy, nonce tpm2.TPM2BNonce) error {
		_, err := tpm2.PolicySecret{AuthHandle: tpm2.TPMRHEndorsement, PolicySession: handle, NonceTPM: nonce}.Execute(t)
		return err
	}
	out, err := tpm2.ActivateCredential{
		ActivateHandle: tpm2.AuthHandle{Handle: a.handle.Handle, Name: a.handle.Name, Auth: tpm2.PasswordAuth(nil)},
		KeyHandle:      tpm2.AuthHandle{Handle: e.handle.Handle, Name: e.handle.Name, Auth: tpm2.Policy(tpm2.TPMAlgSHA256, 16, policy)},
		CredentialBlob: tpm2.TPM2BIDObject{Buffer: credential}, Secret: tpm2.TPM2BEncryptedSecret{Buffer: secret},
	}.Execute(t)
	if err != nil {
		return nil, err
	}
	return out.CertInfo.Buffer, nil
}
