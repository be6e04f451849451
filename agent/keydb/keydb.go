// Package keydb says what the firmware of this machine starts under Secure Boot: what its lists db and dbx name (UEFI
// 2.10, sections 32.4 and 32.5.3.3). A program starts when db has its hash, or a certificate that signed it or that its
// signer's leads to, and dbx has none of these.
//
// It leaves out time stamps, which no signature of Spore has, and other algorithms than RSA and SHA-256. What it cannot
// judge it refuses: firmware would start a little more.
package keydb

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"spore/pki/authenticode"
	"spore/pki/siglist"
	"spore/storage/atomicfile"
)

// suffix is EFI_IMAGE_SECURITY_DATABASE_GUID, as efivarfs names variables.
const suffix = "-d719b2cb-3d3a-4596-a3bc-dad00e67656f"

// attributes are the bytes that efivarfs puts before the content of a variable.
const attributes = 4

// longestChain bounds the certificates between a signer and one that db has.
const longestChain = 8

// Lists are those of a firmware. Without anything in db nobody knows what it lets start, and dbx alone counts.
type Lists struct {
	// Allowed is db, Forbidden dbx.
	Allowed, Forbidden siglist.Database
	// Unread says why db could not be read, and has nothing in Allowed; nil where it could.
	Unread error
}

// Read reads the firmware's lists; vars is the directory of efivarfs. One that is not there has nothing. A db that
// cannot be read is no error: its firmware has started this machine, which would take nothing any more.
func Read(vars string) (Lists, error) {
	var l Lists
	for _, v := range []struct {
		name string
		into *siglist.Database
	}{{"db", &l.Allowed}, {"dbx", &l.Forbidden}} {
		data, err := atomicfile.ReadLimited(filepath.Join(vars, v.name+suffix), siglist.MaxSize)
		// efivarfs keeps a file without content where the firmware refused to make the variable.
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
			continue
		}
		if err == nil && len(data) < attributes {
			err = fmt.Errorf("it has %d bytes", len(data))
		}
		if err == nil {
			*v.into, err = siglist.ReadDatabase(data[attributes:])
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("read the firmware's %s: %w", v.name, err)
		if v.into != &l.Allowed {
			return Lists{}, err
		}
		l.Unread = err
	}
	return l, nil
}

// Errors of Check.
var (
	ErrNotSigned = errors.New("it is not signed")
	ErrRevoked   = errors.New("the firmware has it among those that it does not start (dbx): it was revoked")
)

// UnknownError is a signature by a certificate that the firmware does not have.
type UnknownError struct {
	Certificate *x509.Certificate
}

func (e UnknownError) Error() string {
	return fmt.Sprintf("it is signed by %s, and this machine's firmware has neither that certificate nor one of its "+
		"issuers in its db", Name(e.Certificate))
}

// RevokedError is a signature by a certificate that the firmware forbids.
type RevokedError struct {
	Certificate *x509.Certificate
}

func (e RevokedError) Error() string {
	return fmt.Sprintf("it is signed by or through %s, which this machine's firmware forbids (dbx)", Name(e.Certificate))
}

// Name names a certificate for people.
func Name(c *x509.Certificate) string {
	return fmt.Sprintf("%.120q (SHA-256 %.16s…)", c.Subject, authenticode.Fingerprint(c))
}

// Check returns an error unless the firmware would start a program of size bytes. It returns who signed it; nobody
// where db has its hash.
func (l Lists) Check(program io.ReaderAt, size int64) ([]*x509.Certificate, error) {
	hash, list, err := authenticode.Examine(program, size)
	if err != nil {
		return nil, err
	}
	if slices.Contains(l.Forbidden.Programs, hash) {
		return nil, ErrRevoked
	}
	var signers []*x509.Certificate
	known := l.Allowed.Empty() || slices.Contains(l.Allowed.Programs, hash)
	for _, s := range list {
		if s.Problem != "" {
			return nil, fmt.Errorf("its signature does not hold: %s", s.Problem)
		}
		way := l.way(s.Certificates())
		// Firmware refuses it for one forbidden signature among others (EDK II, DxeImageVerificationHandler).
		if i := slices.IndexFunc(way, l.Forbidden.Has); i >= 0 {
			return nil, RevokedError{way[i]}
		}
		known = known || slices.ContainsFunc(way, l.Allowed.Has)
		signers = append(signers, way[0])
	}
	switch {
	case len(signers) == 0 && !slices.Contains(l.Allowed.Programs, hash):
		return nil, ErrNotSigned
	case !known:
		return nil, UnknownError{signers[0]}
	}
	return signers, nil
}

// way is the signer's certificate, which is the first one given, and all that it leads to: by what the signature
// brings, and by what the firmware has.
func (l Lists) way(brought []*x509.Certificate) []*x509.Certificate {
	issuers := slices.Clone(brought[1:])
	for _, list := range [][][]byte{l.Allowed.Certificates, l.Forbidden.Certificates} {
		for _, der := range list {
			// One that cannot be read issued nothing that could be read.
			if c, err := x509.ParseCertificate(der); err == nil {
				issuers = append(issuers, c)
			}
		}
	}
	way := brought[:1:1]
	for done := 0; done < len(way) && len(way) < longestChain; done++ {
		for _, c := range issuers {
			if !slices.ContainsFunc(way, c.Equal) && way[done].CheckSignatureFrom(c) == nil {
				way = append(way, c)
			}
		}
	}
	return way
}
