package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// IssuedFile lists the certificates that people were given by `spore access`. It holds no secret: it is for whoever has
// to withdraw one. The certificates that commands make for themselves are not in it; their keys are never on a disk.
const IssuedFile = "access.json"

// maxIssuedFile bounds the file in bytes. When it lists more than maxIssued certificates, those that have ended go.
const (
	maxIssuedFile = 4 << 20
	maxIssued     = 4096
)

// Issued is a certificate that a person was given.
type Issued struct {
	// Serial is its serial number (nodeapi.Serial).
	Serial string `json:"serial"`
	// User and Role are whose it is, and what for; Nodes are those that it is limited to, all with none.
	User  string   `json:"user"`
	Role  string   `json:"role"`
	Nodes []string `json:"nodes,omitempty"`
	// Made and Ends are its dates.
	Made time.Time `json:"made"`
	Ends time.Time `json:"ends"`
}

// ReadIssued reads the list, the oldest first; it needs no key. Without the file it is empty.
func ReadIssued(dir string) ([]Issued, error) {
	name := filepath.Join(dir, IssuedFile)
	data, err := readBounded(name, maxIssuedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Issued
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return list, nil
}

// AddIssued adds a certificate to the list, and takes those off that have ended when there are many.
func (v *Vault) AddIssued(made Issued) error {
	list, err := ReadIssued(v.Dir)
	if err != nil {
		return err
	}
	list = append(list, made)
	if len(list) > maxIssued {
		kept := list[:0]
		for _, i := range list {
			if i.Ends.After(made.Made) {
				kept = append(kept, i)
			}
		}
		list = kept
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("internal error: encode the list of certificates: %w", err)
	}
	if len(data) >= maxIssuedFile {
		return fmt.Errorf("%s lists too many certificates that have not ended; choose shorter lifetimes, and move it "+
			"away", filepath.Join(v.Dir, IssuedFile))
	}
	return WriteFile(filepath.Join(v.Dir, IssuedFile), append(data, '\n'))
}
