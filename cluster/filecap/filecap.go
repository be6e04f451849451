// Package filecap reads and writes the capabilities of files (capabilities(7)): the words of setcap(8), such as
// "cap_net_bind_service,cap_net_raw=ep", and the extended attribute that holds them in a file system.
//
// It has neither the capabilities of processes nor those of a user namespace (revision 3 of the attribute with a root
// user of its own), and no words that mean all capabilities.
package filecap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Attribute is the name of the extended attribute.
const Attribute = "security.capability"

// names are those of linux/capability.h without their "cap_", by number.
var names = [...]string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
	"linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
	"sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
	"checkpoint_restore",
}

// Set is what a file has. The zero value is nothing.
type Set struct {
	// Permitted and Inheritable have a bit for each capability, by its number.
	Permitted, Inheritable uint64
	// Effective says that a program has them from its start. It is for all of them, or for none (capabilities(7)).
	Effective bool
}

// Names lists every capability as "cap_…", in the order of their numbers.
func Names() []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = "cap_" + name
	}
	return out
}

// maxText bounds what Parse reads, in bytes: every name many times over.
const maxText = 4 << 10

// Parse reads the form of cap_from_text(3): clauses between blanks, each of names between commas and one of = + - with
// the letters e, i and p. "all" and a clause without a name are errors, because each capability is named.
func Parse(text string) (Set, error) {
	if len(text) > maxText {
		return Set{}, fmt.Errorf("the text has %d bytes, at most %d are read", len(text), maxText)
	}
	var s Set
	var effective uint64
	clauses := strings.Fields(text)
	if len(clauses) == 0 {
		return Set{}, errors.New("no capability is named")
	}
	for _, clause := range clauses {
		i := strings.IndexAny(clause, "=+-")
		if i < 0 {
			return Set{}, fmt.Errorf("%q has no =, + or - with the letters e, i and p", clause)
		}
		bits, err := parseNames(clause[:i])
		if err != nil {
			return Set{}, err
		}
		for rest := clause[i:]; rest != ""; {
			letters := rest[1:]
			if n := strings.IndexAny(letters, "=+-"); n >= 0 {
				letters = letters[:n]
			}
			if strings.Trim(letters, "eip") != "" || (letters == "" && rest[0] != '=') {
				return Set{}, fmt.Errorf("%q: behind %c are the letters e, i and p", clause, rest[0])
			}
			change(&effective, bits, rest[0], strings.Contains(letters, "e"))
			change(&s.Inheritable, bits, rest[0], strings.Contains(letters, "i"))
			change(&s.Permitted, bits, rest[0], strings.Contains(letters, "p"))
			rest = rest[1+len(letters):]
		}
	}
	if s.Permitted|s.Inheritable == 0 {
		return Set{}, errors.New("it gives no capability, write =p, =ep or =eip behind the names")
	}
	if s.Effective = effective != 0; s.Effective && effective != s.Permitted|s.Inheritable {
		return Set{}, errors.New("of a file all capabilities are effective or none, write e for all of them")
	}
	return s, nil
}

// change applies an operator to the bits of one letter; given says that the letter is behind it.
func change(set *uint64, bits uint64, operator byte, given bool) {
	if operator == '=' || (operator == '-' && given) {
		*set &^= bits
	}
	if operator != '-' && given {
		*set |= bits
	}
}

func parseNames(list string) (uint64, error) {
	var bits uint64
	for _, word := range strings.Split(list, ",") {
		name, ok := strings.CutPrefix(strings.ToLower(word), "cap_")
		i := slices.Index(names[:], name)
		if !ok || i < 0 {
			return 0, fmt.Errorf("%q is not a capability", word)
		}
		bits |= 1 << i
	}
	return bits, nil
}

// String is the shortest text that Parse reads as the set, with the names in the order of their numbers. A number
// without a name is written as cap_to_text(3) does, in digits.
func (s Set) String() string {
	var clauses []string
	for _, group := range []struct {
		bits    uint64
		letters string
	}{
		{s.Permitted &^ s.Inheritable, "p"}, {s.Permitted & s.Inheritable, "ip"}, {s.Inheritable &^ s.Permitted, "i"},
	} {
		if group.bits == 0 {
			continue
		}
		var list []string
		for i := range 64 {
			switch {
			case group.bits>>i&1 == 0:
			case i < len(names):
				list = append(list, "cap_"+names[i])
			default:
				list = append(list, fmt.Sprint(i))
			}
		}
		letters := group.letters
		if s.Effective {
			letters = "e" + letters
		}
		clauses = append(clauses, strings.Join(list, ",")+"="+letters)
	}
	return strings.Join(clauses, " ")
}

// The attribute (linux/capability.h, struct vfs_cap_data): a word of the revision with the effective bit, then the low
// half of the permitted and of the inheritable ones, then the high halves; revision 3 ends with a user id. All are
// little-endian.
const (
	revision1    = 0x01000000
	revision2    = 0x02000000
	revision3    = 0x03000000
	revisionMask = 0xff000000
	effectiveBit = 0x000001
)

// Value is the content of the attribute, in revision 2, which setcap writes.
func (s Set) Value() []byte {
	head := uint32(revision2)
	if s.Effective {
		head |= effectiveBit
	}
	var out []byte
	low := []uint32{uint32(s.Permitted), uint32(s.Inheritable)}
	high := []uint32{uint32(s.Permitted >> 32), uint32(s.Inheritable >> 32)}
	for _, word := range slices.Concat([]uint32{head}, low, high) {
		out = binary.LittleEndian.AppendUint32(out, word)
	}
	return out
}

// ParseValue reads the content of the attribute, of any revision. One of revision 3 must be of the root user 0.
func ParseValue(value []byte) (Set, error) {
	if len(value) < 4 {
		return Set{}, fmt.Errorf("the attribute %s has %d bytes", Attribute, len(value))
	}
	word := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(value[4*i:])) }
	head := uint32(word(0))
	length := map[uint32]int{revision1: 12, revision2: 20, revision3: 24}[head&revisionMask]
	if length == 0 || len(value) != length || head&^uint32(revisionMask|effectiveBit) != 0 {
		return Set{}, fmt.Errorf("the attribute %s of %d bytes has the unknown form %#08x", Attribute, len(value), head)
	}
	s := Set{Permitted: word(1), Inheritable: word(2), Effective: head&effectiveBit != 0}
	if length > 12 {
		s.Permitted |= word(3) << 32
		s.Inheritable |= word(4) << 32
	}
	if length == 24 && word(5) != 0 {
		return Set{}, fmt.Errorf("the attribute %s is for the user namespace of user %d", Attribute, word(5))
	}
	return s, nil
}
