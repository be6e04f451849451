package recipe

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // OpenSSL's subject hash is SHA-1 by definition; it names files and protects nothing.
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"

	"spore/builder/tree"
)

const (
	certSource = "/usr/share/ca-certificates"
	certDir    = "/etc/ssl/certs"
	certBundle = certDir + "/ca-certificates.crt"
)

// writeCABundle replays update-ca-certificates(8): a link NAME.pem for each certificate of the package, one bundle of all
// in the order of their names with a line feed between, and OpenSSL's hash links.
func writeCABundle(b *build) error {
	if b.present["ca-certificates"] == nil {
		return nil
	}
	certs, err := b.certificates(certSource)
	if err != nil {
		return err
	}
	if len(certs) == 0 {
		return fmt.Errorf("package ca-certificates has no certificates below %s", certSource)
	}
	var bundle, conf bytes.Buffer
	links := map[string]string{}
	for _, c := range certs {
		data, err := b.tree.ReadFile(c)
		if err != nil {
			return err
		}
		bundle.Write(data)
		if !bytes.HasSuffix(data, []byte("\n")) {
			bundle.WriteByte('\n')
		}
		fmt.Fprintln(&conf, strings.TrimPrefix(c, certSource+"/"))
		name := pemName(c)
		if err := b.link(c, path.Join(certDir, name), "trusted certificate"); err != nil {
			return err
		}
		hash, err := subjectHash(data)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		if err := b.hashLink(hash, name, links); err != nil {
			return err
		}
	}
	if err := b.file("/etc/ca-certificates.conf", conf.Bytes(), 0o644, "certificates of the bundle"); err != nil {
		return err
	}
	return b.file(certBundle, bundle.Bytes(), 0o644, "bundle of all trusted certificates")
}

// hashLink makes HASH.N, N counting certificates of the same subject, as openssl-rehash(1) does.
func (b *build) hashLink(hash, name string, links map[string]string) error {
	for n := 0; ; n++ {
		link := fmt.Sprintf("%s.%d", hash, n)
		if links[link] == "" {
			links[link] = name
			return b.link(name, path.Join(certDir, link), "OpenSSL's subject hash")
		}
	}
}

// certificates lists the .crt files below a directory, sorted by their whole path.
func (b *build) certificates(dir string) ([]string, error) {
	var out []string
	err := b.walkBelow(dir, func(p string, n *tree.Inode) {
		if n.Type == tree.Regular && strings.HasSuffix(p, ".crt") {
			out = append(out, p)
		}
	})
	slices.Sort(out)
	return out, err
}

func pemName(crt string) string {
	name := strings.TrimSuffix(path.Base(crt), ".crt")
	return strings.NewReplacer(" ", "_", "(", "=", ")", "=", ",", "_").Replace(name) + ".pem"
}

// subjectHash is OpenSSL's X509_NAME_hash_ex: the first four bytes of the SHA-1 of the subject in canonical form, least
// significant first, in hexadecimal.
func subjectHash(data []byte) (string, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return "", errors.New("not a certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("parse the certificate: %w", err)
	}
	name, err := canonicalName(cert.RawSubject)
	if err != nil {
		return "", fmt.Errorf("subject: %w", err)
	}
	h := sha1.Sum(name) //nolint:gosec // see the import
	return fmt.Sprintf("%02x%02x%02x%02x", h[3], h[2], h[1], h[0]), nil
}

type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// canonicalName encodes a Name as OpenSSL's x509_name_canon does: every string as UTF8String in lower case (ASCII only),
// without white space at its ends and with single spaces inside; the sets one after the other without the outer SEQUENCE.
func canonicalName(raw []byte) ([]byte, error) {
	var outer asn1.RawValue
	if rest, err := asn1.Unmarshal(raw, &outer); err != nil || len(rest) > 0 {
		return nil, errors.New("not a DER sequence")
	}
	var out []byte
	for rest := outer.Bytes; len(rest) > 0; {
		var set asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &set); err != nil {
			return nil, err
		}
		var members [][]byte
		for inner := set.Bytes; len(inner) > 0; {
			var a attribute
			if inner, err = asn1.Unmarshal(inner, &a); err != nil {
				return nil, err
			}
			der, err := canonicalAttribute(a)
			if err != nil {
				return nil, err
			}
			members = append(members, der)
		}
		// DER orders the members of a SET OF by their encoding (X.690 11.6).
		sort.Slice(members, func(i, j int) bool { return bytes.Compare(members[i], members[j]) < 0 })
		der, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSet, IsCompound: true, Bytes: bytes.Join(members, nil)})
		if err != nil {
			return nil, err
		}
		out = append(out, der...)
	}
	return out, nil
}

func canonicalAttribute(a attribute) ([]byte, error) {
	text, ok, err := asn1Text(a.Value)
	if err != nil {
		return nil, err
	}
	if ok {
		a.Value = asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagUTF8String, Bytes: []byte(canonicalText(text))}
	}
	return asn1.Marshal(a)
}

// ASN.1 string types that the asn1 package has no constant for.
const tagUniversalString = 28

// asn1Text returns the text of the string types that OpenSSL makes canonical (ASN1_MASK_CANON).
func asn1Text(v asn1.RawValue) (text string, ok bool, err error) {
	if v.Class != asn1.ClassUniversal {
		return "", false, nil
	}
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, 26: // VisibleString
		return string(v.Bytes), true, nil
	case asn1.TagT61String: // OpenSSL takes it for Latin-1
		r := make([]rune, len(v.Bytes))
		for i, c := range v.Bytes {
			r[i] = rune(c)
		}
		return string(r), true, nil
	case asn1.TagBMPString:
		if len(v.Bytes)%2 != 0 {
			return "", false, errors.New("a BMPString of odd length")
		}
		u := make([]uint16, len(v.Bytes)/2)
		for i := range u {
			u[i] = uint16(v.Bytes[2*i])<<8 | uint16(v.Bytes[2*i+1])
		}
		return string(utf16.Decode(u)), true, nil
	case tagUniversalString:
		if len(v.Bytes)%4 != 0 {
			return "", false, errors.New("a UniversalString whose length is not a multiple of four")
		}
		r := make([]rune, len(v.Bytes)/4)
		for i := range r {
			c := v.Bytes[4*i : 4*i+4]
			r[i] = rune(c[0])<<24 | rune(c[1])<<16 | rune(c[2])<<8 | rune(c[3])
		}
		return string(r), true, nil
	}
	return "", false, nil
}

// canonicalText lowers ASCII letters, trims ASCII white space and leaves one space of each run.
func canonicalText(s string) string {
	isSpace := func(c byte) bool { return c == ' ' || (c >= '\t' && c <= '\r') }
	var out []byte
	space := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if isSpace(c) {
			space = true
			continue
		}
		if space && len(out) > 0 {
			out = append(out, ' ')
		}
		space = false
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}
