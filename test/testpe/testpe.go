// Package testpe makes small programs for UEFI, and signs them as `spore` signs its own. For tests only.
package testpe

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"math/big"
	"sync"
	"time"

	"spore/builder/secureboot"
)

// Section is a section of a program.
type Section struct {
	Name string
	Data []byte
}

// Places in the header (Microsoft's PE Format), in bytes.
const (
	headerSize = 1024
	signature  = 0x40
	optional   = signature + 24
	rows       = optional + 240
	rowSize    = 40
	alignment  = 512
)

// Program is a PE32+ file for x86-64 with these sections, one behind the other.
func Program(sections ...Section) []byte {
	le := binary.LittleEndian
	b := make([]byte, headerSize)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], signature)
	copy(b[signature:], "PE\x00\x00")
	le.PutUint16(b[signature+4:], 0x8664)
	le.PutUint16(b[signature+6:], uint16(len(sections)))
	le.PutUint16(b[signature+20:], 240)
	le.PutUint16(b[optional:], 0x20b)
	le.PutUint32(b[optional+60:], headerSize)
	le.PutUint32(b[optional+108:], 16)
	for i, s := range sections {
		size := (len(s.Data) + alignment - 1) / alignment * alignment
		row := b[rows+i*rowSize:]
		copy(row[:8], s.Name)
		le.PutUint32(row[8:], uint32(len(s.Data)))
		le.PutUint32(row[12:], uint32(0x1000*(i+1)))
		le.PutUint32(row[16:], uint32(size))
		le.PutUint32(row[20:], uint32(len(b)))
		b = append(append(b, s.Data...), make([]byte, size-len(s.Data))...)
	}
	return b
}

// keys are those of names.
var keys sync.Map

// Signer is a signer whose certificate has a name; it is the same one for the same name.
func Signer(name string) *secureboot.Signer {
	made, _ := keys.LoadOrStore(name, sync.OnceValue(func() *secureboot.Signer {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Unix(1<<32, 0),
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			panic(err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			panic(err)
		}
		return &secureboot.Signer{Key: key, Certificate: certificate}
	}))
	return made.(func() *secureboot.Signer)()
}

// Issued is the certificate of an authority with a name, and a signer whose certificate that has issued. Each call
// makes others.
func Issued(authority, name string) (*x509.Certificate, *secureboot.Signer) {
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: authority}, NotAfter: time.Unix(1<<32, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Unix(1<<32, 0),
	}
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	made := func(template, parent *x509.Certificate, key *rsa.PrivateKey) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), keys[0])
		if err != nil {
			panic(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			panic(err)
		}
		return c
	}
	issuer := made(root, root, keys[0])
	return issuer, &secureboot.Signer{Key: keys[1], Certificate: made(leaf, issuer, keys[1])}
}

// Sign signs a program in a name.
func Sign(program []byte, name string) []byte {
	out, err := Signer(name).SignPE(program)
	if err != nil {
		panic(fmt.Sprintf("sign a program for a test: %v", err))
	}
	return out
}
