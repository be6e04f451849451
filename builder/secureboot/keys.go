package secureboot

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/google/uuid"

	"spore/pki/siglist"
)

// validYears is how long the certificates say that they are valid. Firmware does not look at it, and nothing renews them
// in a machine by itself.
const validYears = 20

// Options say what keys to make.
type Options struct {
	// Name is in the certificates: that of the cluster or the company.
	Name string
	// Bits is the size of the keys, 2048 when 0.
	Bits int
	// Now is the time of the keys; variables that are written later need a later one.
	Now time.Time
	// KEK and DB are further certificates that go into the variables of these names, such as Microsoft's. One without an
	// owner has ours.
	KEK, DB []siglist.Entry
}

// Keys are the three keys of Secure Boot and what firmware is told of them (UEFI 2.10, section 32.3).
type Keys struct {
	// PK owns the machine: it signs changes of itself and of KEK. KEK signs changes of db. DB signs programs.
	PK, KEK, DB *Signer
	// Variables are what goes into the firmware.
	Variables []Variable
}

// Generate makes keys with self-signed certificates, and the variables.
func Generate(random io.Reader, o Options) (*Keys, error) {
	if o.Bits == 0 {
		o.Bits = 2048
	}
	var k Keys
	for _, v := range []struct {
		title string
		into  **Signer
	}{{"Platform Key", &k.PK}, {"Key Exchange Key", &k.KEK}, {"Signature Database Key", &k.DB}} {
		s, err := newSigner(random, o, v.title)
		if err != nil {
			return nil, fmt.Errorf("make the %s: %w", v.title, err)
		}
		*v.into = s
	}
	owner, err := uuid.NewRandomFromReader(random)
	if err != nil {
		return nil, fmt.Errorf("make the owner's GUID: %w", err)
	}
	k.Variables, err = k.variables(owner, o)
	return &k, err
}

func newSigner(random io.Reader, o Options, title string) (*Signer, error) {
	key, err := rsa.GenerateKey(random, o.Bits)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(random, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: o.Name + " Secure Boot " + title},
		SerialNumber: serial,
		NotBefore:    o.Now.UTC().Truncate(time.Second), NotAfter: o.Now.UTC().Truncate(time.Second).AddDate(validYears, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(random, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Signer{key, c}, nil
}

// variables are those of a machine of ours. Each is signed by the key that may write it; while the machine has no PK, in
// setup mode, the firmware takes it whoever signed.
func (k *Keys) variables(owner uuid.UUID, o Options) ([]Variable, error) {
	of := func(s *Signer) siglist.Entry { return siglist.Entry{Owner: owner, Certificate: s.Certificate} }
	var out []Variable
	for _, v := range []struct {
		name, file string
		vendor     uuid.UUID
		by         *Signer
		entries    []siglist.Entry
	}{
		{"PK", "PK", globalVariable, k.PK, []siglist.Entry{of(k.PK)}},
		{"KEK", "KEK", globalVariable, k.PK, append([]siglist.Entry{of(k.KEK)}, o.KEK...)},
		{"db", "db", imageSecurityDatabase, k.KEK, append([]siglist.Entry{of(k.DB)}, o.DB...)},
		{"PK", "noPK", globalVariable, k.PK, nil},
	} {
		for i := range v.entries {
			if v.entries[i].Owner == uuid.Nil {
				v.entries[i].Owner = owner
			}
		}
		list := siglist.EncodeCertificates(v.entries)
		when := o.Now
		if len(list) == 0 {
			// A write has to be later than the one before (8.2.2), which is that of the same variable.
			when = when.Add(time.Second)
		}
		auth, err := v.by.authenticate(v.name, v.vendor, list, when)
		if err != nil {
			return nil, fmt.Errorf("sign the variable %s: %w", v.name, err)
		}
		out = append(out, Variable{Name: v.name, File: v.file, List: list, Auth: auth})
	}
	return out, nil
}

// KeyPEM is the private key: PKCS #8.
func (s *Signer) KeyPEM() ([]byte, error) { return EncodeKey(s.Key) }

// EncodeKey writes a key as PKCS #8 in PEM.
func EncodeKey(key *rsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// CertificatePEM is the certificate.
func (s *Signer) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate.Raw})
}
