package secureboot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"spore/builder/pechecksum"
	"spore/pki/authenticode"
)

// Strip returns the program without its signatures; the very bytes from before they were added, but for padding at the end.
func Strip(pe []byte) ([]byte, error) {
	p, err := authenticode.Read(bytes.NewReader(pe), int64(len(pe)))
	if err != nil {
		return nil, fmt.Errorf("take signatures off: %w", err)
	}
	out := bytes.Clone(pe[:p.End])
	clear(out[p.Row : p.Row+8])
	pechecksum.Set(out, int(p.CheckSum))
	return out, nil
}

// withTable is a program with a table of signatures.
func withTable(p *authenticode.Program, pe, table []byte) ([]byte, error) {
	end := p.End + authenticode.Padding(p.End)
	if end+int64(len(table)) > 1<<31 {
		return nil, errors.New("the program is larger than 2 GiB")
	}
	out := make([]byte, end, end+int64(len(table)))
	copy(out, pe[:p.End])
	binary.LittleEndian.PutUint32(out[p.Row:], uint32(end))
	binary.LittleEndian.PutUint32(out[p.Row+4:], uint32(len(table)))
	out = append(out, table...)
	pechecksum.Set(out, int(p.CheckSum))
	return out, nil
}
