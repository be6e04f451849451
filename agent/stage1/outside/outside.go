// Package outside reads the credentials that firmware or a hypervisor gives to a machine: OEM strings of SMBIOS (DMTF
// DSP0134, section 7.12) and items of QEMU's fw_cfg, as systemd.system-credentials(7) writes them. It takes those alone
// whose names begin with "spore.": others configure whatever reads them, systemd's own programs above all, and whoever
// writes the firmware's strings would be root. It judges no content: that is for who takes one.
package outside

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Prefix begins the names of credentials that are taken.
const Prefix = "spore."

// Bounds in bytes; maxAll is also systemd's for all credentials of a system (CREDENTIALS_TOTAL_SIZE_MAX).
const (
	maxTable = 4 << 20
	maxAll   = 1 << 20
	maxName  = 64
)

// Places below /sys.
const (
	table = "firmware/dmi/tables/DMI"
	items = "firmware/qemu_fw_cfg/by_name/opt/io.systemd.credentials"
)

// Credential is one of them.
type Credential struct {
	Name string
	Data []byte
}

// Read returns what is taken from sys, the content of /sys, the first of each name, and says of what is not. Nothing of
// it can stop a boot.
func Read(sys fs.FS) (taken []Credential, said []string) {
	c := collector{have: map[string]bool{}}
	c.fromItems(sys)
	c.fromTable(sys)
	if c.others > 0 {
		c.said = append(c.said, fmt.Sprintf("left out %d credentials of firmware or hypervisor whose names do not begin with %s", c.others, Prefix))
	}
	return c.taken, c.said
}

type collector struct {
	taken  []Credential
	have   map[string]bool
	size   int
	others int
	said   []string
}

func (c *collector) fromItems(sys fs.FS) {
	entries, err := fs.ReadDir(sys, items)
	if err != nil {
		return // no QEMU, or no item
	}
	for _, e := range entries {
		c.add(e.Name(), func() ([]byte, error) { return readLimited(sys, path.Join(items, e.Name(), "raw"), maxAll) })
	}
}

func (c *collector) fromTable(sys fs.FS) {
	data, err := readLimited(sys, table, maxTable)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.said = append(c.said, fmt.Sprintf("the strings of SMBIOS cannot be read: %v", err))
		return
	}
	for _, s := range OEMStrings(data) {
		if rest, ok := bytes.CutPrefix(s, []byte("io.systemd.credential.binary:")); ok {
			name, value, _ := bytes.Cut(rest, []byte("="))
			c.add(string(name), func() ([]byte, error) { return base64.StdEncoding.DecodeString(string(value)) })
		} else if rest, ok := bytes.CutPrefix(s, []byte("io.systemd.credential:")); ok {
			name, value, _ := bytes.Cut(rest, []byte("="))
			c.add(string(name), func() ([]byte, error) { return value, nil })
		}
	}
}

func (c *collector) add(name string, read func() ([]byte, error)) {
	if !strings.HasPrefix(name, Prefix) {
		c.others++
		return
	}
	if !good(name) {
		c.said = append(c.said, fmt.Sprintf("left out the credential %.80q: its name is to be small letters, digits, dots and hyphens", name))
		return
	}
	if c.have[name] {
		return
	}
	data, err := read()
	if err == nil && c.size+len(data) > maxAll {
		err = fmt.Errorf("all of them have more than %d bytes", maxAll)
	}
	if err != nil {
		c.said = append(c.said, fmt.Sprintf("left out the credential %s: %v", name, err))
		return
	}
	c.have[name] = true
	c.size += len(data)
	c.taken = append(c.taken, Credential{Name: name, Data: data})
}

// good tells whether a name, which becomes that of a file, is one that is taken.
func good(name string) bool {
	if len(name) > maxName || len(name) == len(Prefix) {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

func readLimited(sys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := sys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

// Types of SMBIOS structures.
const (
	typeOEMStrings = 11
	typeEnd        = 127
)

// OEMStrings returns the strings of all structures of type 11 of a table (DMTF DSP0134, section 6.1). Of a table that
// is cut off or wrong it returns what comes before that.
func OEMStrings(table []byte) (out [][]byte) {
	for len(table) >= 4 {
		kind, size := table[0], int(table[1])
		if kind == typeEnd || size < 4 || size > len(table) {
			return out
		}
		table = table[size:] // The strings follow; an empty one ends them.
		if len(table) >= 2 && table[0] == 0 && table[1] == 0 {
			table = table[2:] // There are none.
			continue
		}
		for {
			end := bytes.IndexByte(table, 0)
			if end < 0 {
				return out
			}
			s := table[:end]
			table = table[end+1:]
			if len(s) == 0 {
				break
			}
			if kind == typeOEMStrings {
				out = append(out, s)
			}
		}
	}
	return out
}
