package siglist

import (
	"crypto"
	_ "crypto/sha256" // so that crypto.SHA256.New works
	_ "crypto/sha512"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"spore/pki/authenticode"
)

// revokedKinds are the kinds of entries that name a certificate by the hash of its signed part:
// EFI_CERT_X509_SHA256_GUID, _SHA384_ and _SHA512_ (UEFI 2.10, section 32.4.1). A time follows the hash: what was
// signed before it holds, where a time stamp proves it. No signature that is read here has one.
var revokedKinds = map[uuid.UUID]crypto.Hash{
	uuid.MustParse("3bd2a492-96c0-4079-b420-fcf98ef103ed"): crypto.SHA256,
	uuid.MustParse("7076876e-80c2-4ee6-aad2-28b349a6865b"): crypto.SHA384,
	uuid.MustParse("446dbf63-2502-4cda-bcfa-2465d2b0fe9d"): crypto.SHA512,
}

// Database is what one of the firmware's lists names: what db lets start, or what dbx forbids.
type Database struct {
	// Certificates are in DER, as the firmware has them; one that nobody can read is among them.
	Certificates [][]byte
	// Programs are hashes of programs.
	Programs []authenticode.Hash

	signed []signedPart
}

// signedPart is the hash of what an issuer has signed of a certificate.
type signedPart struct {
	hash crypto.Hash
	sum  string
}

// ReadDatabase reads the content of db or dbx. Kinds of entries that say nothing about a signature with RSA and SHA-256
// are passed over.
func ReadDatabase(data []byte) (Database, error) {
	lists, err := parse(data)
	if err != nil {
		return Database{}, err
	}
	var d Database
	for _, l := range lists {
		for _, e := range l.entries {
			switch hash := revokedKinds[l.kind]; {
			case l.kind == certX509:
				d.Certificates = append(d.Certificates, e[ownerSize:])
			case l.kind == certSHA256:
				d.Programs = append(d.Programs, authenticode.Hash(e[ownerSize:]))
			case hash != 0 && len(e) != ownerSize+hash.Size()+timeSize:
				return Database{}, fmt.Errorf("read signature lists: an entry with the hash of a certificate has %d bytes", len(e))
			case hash != 0:
				d.signed = append(d.signed, signedPart{hash, string(e[ownerSize : ownerSize+hash.Size()])})
			}
		}
	}
	if len(d.Certificates) > maxEntries {
		return Database{}, fmt.Errorf("read signature lists: there are more than %d certificates", maxEntries)
	}
	return d, nil
}

// Has tells whether a certificate is named: as a whole, or by the hash of its signed part.
func (d Database) Has(c *x509.Certificate) bool {
	if slices.ContainsFunc(d.Certificates, func(der []byte) bool { return string(der) == string(c.Raw) }) {
		return true
	}
	return slices.ContainsFunc(d.signed, func(s signedPart) bool {
		h := s.hash.New()
		h.Write(c.RawTBSCertificate)
		return string(h.Sum(nil)) == s.sum
	})
}

// Empty tells whether nothing is named.
func (d Database) Empty() bool { return len(d.Certificates)+len(d.Programs)+len(d.signed) == 0 }
