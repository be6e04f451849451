package luks

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Cipher is that of all volumes that are made here, and of their key slots.
const Cipher = "aes-xts-plain64"

// keySize is the length of its keys in bytes.
const keySize = 64

// CheckCipher refuses a volume that is not encrypted as those that are made here. A header has checksums and no
// signature, so whoever has had the disk in hand can have it say that data, or the key in a slot, is not encrypted at
// all (cipher_null), and the key that opens the real one opens this: what the node kept on it would lie there for
// everybody. Each copy of the header that libcryptsetup could choose is looked at; one of a form that only
// libcryptsetup reads is refused.
func CheckCipher(r io.ReaderAt) error {
	seen := false
	for at := int64(0); at <= maxHeader; at = max(minHeader, at*2) {
		magic := magicSecond
		if at == 0 {
			magic = magicFirst
		}
		c, err := copyAt(r, at, magic)
		switch {
		case err == nil:
			seen = true
			if err := checkText(c.text); err != nil {
				return fmt.Errorf("the LUKS header at byte %d: %w; it was not made by spore, or was changed since", at, err)
			}
		case foreignForm(r, at, magic):
			return fmt.Errorf("the LUKS header at byte %d: %w; it was not made by spore, or was changed since", at, err)
		}
	}
	if !seen {
		return ErrNone
	}
	return nil
}

// foreignForm tells a copy that libcryptsetup could read and copyAt does not, such as one of version 1 or with another
// checksum, from one that is damaged.
func foreignForm(r io.ReaderAt, at int64, magic []byte) bool {
	b := make([]byte, binarySize)
	if n, err := r.ReadAt(b, at); n < len(b) {
		return err == nil
	}
	if !bytes.Equal(b[:len(magic)], magic) {
		return false
	}
	return binary.BigEndian.Uint16(b[6:]) != 2 || !bytes.Equal(b[72:104], append([]byte("sha256"), make([]byte, 26)...))
}

// checkText looks at the JSON area.
func checkText(text []byte) error {
	var m struct {
		Keyslots map[string]struct {
			Type    string `json:"type"`
			KeySize int    `json:"key_size"`
			Area    struct {
				Encryption string `json:"encryption"`
				KeySize    int    `json:"key_size"`
			} `json:"area"`
		} `json:"keyslots"`
		Segments map[string]struct {
			Type       string          `json:"type"`
			Encryption string          `json:"encryption"`
			Integrity  json.RawMessage `json:"integrity"`
		} `json:"segments"`
		Config struct {
			Requirements struct {
				Mandatory []string `json:"mandatory"`
			} `json:"requirements"`
		} `json:"config"`
	}
	if err := checkNames(json.NewDecoder(bytes.NewReader(text))); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if len(m.Segments) != 1 {
		return fmt.Errorf("it has %d segments of data, not one", len(m.Segments))
	}
	for _, s := range m.Segments {
		if s.Type != "crypt" || s.Encryption != Cipher || len(s.Integrity) > 0 {
			return fmt.Errorf("its data has the type %.32q and the cipher %.32q, not %q and %q", s.Type, s.Encryption, "crypt", Cipher)
		}
	}
	for name, k := range m.Keyslots {
		if k.Type != "luks2" || k.Area.Encryption != Cipher || k.KeySize != keySize || k.Area.KeySize != keySize {
			return fmt.Errorf("its key slot %.8q has the type %.32q, the cipher %.32q and keys of %d and %d bytes, not %q, %q and %d",
				name, k.Type, k.Area.Encryption, k.KeySize, k.Area.KeySize, "luks2", Cipher, keySize)
		}
	}
	if len(m.Config.Requirements.Mandatory) > 0 {
		return errors.New("it is being encrypted anew")
	}
	return nil
}

// checkNames refuses a value in which an object has a name twice, in whatever case: readers differ in which of them
// they take, and Go's takes capitals for small letters.
func checkNames(d *json.Decoder) error {
	var open []map[string]bool // the names so far of each object that is open; nil for a list
	name := false              // whether the next string is a name
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) && len(open) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		switch v := t.(type) {
		case json.Delim:
			switch v {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			name = len(open) > 0 && open[len(open)-1] != nil
			continue
		case string:
			if name {
				v = strings.ToLower(v)
				if open[len(open)-1][v] {
					return fmt.Errorf("it says %.32q twice", v)
				}
				open[len(open)-1][v] = true
				name = false
				continue
			}
		}
		name = len(open) > 0 && open[len(open)-1] != nil
	}
}
