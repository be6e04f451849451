package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// valkeyTimeout bounds one exchange with a store; emulation is slow.
const valkeyTimeout = 30 * time.Second

// maxReply bounds a text and a list of an answer, in bytes and entries.
const maxReply = 1 << 20

// Valkey is a connection to a key-value store that speaks RESP2, the protocol of Redis and Valkey.
type Valkey struct {
	conn net.Conn
	in   *bufio.Reader
}

// DialValkey connects to an address host:port. Where a password is given, it logs in, as the user default unless
// another one is named.
func DialValkey(address, user, password string) (*Valkey, error) {
	conn, err := net.DialTimeout("tcp", address, valkeyTimeout)
	if err != nil {
		return nil, err
	}
	v := &Valkey{conn, bufio.NewReader(conn)}
	if password == "" {
		return v, nil
	}
	words := []string{"AUTH", user, password}
	if user == "" {
		words = []string{"AUTH", password}
	}
	if _, err := v.Do(words...); err != nil {
		v.Close()
		return nil, fmt.Errorf("log in: %w", err)
	}
	return v, nil
}

// Close ends the connection.
func (v *Valkey) Close() { v.conn.Close() }

// Do sends a command and returns its answer: the texts and numbers of it in their order, none where there is no such
// key. The error is what the store says where it refuses.
func (v *Valkey) Do(words ...string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if err := v.conn.SetDeadline(time.Now().Add(valkeyTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(v.conn, b.String()); err != nil {
		return nil, err
	}
	return reply(v.in, 0)
}

// reply reads one answer. A list may hold texts and numbers.
func reply(in *bufio.Reader, depth int) ([]string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || text == "" {
		return nil, fmt.Errorf("the answer %q is not RESP", line)
	}
	switch kind, rest := text[0], text[1:]; kind {
	case '+', ':':
		return []string{rest}, nil
	case '-':
		return nil, errors.New(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if n == -1 {
			return nil, nil
		}
		if err != nil || n < 0 || n > maxReply || kind == '*' && depth > 0 {
			return nil, fmt.Errorf("the answer %q has no length that is read", text)
		}
		if kind == '$' {
			return bulk(in, n)
		}
		var out []string
		for range n {
			one, err := reply(in, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, one...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("the answer %q is not RESP", text)
}

func bulk(in *bufio.Reader, n int) ([]string, error) {
	data := make([]byte, n+2)
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, fmt.Errorf("read a text of %d bytes: %w", n, err)
	}
	text, ok := strings.CutSuffix(string(data), "\r\n")
	if !ok {
		return nil, fmt.Errorf("a text of %d bytes does not end where it says", n)
	}
	return []string{text}, nil
}
