package update

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"spore/storage/pieces"
)

// AppendObject adds an object to a message: its length in 4 bytes, big-endian, and its content.
func AppendObject(message, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(message, uint32(len(content))), content...)
}

// Objects reads the objects behind a head, one after the other, and calls each with the content, which is good until it
// returns. It ends with the first error of each.
func Objects(r *bufio.Reader, each func(content []byte) error) error {
	var content []byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: it ends in an object", ErrForm)
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		if n < 1 || n > pieces.MaxSize {
			return fmt.Errorf("%w: an object of %d bytes", ErrForm, n)
		}
		if cap(content) < n {
			content = make([]byte, n)
		}
		content = content[:n]
		if _, err := io.ReadFull(r, content); err != nil {
			return fmt.Errorf("%w: it ends in an object", ErrForm)
		}
		if err := each(content); err != nil {
			return err
		}
	}
}

// message puts a head and objects together.
func message(head []byte, objects [][]byte) *bytes.Reader {
	size := len(head)
	for _, o := range objects {
		size += 4 + len(o)
	}
	out := append(make([]byte, 0, size), head...)
	for _, o := range objects {
		out = AppendObject(out, o)
	}
	return bytes.NewReader(out)
}
