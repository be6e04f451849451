package push

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"spore/builder/updateset"
	"spore/storage/pieces"
	"spore/wire/signedline"
	"spore/wire/update"
)

// maxHead bounds the signed head of a stored update, in bytes.
const maxHead = signedline.Max + update.MaxHead + 2

// store has the objects of an update that was written before.
type store interface {
	Object(sum pieces.Sum) ([]byte, error)
	Close() error
}

// Open opens an update that WriteFolder or WriteFile wrote: it is signed already, and goes to the nodes as it is. keys
// are those of the cluster, of which one has to have signed it. Who closes it, ends that. It has no manifest.
func Open(name string, keys []ed25519.PublicKey) (*Update, error) {
	u, err := open(name, keys)
	if err != nil {
		return nil, fmt.Errorf("read the update %s: %w", name, err)
	}
	return u, nil
}

func open(name string, keys []ed25519.PublicKey) (*Update, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		f, err := os.Open(filepath.Join(name, updateset.Head))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		u := &Update{stored: folder{name}}
		return u, u.readHead(bufio.NewReader(f), keys)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	u, m, r := &Update{}, &message{file: f, places: map[pieces.Sum]place{}}, bufio.NewReader(f)
	u.stored = m
	err = u.readHead(r, keys)
	if err == nil {
		err = m.read(r, int64(len(u.Signed)))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return u, nil
}

// readHead reads the head, and keeps it as it was written.
func (u *Update) readHead(r *bufio.Reader, keys []ed25519.PublicKey) (err error) {
	var seen bytes.Buffer
	for range 2 { // A line with the signature, and one with what it is of.
		line, err := readLine(r, maxHead)
		if err != nil {
			return err
		}
		seen.Write(line)
	}
	u.Signed = seen.Bytes()
	u.Head, err = update.Read(bufio.NewReader(bytes.NewReader(u.Signed)), keys)
	return err
}

func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		if out = append(out, part...); len(out) > limit {
			return nil, fmt.Errorf("%w: a line has more than %d bytes", update.ErrForm, limit)
		}
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: it ends in its head", update.ErrForm)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// folder is an update as files.
type folder struct{ dir string }

// Object reads a file. The node holds it to its hash.
func (f folder) Object(sum pieces.Sum) ([]byte, error) {
	name := filepath.Join(f.dir, updateset.PiecesDir, sum.String())
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s lacks %s; copy the folder again, whole", updateset.ErrObject, f.dir, sum)
	case err != nil:
		return nil, err
	case info.Size() > pieces.MaxSize:
		return nil, fmt.Errorf("%s has %d bytes, and an object at most %d", name, info.Size(), pieces.MaxSize)
	}
	return os.ReadFile(name)
}

// Close does nothing.
func (folder) Close() error { return nil }

// message is an update as one file.
type message struct {
	file   *os.File
	places map[pieces.Sum]place
}

// place is where an object lies in the file.
type place struct {
	at   int64
	size int
}

// read finds out where the objects are, which begin at an offset.
func (m *message) read(r *bufio.Reader, at int64) error {
	return update.Objects(r, func(content []byte) error {
		at += 4 // its length
		m.places[pieces.SumOf(content)] = place{at, len(content)}
		at += int64(len(content))
		return nil
	})
}

// Object reads an object.
func (m *message) Object(sum pieces.Sum) ([]byte, error) {
	p, found := m.places[sum]
	if !found {
		return nil, fmt.Errorf("%w: the file lacks %s: a node with another root needs one with the root; write it "+
			"with --root", updateset.ErrObject, sum)
	}
	out := make([]byte, p.size)
	_, err := m.file.ReadAt(out, p.at)
	return out, err
}

// Close closes the file.
func (m *message) Close() error { return m.file.Close() }
