package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Opcodes of RFC 1350, section 5, and RFC 2347.
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOAck  = 6
)

// Error codes of RFC 1350, appendix I.
const (
	codeNotFound = 1
	codeAccess   = 2
	codeIllegal  = 4
	codeOptions  = 8 // RFC 2347
)

const (
	// maxRequest is the longest request (RFC 2347, "the maximum size of a request packet is 512 octets").
	maxRequest = 512
	// maxOptions is more than there are.
	maxOptions = 16
)

// refusal is an error that the client is told.
type refusal struct {
	code uint16
	text string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) packet() []byte {
	out := binary.BigEndian.AppendUint16([]byte{0, opError}, r.code)
	return append(append(out, r.text...), 0)
}

// errNoRequest is a packet that no answer is given to.
var errNoRequest = errors.New("no request")

// request is a read request.
type request struct {
	name    string
	options []option
}

// option has its name in lower case.
type option struct{ name, value string }

// parse reads a request: opcode, file name, mode, and options as pairs, each text ended by a zero byte.
func parse(b []byte) (*request, error) {
	if len(b) < 2 || len(b) > maxRequest {
		return nil, errNoRequest
	}
	switch binary.BigEndian.Uint16(b) {
	case opRead:
	case opWrite:
		return nil, &refusal{codeAccess, "nothing can be written here"}
	default:
		return nil, errNoRequest
	}
	body, ended := bytes.CutSuffix(b[2:], []byte{0})
	texts := strings.Split(string(body), "\x00")
	if !ended || len(texts) < 2 {
		return nil, &refusal{codeIllegal, "the request is cut short"}
	}
	if !strings.EqualFold(texts[1], "octet") {
		return nil, &refusal{codeIllegal, "the only mode is octet"}
	}
	// Some ROMs fill the packet up with zero bytes; a last text without a partner is no option.
	r := &request{name: strings.TrimLeft(texts[0], "/")}
	for i := 2; i+1 < len(texts) && texts[i] != "" && len(r.options) < maxOptions; i += 2 {
		r.options = append(r.options, option{strings.ToLower(texts[i]), texts[i+1]})
	}
	return r, nil
}

// negotiate takes the options that make sense and returns the packet that says which (RFC 2347); nil when there are none.
// An option that is left out of it is one that the client has to do without.
func (t *sender) negotiate(r *request) []byte {
	out := []byte{0, opOAck}
	seen := map[string]bool{}
	for _, o := range r.options {
		n, err := strconv.ParseUint(o.value, 10, 63)
		if err != nil || seen[o.name] {
			continue
		}
		switch {
		case o.name == "blksize" && n >= 8 && n <= 65464:
			t.block = int(min(n, maxBlock))
			n = uint64(t.block)
		case o.name == "windowsize" && n >= 1 && n <= 65535:
			t.window = int(min(n, maxWindow))
			n = uint64(t.window)
		case o.name == "tsize":
			n = uint64(len(t.data))
		case o.name == "timeout" && n >= 1 && n <= 255:
			// Not to be answered with another number; what is too long for us is not taken.
			if n > 10 {
				continue
			}
			t.timeout = time.Duration(n) * time.Second
		default:
			continue
		}
		seen[o.name] = true
		out = append(out, o.name...)
		out = append(out, 0)
		out = strconv.AppendUint(out, n, 10)
		out = append(out, 0)
	}
	if len(out) == 2 {
		return nil
	}
	return out
}

// clientError is what a client says when it ends a transfer.
type clientError struct {
	code uint16
	text string
}

func (e *clientError) Error() string {
	return fmt.Sprintf("the client says: %q (error %d)", e.text, e.code)
}

// errNoAnswer is a packet of the client that says nothing.
var errNoAnswer = errors.New("no answer")

// parseAnswer reads an acknowledgement. The client's error packet is an error.
func parseAnswer(b []byte) (block uint16, err error) {
	if len(b) < 4 {
		return 0, errNoAnswer
	}
	switch binary.BigEndian.Uint16(b) {
	case opAck:
		return binary.BigEndian.Uint16(b[2:]), nil
	case opError:
		text, _, _ := bytes.Cut(b[4:], []byte{0})
		return 0, &clientError{binary.BigEndian.Uint16(b[2:]), string(text[:min(len(text), 100)])}
	}
	return 0, errNoAnswer
}
