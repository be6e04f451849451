package clusterpart

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/pki"
	"spore/storage/atomicfile"
)

// maxAuthority bounds the file of an authority.
const maxAuthority = 1 << 20

// Authorities are those that a node trusts.
type Authorities struct {
	// Revision counts the states of the cluster's public half (pki.Tree).
	Revision uint64
	// Files holds them as files, by name.
	Files map[string]string
	// Certificates holds the certificates of CAs by name, as PEM.
	Certificates map[string]string
	keys         map[string][]string
}

// NewAuthorities takes a public half as a bundle has it: NAME.crt and NAME.pub.
func NewAuthorities(files map[string]string, revision uint64) (Authorities, error) {
	a := Authorities{Revision: revision, Files: files, Certificates: map[string]string{}, keys: map[string][]string{}}
	for name, text := range files {
		if err := a.add(name, []byte(text)); err != nil {
			return a, fmt.Errorf("read the authorities of the bundle: %s: %w; make the bundle again", name, err)
		}
	}
	return a, nil
}

// Authorities reads the public half of the cluster's keys; there is none in an image that was built without.
func (p Part) Authorities() (Authorities, error) {
	a := Authorities{Files: map[string]string{}, Certificates: map[string]string{}, keys: map[string][]string{}}
	dir := filepath.Join(p.Dir, pki.PublicDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("read the authorities of the cluster part: %w", err)
	}
	for _, e := range entries {
		data, err := atomicfile.ReadLimited(filepath.Join(dir, e.Name()), maxAuthority)
		if err != nil {
			return a, fmt.Errorf("read the authorities of the cluster part: %w", err)
		}
		if e.Name() == pki.RevisionFile {
			if a.Revision, err = strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err != nil {
				return a, fmt.Errorf("read the authorities of the cluster part: %s is not a number; build the image again", e.Name())
			}
			continue
		}
		a.Files[e.Name()] = string(data)
		if err := a.add(e.Name(), data); err != nil {
			return a, fmt.Errorf("read the authorities of the cluster part: %s: %w; build the image again", e.Name(), err)
		}
	}
	return a, nil
}

func (a Authorities) add(file string, data []byte) error {
	name, isCA := strings.CutSuffix(file, ".crt")
	if isCA {
		a.Certificates[name] = string(data)
	} else {
		name = strings.TrimSuffix(file, ".pub")
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		key := block.Bytes
		if isCA {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return err
			}
			key = c.RawSubjectPublicKeyInfo
		}
		sum := sha256.Sum256(key)
		a.keys[name] = append(a.keys[name], hex.EncodeToString(sum[:]))
	}
	return nil
}

// Knows tells whether an authority has a key with this id (pki.KeyID).
func (a Authorities) Knows(authority, keyID string) bool {
	return slices.Contains(a.keys[authority], keyID)
}
