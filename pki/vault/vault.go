// Package vault keeps a pki.Tree in the operator's folder:
//
//	pki.yaml      how the folder is kept, and where the user's own root is; for people to read and edit
//	tree.age      the tree, encrypted with age; tree.json instead in a plain folder
//	public.json   the public half, readable without any key: `spore build` lays it into images
//	access.json   which certificates people were given, readable without any key
//	.lock         held by whoever works with the folder
//
// Each file is written whole or not at all, is on the disk before the next one is, and belongs to its owner alone.
package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"spore/pki"
	"spore/pki/seal"
	"spore/storage/atomicfile"
)

// Names in the folder.
const (
	SettingsFile = "pki.yaml"
	SealedFile   = "tree.age"
	PlainFile    = "tree.json"
	PublicFile   = "public.json"
	lockFile     = ".lock"
)

// Bounds. 10,000 nodes with five certificates each need 60 MiB.
const (
	maxTree   = 1 << 30
	maxPublic = 4 << 20
)

// ErrNone is a folder that holds no tree.
var ErrNone = errors.New("no keys are there")

// Keys opens the folder. Each function is asked only when its way is the folder's.
type Keys struct {
	// Passphrase returns the passphrase; isNew when one is to be chosen.
	Passphrase func(isNew bool) (string, error)
	// Identities returns the text of an age identity file.
	Identities func() ([]byte, error)
	// WorkFactor is seal.WorkFactor when 0.
	WorkFactor int
}

// Vault is an open folder. Nobody else has it open until Close.
type Vault struct {
	// Dir is the folder.
	Dir string
	// Settings is pki.yaml; Save does not write it, SaveSettings does.
	Settings Settings
	// Tree is what it holds. Changes are kept by Save.
	Tree *pki.Tree

	keys       Keys
	passphrase string
	lock       *os.File
	// fresh tells that Create made the folder.
	fresh bool
}

// Create makes a folder for a new tree and holds it open. Nothing is written but the folder until Save.
func Create(dir string, s Settings, tree *pki.Tree, keys Keys) (*Vault, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	_, missing := os.Lstat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the operator's folder: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the operator's folder: %w", err)
	}
	v := &Vault{Dir: dir, Settings: s, Tree: tree, keys: keys, fresh: errors.Is(missing, fs.ErrNotExist)}
	if err := v.acquire(); err != nil {
		return nil, err
	}
	if err := v.begin(); err != nil {
		v.Discard()
		v.Close()
		return nil, err
	}
	return v, nil
}

// begin refuses a folder that is in use and asks for what Save will need.
func (v *Vault) begin() error {
	for _, name := range []string{SealedFile, PlainFile, SettingsFile, PublicFile} {
		if _, err := os.Lstat(filepath.Join(v.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists already; keys are never overwritten: use `spore pki renew`, or name another folder with --dir", filepath.Join(v.Dir, name))
		}
	}
	if v.Settings.Keep != KeepPassphrase {
		return nil
	}
	p, err := v.keys.Passphrase(true)
	if err != nil {
		return err
	}
	v.passphrase = p
	return seal.CheckPassphrase(p)
}

// Open opens a folder and reads its tree.
func Open(dir string, keys Keys) (*Vault, error) {
	settings, err := readSettings(filepath.Join(dir, SettingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s; make the keys with `spore pki init`, or name the folder with --dir", ErrNone, dir, SettingsFile)
	}
	if err != nil {
		return nil, err
	}
	v := &Vault{Dir: dir, Settings: settings, keys: keys}
	if err := v.acquire(); err != nil {
		return nil, err
	}
	if err := v.read(); err != nil {
		v.Close()
		return nil, fmt.Errorf("open %s: %w", v.treePath(), err)
	}
	return v, nil
}

func (v *Vault) treePath() string {
	if v.Settings.Keep == KeepPlain {
		return filepath.Join(v.Dir, PlainFile)
	}
	return filepath.Join(v.Dir, SealedFile)
}

func (v *Vault) read() error {
	data, err := readBounded(v.treePath(), maxTree)
	if err != nil {
		return err
	}
	switch v.Settings.Keep {
	case KeepPassphrase:
		if v.passphrase, err = v.keys.Passphrase(false); err != nil {
			return err
		}
		data, err = seal.OpenPassphrase(data, v.passphrase, maxTree)
	case KeepRecipients:
		var identities []byte
		if identities, err = v.keys.Identities(); err != nil {
			return err
		}
		data, err = seal.OpenIdentities(data, identities, maxTree)
	}
	if err != nil {
		return err
	}
	v.Tree, err = decodeTree(data)
	return err
}

// decodeTree reads a tree; its errors quote nothing.
func decodeTree(data []byte) (*pki.Tree, error) {
	var head struct{ Version int }
	if json.Unmarshal(data, &head) != nil {
		return nil, errors.New("it contains no tree of keys")
	}
	if head.Version != pki.TreeVersion {
		return nil, fmt.Errorf("it has version %d, and this program reads %d; use the program that wrote it, or a newer one", head.Version, pki.TreeVersion)
	}
	t := &pki.Tree{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if d.Decode(t) != nil || !t.Whole() {
		return nil, errors.New("it contains no valid tree of keys")
	}
	return t, nil
}

// Save writes the tree and then its public half.
func (v *Vault) Save() error {
	data, err := json.Marshal(v.Tree)
	if err != nil {
		return fmt.Errorf("internal error: encode the tree: %w", err)
	}
	switch v.Settings.Keep {
	case KeepPassphrase:
		data, err = seal.WithPassphrase(data, v.passphrase, v.keys.WorkFactor)
	case KeepRecipients:
		data, err = seal.ForRecipients(data, v.Settings.Recipients)
	}
	if err != nil {
		return err
	}
	// The settings say how the tree is to be read, so they are there before it is.
	if _, err := os.Lstat(filepath.Join(v.Dir, SettingsFile)); errors.Is(err, fs.ErrNotExist) {
		if err := v.SaveSettings(); err != nil {
			return err
		}
	}
	if err := WriteFile(v.treePath(), data); err != nil {
		return err
	}
	return v.savePublic()
}

// SaveSettings writes pki.yaml.
func (v *Vault) SaveSettings() error {
	data, err := v.Settings.encode()
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(v.Dir, SettingsFile), data)
}

func (v *Vault) savePublic() error {
	data, err := encodePublic(v.Tree.Public())
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(v.Dir, PublicFile), data)
}

// MendPublic writes the public half again when it is not the tree's, as after a cut between the two writes. It tells
// whether it was.
func (v *Vault) MendPublic() (bool, error) {
	want, err := encodePublic(v.Tree.Public())
	if err != nil {
		return false, err
	}
	have, err := readBounded(filepath.Join(v.Dir, PublicFile), maxPublic)
	if err == nil && bytes.Equal(have, want) {
		return false, nil
	}
	return true, v.savePublic()
}

func encodePublic(p pki.Public) ([]byte, error) {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("internal error: encode the public half: %w", err)
	}
	return append(data, '\n'), nil
}

// ReadPublic reads the public half of the tree in a folder, without any key. ErrNone when there is no folder.
func ReadPublic(dir string) (pki.Public, error) {
	var p pki.Public
	name := filepath.Join(dir, PublicFile)
	data, err := readBounded(name, maxPublic)
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("%w: %s does not exist", ErrNone, name)
	}
	if err != nil {
		return p, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("read %s: %w", name, err)
	}
	if p.Version != pki.TreeVersion {
		return p, fmt.Errorf("read %s: it has version %d, and this program knows %d", name, p.Version, pki.TreeVersion)
	}
	return p, nil
}

// inUseBound is how long a folder is waited for that another spore has open.
const inUseBound = 2 * time.Second

// Close lets others open the folder.
func (v *Vault) Close() error { return v.lock.Close() }

func (v *Vault) acquire() error {
	f, err := os.OpenFile(filepath.Join(v.Dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock the operator's folder: %w", err)
	}
	// Most commands have it open for a moment, to make a certificate.
	for end := time.Now().Add(inUseBound); unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			f.Close()
			return fmt.Errorf("%s is in use by another spore; try again when it is done", v.Dir)
		}
	}
	v.lock = f
	return nil
}

func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", name, limit)
	}
	return data, nil
}

// WriteFile writes a file for its owner alone: whole or not at all, and on the disk when it returns.
func WriteFile(name string, data []byte) error {
	return atomicfile.Replace(name, data, 0o600, atomicfile.Durable)
}

// Discard removes the folder when Create made it and nothing but our own files is in it.
func (v *Vault) Discard() {
	if !v.fresh {
		return
	}
	for _, name := range []string{IssuedFile, PublicFile, SealedFile, PlainFile, SettingsFile, lockFile} {
		_ = os.Remove(filepath.Join(v.Dir, name))
	}
	_ = os.Remove(v.Dir)
}
