package vault

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"spore/pki"
	"spore/pki/seal"
)

// Ways to keep the tree.
const (
	KeepPassphrase = "passphrase" // encrypted, opened by a passphrase
	KeepRecipients = "recipients" // encrypted, opened by the identity of any recipient
	KeepPlain      = "plain"      // readable by whoever can read the file
)

const maxSettings = 1 << 20

// Settings is pki.yaml.
type Settings struct {
	// Keep is passphrase, recipients or plain.
	Keep string `yaml:"keep"`
	// Recipients holds age recipients, for recipients.
	Recipients []string `yaml:"recipients,omitempty"`
	// Root is the user's own root; one is made when it is left out.
	Root *Root `yaml:"root,omitempty"`
}

// Root says where the user's own root is. Paths are relative to the folder.
type Root struct {
	// Certificate is its certificate, a PEM file.
	Certificate string `yaml:"certificate"`
	// Key is its key, a PEM file. It is read only to sign an authority, and never copied; it may be away at other times.
	Key string `yaml:"key,omitempty"`
}

func (s *Settings) check() error {
	switch s.Keep {
	case KeepPassphrase, KeepPlain:
		if len(s.Recipients) > 0 {
			return fmt.Errorf("recipients are for `keep: recipients`, and this is `keep: %s`", s.Keep)
		}
	case KeepRecipients:
		if _, err := seal.ParseRecipients(s.Recipients); err != nil {
			return err
		}
	default:
		return fmt.Errorf("keep is %.40q; write passphrase, recipients or plain", s.Keep)
	}
	if s.Root != nil && s.Root.Certificate == "" {
		return errors.New("root has no certificate; write the path of its PEM file")
	}
	return nil
}

const settingsHeader = `# How this folder is kept. The keys are in tree.age (tree.json in a plain folder); change them with ` + "`spore pki`" + ` only.
# keep: passphrase, recipients (age1…, whose identities open it) or plain.
# root: your own root CA, if you brought one: the PEM files of its certificate and key. The key is needed only to sign an authority.
`

func (s *Settings) encode() ([]byte, error) {
	out := bytes.NewBufferString(settingsHeader)
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("internal error: encode %s: %w", SettingsFile, err)
	}
	return out.Bytes(), e.Close()
}

func readSettings(name string) (Settings, error) {
	var s Settings
	data, err := readBounded(name, maxSettings)
	if err != nil {
		return s, err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("read %s: %w", name, err)
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("read %s: %w", name, err)
	}
	return s, nil
}

// OwnRoot reads the user's own root; nil when there is none. What is not at hand and is
// in the tree, or is not needed now, is left out: what needs it says so.
func (v *Vault) OwnRoot() (*pki.OwnRoot, error) {
	if v.Settings.Root == nil {
		return nil, nil
	}
	at := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(v.Dir, name)
	}
	certificate, err := readBounded(at(v.Settings.Root.Certificate), maxSettings)
	if errors.Is(err, os.ErrNotExist) && v.Tree.Authorities[pki.RootName] != nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("your root certificate: %w", err)
	}
	r := &pki.OwnRoot{Certificate: string(certificate)}
	if v.Settings.Root.Key == "" {
		return r, nil
	}
	key, err := readBounded(at(v.Settings.Root.Key), maxSettings)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("your root's key: %w", err)
	}
	r.Key = pki.Hidden(key)
	return r, nil
}
