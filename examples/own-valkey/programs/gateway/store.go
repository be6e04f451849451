package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// store is a client of Valkey that sends commands whose answer is OK (RESP2).
type store struct {
	conn net.Conn
	in   *bufio.Reader
}

// maxAnswer bounds a line of an answer, in bytes.
const maxAnswer = 1 << 10

func newStore(conn net.Conn) *store { return &store{conn, bufio.NewReaderSize(conn, maxAnswer)} }

// do sends a command and waits until it is done.
func (s *store) do(words ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if err := s.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := s.conn.Write([]byte(b.String())); err != nil {
		return err
	}
	line, err := s.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch answer := strings.TrimSpace(string(line)); {
	case answer == "+OK":
		return nil
	case strings.HasPrefix(answer, "-"):
		return errors.New(answer[1:])
	default:
		return fmt.Errorf("the store answers %q instead of OK", answer)
	}
}
