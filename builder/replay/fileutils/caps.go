package fileutils

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"spore/builder/tree"
	"spore/cluster/filecap"
)

// capNames are the capabilities by their numbers.
var capNames = filecap.Names()

// allCaps has the bit of each.
var allCaps = uint64(1)<<len(capNames) - 1

// capSets are the three sets of capabilities of a file.
type capSets struct {
	effective, permitted, inheritable uint64
}

// Flags of a capability, in the order of libcap.
const (
	capE = 1 << iota
	capP
	capI
)

var errCaps = errors.New("fatal error: Invalid argument")

// parseCaps reads the text form of cap_from_text(3): clauses of a list of names and of operators with flags.
func parseCaps(text string) (capSets, error) {
	var s capSets
	for _, clause := range strings.Fields(text) {
		at := strings.IndexAny(clause, "=+-")
		if at < 0 {
			return s, errCaps
		}
		list, err := capList(clause[:at], clause[at])
		if err != nil {
			return s, err
		}
		if err := s.apply(list, clause[at:]); err != nil {
			return s, err
		}
	}
	return s, nil
}

func capList(names string, op byte) (uint64, error) {
	switch {
	case names == "" && op == '=', strings.EqualFold(names, "all"):
		return allCaps, nil
	case names == "":
		return 0, errCaps
	}
	var list uint64
	for _, name := range strings.Split(names, ",") {
		i := slices.Index(capNames, strings.ToLower(name))
		if i < 0 {
			n, err := strconv.ParseUint(name, 10, 8)
			if err != nil || n >= uint64(len(capNames)) {
				return 0, errCaps
			}
			i = int(n)
		}
		list |= 1 << i
	}
	return list, nil
}

// apply does operators and flags such as "=e+p-i" to the capabilities of a list.
func (s *capSets) apply(list uint64, text string) error {
	for first := true; text != ""; first = false {
		op := text[0]
		flags := text[1:]
		end := strings.IndexAny(flags, "=+-")
		if end < 0 {
			end = len(flags)
		}
		text, flags = flags[end:], flags[:end]
		if strings.Trim(flags, "epi") != "" || op != '=' && flags == "" || op == '=' && !first {
			return errCaps
		}
		for letter, set := range s.byLetter() {
			has := strings.IndexByte(flags, letter) >= 0
			switch {
			case op == '=' && !has, op == '-' && has:
				*set &^= list
			case op != '-' && has:
				*set |= list
			}
		}
	}
	return nil
}

func (s *capSets) byLetter() map[byte]*uint64 {
	return map[byte]*uint64{'e': &s.effective, 'p': &s.permitted, 'i': &s.inheritable}
}

// encode is the value of security.capability. The kernel has one flag for all effective capabilities, so they must be
// the others or none.
func (s capSets) encode() ([]byte, error) {
	if s.effective != 0 && (s.permitted|s.inheritable)&^s.effective != 0 {
		return nil, errInvalid
	}
	return filecap.Set{Permitted: s.permitted, Inheritable: s.inheritable, Effective: s.effective != 0}.Value(), nil
}

func decodeCaps(value []byte) (capSets, error) {
	set, err := filecap.ParseValue(value)
	if err != nil {
		return capSets{}, errInvalid // what the kernel says to getcap
	}
	s := capSets{permitted: set.Permitted, inheritable: set.Inheritable}
	if set.Effective {
		s.effective = s.permitted | s.inheritable
	}
	return s, nil
}

// String is the text form that cap_to_text(3) makes: what most capabilities have comes first, then what differs from
// it.
func (s capSets) String() string {
	flags := func(i int) int {
		bit := func(set uint64) int { return int(set >> i & 1) }
		return bit(s.effective)*capE | bit(s.permitted)*capP | bit(s.inheritable)*capI
	}
	var count [8]int
	for i := range capNames {
		count[flags(i)]++
	}
	most := 7
	for t := 6; t >= 0; t-- {
		if count[t] >= count[most] {
			most = t
		}
	}
	var words []string
	if most != 0 {
		words = append(words, "="+capLetters(most))
	}
	for t := 7; t >= 0; t-- {
		if t == most || count[t] == 0 {
			continue
		}
		var names []string
		for i, name := range capNames {
			if flags(i) == t {
				names = append(names, name)
			}
		}
		word := strings.Join(names, ",")
		more, less := t&^most, most&^t
		switch {
		case most == 0:
			word += "=" + capLetters(t)
		default:
			if more != 0 {
				word += "+" + capLetters(more)
			}
			if less != 0 {
				word += "-" + capLetters(less)
			}
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		return "="
	}
	return strings.Join(words, " ")
}

func capLetters(flags int) string {
	out := ""
	for i, letter := range []string{"e", "p", "i"} {
		if flags>>i&1 != 0 {
			out += letter
		}
	}
	// libcap prints i between e and p.
	if flags&(capP|capI) == capP|capI {
		return out[:len(out)-2] + "ip"
	}
	return out
}

func setcap(j *job) error {
	args := j.Args
	for len(args) > 0 && args[0] == "-q" {
		args = args[1:]
	}
	if len(args) < 2 || len(args)%2 != 0 {
		return j.says(1, "usage: setcap [-q] (-r|-|<caps>) <filename> [ ... (-r|-|<capsN>) <filenameN> ]")
	}
	for ; len(args) > 0; args = args[2:] {
		if err := j.setcapOne(args[0], args[1]); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) setcapOne(text, name string) error {
	if text == "-" {
		data, err := read(j.Stdin)
		if err != nil {
			return err
		}
		text = string(data)
	} else if len(text) > 1 && text[0] == '-' && text != "-r" {
		return j.unknown(text)
	}
	var value []byte
	if text != "-r" {
		sets, err := parseCaps(text)
		if err != nil {
			return j.says(1, "%s", err)
		}
		if value, err = sets.encode(); err != nil {
			return j.says(1, "Invalid file '%s' for capability operation", name)
		}
	}
	n, err := j.lstat(name)
	if err == nil && n.Type != tree.Regular {
		err = errInvalid
	}
	if err == nil && value == nil && len(without(n.Xattrs, capability)) == len(n.Xattrs) {
		return j.says(1, "File '%s' has no capablity to remove", name) // as libcap writes it
	}
	if err == nil {
		err = j.Files.Change(j.abs(name), false, func(n *tree.Inode) { n.Xattrs = with(n.Xattrs, capability, value) })
	}
	switch {
	case errors.Is(err, errInvalid):
		return j.says(1, "Invalid file '%s' for capability operation", name)
	case err != nil && !hard(err):
		return j.says(1, "Failed to set capabilities on file '%s': %s", name, reason(err))
	}
	return err
}

// says ends a command as stop does, with a message that does not begin with its name.
func (j *job) says(status int, format string, args ...any) error {
	j.status = status
	fmt.Fprintf(j.Stderr, format+"\n", args...)
	return errStop
}

// with returns attributes with one set, or without it when it has no value, sorted by name.
func with(xattrs []tree.Xattr, name string, value []byte) []tree.Xattr {
	out := without(xattrs, name)
	if value != nil {
		out = append(out, tree.Xattr{Name: name, Value: value})
	}
	slices.SortFunc(out, func(a, b tree.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func getcap(j *job) error {
	o, err := j.options("r v", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.says(1, "usage: getcap [-v] [-r] <filename> [<filename> ...]")
	}
	for _, name := range o.operands {
		n, err := j.lstat(name)
		if err != nil {
			if hard(err) {
				return err
			}
			fmt.Fprintf(j.Stderr, "%s (%s)\n", name, reason(err))
			continue
		}
		if err := j.getcapOne(name, j.abs(name), n, o.has("r"), o.has("v")); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) getcapOne(name, p string, n *tree.Inode, recursive, verbose bool) error {
	if n.Type == tree.Dir && recursive {
		names, err := j.children(p)
		if err != nil {
			return err
		}
		for _, child := range names {
			cp := path.Join(p, child)
			c, err := j.Files.Lstat(cp)
			if err != nil {
				continue
			}
			if err := j.getcapOne(join(name, child), cp, c, true, verbose); err != nil {
				return err
			}
		}
	}
	if n.Type != tree.Regular {
		return nil
	}
	for _, x := range n.Xattrs {
		if x.Name != capability {
			continue
		}
		sets, err := decodeCaps(x.Value)
		if err != nil {
			j.fail("Failed to get capabilities of file '%s' (%s)", name, reason(err))
			return nil
		}
		j.printf("%s %s\n", name, sets)
		return nil
	}
	if verbose {
		j.printf("%s\n", name)
	}
	return nil
}
