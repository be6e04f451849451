package fileutils

import (
	"errors"
	"strconv"
)

// Bits of a mode.
const (
	setuid = 0o4000
	setgid = 0o2000
	sticky = 0o1000
	allRWX = 0o777
	all    = 0o7777
)

// A modeChange is one operation of a mode of chmod(1), in the form of gnulib's modechange.c, which is the authority
// for what is kept on directories.
type modeChange struct {
	op       byte
	copied   bool // the value says whose bits are copied
	ifAnyX   bool
	affected uint32
	value    uint32
	// mentioned are the bits that a directory's set-user-ID and set-group-ID must be among to be changed.
	mentioned uint32
}

var errMode = errors.New("invalid mode")

// parseMode reads an octal or symbolic mode.
func parseMode(text string) ([]modeChange, error) {
	if text == "" {
		return nil, errMode
	}
	if isOctal(text[0]) {
		value, rest, err := octal(text)
		if err != nil || rest != "" {
			return nil, errMode
		}
		mentioned := uint32(all)
		if len(text) < 5 {
			mentioned = value&(setuid|setgid|sticky) | allRWX
		}
		return []modeChange{{op: '=', affected: all, value: value, mentioned: mentioned}}, nil
	}
	var out []modeChange
	for {
		var affected uint32
		for ; text != "" && !isOp(text[0]); text = text[1:] {
			switch text[0] {
			case 'u':
				affected |= setuid | 0o700
			case 'g':
				affected |= setgid | 0o070
			case 'o':
				affected |= sticky | 0o007
			case 'a':
				affected |= all
			default:
				return nil, errMode
			}
		}
		if text == "" {
			return nil, errMode
		}
		for text != "" && isOp(text[0]) {
			var c modeChange
			var err error
			if c, text, err = oneChange(text, affected); err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		if text == "" {
			return out, nil
		}
		if text[0] != ',' {
			return nil, errMode
		}
		text = text[1:]
	}
}

// oneChange reads an operator and what stands behind it.
func oneChange(text string, affected uint32) (modeChange, string, error) {
	c := modeChange{op: text[0], affected: affected}
	text = text[1:]
	if text == "" {
		return c, "", nil
	}
	switch {
	case isOctal(text[0]):
		value, rest, err := octal(text)
		if err != nil || affected != 0 || rest != "" && rest[0] != ',' {
			return c, "", errMode
		}
		c.affected, c.mentioned, c.value = all, all, value
		return c, rest, nil
	case text[0] == 'u' || text[0] == 'g' || text[0] == 'o':
		c.copied, c.value = true, map[byte]uint32{'u': 0o700, 'g': 0o070, 'o': 0o007}[text[0]]
		text = text[1:]
	default:
	values:
		for ; text != ""; text = text[1:] {
			switch text[0] {
			case 'r':
				c.value |= 0o444
			case 'w':
				c.value |= 0o222
			case 'x':
				c.value |= 0o111
			case 'X':
				c.ifAnyX = true
			case 's':
				c.value |= setuid | setgid
			case 't':
				c.value |= sticky
			default:
				break values
			}
		}
	}
	c.mentioned = c.value
	if affected != 0 {
		c.mentioned &= affected
	}
	return c, text, nil
}

func isOp(b byte) bool { return b == '=' || b == '+' || b == '-' }

func isOctal(b byte) bool { return b >= '0' && b <= '7' }

func octal(text string) (uint32, string, error) {
	i := 0
	for i < len(text) && isOctal(text[i]) {
		i++
	}
	value, err := strconv.ParseUint(text[:i], 8, 32)
	if err != nil || value > all {
		return 0, "", errMode
	}
	return uint32(value), text[i:], nil
}

// adjust applies changes to a mode. The second result are the bits that were set or cleared whatever they were
// before; the others are for the caller to keep.
func adjust(mode uint32, dir bool, umask uint32, changes []modeChange) (uint32, uint32) {
	var bits uint32
	for _, c := range changes {
		var omit uint32
		if dir {
			omit = (setuid | setgid) &^ c.mentioned
		}
		value := c.value
		if c.copied {
			value &= mode
			for _, bit := range []uint32{0o444, 0o222, 0o111} {
				if value&bit != 0 {
					value |= bit
				}
			}
		}
		if c.ifAnyX && (dir || mode&0o111 != 0) {
			value |= 0o111
		}
		if c.affected != 0 {
			value &= c.affected
		} else {
			value &= all &^ umask
		}
		value &^= omit
		switch c.op {
		case '=':
			kept := omit
			if c.affected != 0 {
				kept |= all &^ c.affected
			}
			bits |= all &^ kept
			mode = mode&kept | value
		case '+':
			bits |= value
			mode |= value
		case '-':
			bits |= value
			mode &^= value
		}
	}
	return mode, bits
}
