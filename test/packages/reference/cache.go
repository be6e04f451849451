package reference

import (
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// kept is what a file has: the packages of paths are found again by each Load, so that a better way to find them does
// not need another run of mmdebstrap.
type kept struct {
	Versions map[string]string
	Files    map[string]File
	Nanos    map[string]int64
	Data     map[string][]byte
	Log      string
}

// Save keeps a root in a file, for Load. Whoever reads the file sees all of it or nothing.
func (r *Root) Save(name string) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep the reference: %w", errors.Join(err, os.Remove(f.Name())))
		}
	}()
	z := gzip.NewWriter(f)
	all := kept{r.Versions, r.Files, r.archive.nanos, r.archive.data, r.log}
	if err := errors.Join(gob.NewEncoder(z).Encode(all), z.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// Load reads what Save has kept. The error is fs.ErrNotExist where there is nothing.
func Load(name string) (*Root, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read the reference %s (remove it to make it again): %w", name, err)
	}
	var k kept
	if err := gob.NewDecoder(z).Decode(&k); err != nil {
		return nil, fmt.Errorf("read the reference %s (remove it to make it again): %w", name, err)
	}
	a := &archive{files: k.Files, nanos: k.Nanos, data: k.Data}
	return &Root{Versions: k.Versions, Files: k.Files, archive: a, log: k.Log}, a.attribute(k.Log)
}
