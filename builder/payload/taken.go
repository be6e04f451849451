package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"spore/builder/archive"
	"spore/builder/store"
	"spore/cluster/programs"
)

// maxTaken bounds a file that is taken as it is, and an archive, in bytes.
const maxTaken = archive.MaxSize

// origin is where one file from outside comes from, and what it must be.
type origin struct {
	// url or path is set; path is in the configuration folder.
	url, path string
	key       store.Key
	// of is the program that it is for.
	of string
}

func originOf(e programs.Entry, url, sum string) (origin, error) {
	key, err := store.ParseKey(sum)
	return origin{url: url, path: e.Local(), key: key, of: nameOf(e)}, err
}

// input is the origin for the provenance.
func (f origin) input() Input {
	if f.url != "" {
		return Input{Name: f.url, SHA256: f.key.String()}
	}
	return Input{Name: f.path, SHA256: f.key.String()}
}

// verify looks at a file of the configuration each time: one that changed and whose checksum did not is a mistake,
// which a cache would hide.
func (f origin) verify(o Options) error {
	if f.url != "" {
		return nil
	}
	in, err := o.Folder.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	sum, err := hashOf(in)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if sum != f.key.String() {
		return f.differs(sum)
	}
	return nil
}

// copyTo writes the file, and is an error when its bytes are others than its checksum says.
func (f origin) copyTo(ctx context.Context, w io.Writer, o Options) error {
	m := startMeter(f.of, o.Report)
	defer m.stop()
	var in io.ReadCloser
	var err error
	if f.url != "" {
		in, err = fetch(ctx, o.Transport, f.url, m)
	} else {
		in, err = o.Folder.Open(f.path)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	sum, err := hashOf(io.TeeReader(in, w))
	if err != nil {
		return err
	}
	if sum != f.key.String() {
		return f.differs(sum)
	}
	return nil
}

// hashOf is the SHA-256 of what is read, in hexadecimal.
func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, maxTaken+1))
	if n > maxTaken {
		return "", fmt.Errorf("it has more than %d bytes", int64(maxTaken))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

func (f origin) differs(sum string) error {
	return fmt.Errorf("%s has the SHA-256 %s, and sha256 says %s: it is another file than was meant, or is damaged; "+
		"where it is the right one, write its SHA-256", f.input().Name, sum, f.key)
}

// taken is one file that is taken as it is.
func taken(ctx context.Context, st *store.Store, e programs.Entry, o Options) (Program, error) {
	f, err := originOf(e, e.File.URL, e.File.SHA256)
	if err != nil {
		return Program{}, err
	}
	p := Program{Key: f.key, Path: st.Path(f.key), Cached: st.Has(f.key), Inputs: []Input{f.input()}}
	if o.Plan {
		return p, nil
	}
	if err := f.verify(o); err != nil {
		return Program{}, err
	}
	if !p.Cached {
		if err := st.Put(f.key, func(w *os.File) error { return f.copyTo(ctx, w, o) }); err != nil {
			return Program{}, err
		}
	}
	if err := p.look(); err != nil {
		return Program{}, fmt.Errorf("%s %w", f.input().Name, err)
	}
	if !p.starts() {
		return Program{}, fmt.Errorf("%s is neither a program for Linux (ELF) nor a script, which begins with #! and its "+
			"interpreter%s",
			f.input().Name, p.hint())
	}
	return p, nil
}

// unpackedFile is what is known of a file of an archive once it was taken.
type unpackedFile struct {
	Executable bool   `json:"executable"`
	SHA256     string `json:"sha256"`
}

// unpacked are the files that are taken from an archive, each kept in the store under its own hash.
func unpacked(ctx context.Context, st *store.Store, e programs.Entry, o Options) ([]Program, error) {
	f, err := originOf(e, e.Archive.URL, e.Archive.SHA256)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range e.Archive.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	index := store.KeyOf("files of an archive 1", append([]string{f.key.String()}, names...)...)
	found, cached, err := readIndex(st, index)
	if err != nil {
		return nil, err
	}
	if !o.Plan {
		if err := f.verify(o); err != nil {
			return nil, err
		}
		if !cached {
			if found, err = f.unpack(ctx, st, o, index, names); err != nil {
				return nil, err
			}
		}
	}
	var out []Program
	for _, name := range names {
		p := Program{
			Name: nameOf(e) + e.Archive.Files[name], Payload: nameOf(e), Target: e.Archive.Files[name], Cached: cached,
			Mode:     0o644,
			Unpacked: store.KeyOf("file of an archive", f.key.String(), name, e.Mode).String(), Inputs: []Input{f.input()},
		}
		if len(names) == 1 {
			p.Name = nameOf(e)
		}
		if known, ok := found[name]; ok {
			if p.Key, err = store.ParseKey(known.SHA256); err != nil {
				return nil, err
			}
			p.Path = st.Path(p.Key)
			if known.Executable {
				p.Mode = 0o755
			}
		}
		if !o.Plan {
			if err := p.look(); err != nil {
				return nil, fmt.Errorf("%s in %s %w", name, f.input().Name, err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// readIndex is what an archive gave before, and whether the store has all of it.
func readIndex(st *store.Store, index store.Key) (map[string]unpackedFile, bool, error) {
	data, err := st.ReadAll(index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var found map[string]unpackedFile
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, false, st.Damaged(index, err)
	}
	for _, file := range found {
		key, err := store.ParseKey(file.SHA256)
		if err != nil || !st.Has(key) {
			return nil, false, nil
		}
	}
	return found, true, nil
}

// unpack puts the named files of the archive into the store, and then what they are. The archive itself is not kept.
func (f origin) unpack(
	ctx context.Context, st *store.Store, o Options, index store.Key, names []string,
) (map[string]unpackedFile, error) {
	in, err := os.CreateTemp(st.TempDir(), "archive-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(in.Name())
	defer in.Close()
	if err := f.copyTo(ctx, in, o); err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	found := map[string]unpackedFile{}
	err = archive.Take(in, info.Size(), names, func(m archive.Member) error {
		sum, err := adopt(st, m.Content)
		found[m.Name] = unpackedFile{m.Executable, sum}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", f.input().Name, err)
	}
	data, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	return found, st.Put(index, func(w *os.File) error {
		_, err := w.Write(data)
		return err
	})
}

// adopt puts a file into the store under its own SHA-256.
func adopt(st *store.Store, r io.Reader) (sum string, err error) {
	tmp, err := os.CreateTemp(st.TempDir(), "file-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(tmp, h), r)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return "", err
	}
	var key store.Key
	h.Sum(key[:0])
	if st.Has(key) {
		return key.String(), nil
	}
	return key.String(), st.Adopt(key, tmp.Name())
}

// look finds out what a file that was not compiled here is, and what has to be in the image for it.
func (p *Program) look() error {
	f, err := os.Open(p.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p.Size = info.Size()
	needs, err := inspect(f)
	if err != nil {
		return err
	}
	p.Interpreter, p.Libraries, p.form = needs.interpreter, needs.libraries, needs.form
	return nil
}

// starts reports whether a file is one that Linux starts.
func (p *Program) starts() bool { return p.form == "program" || p.form == "script" }

// hint says what a file is that is no program.
func (p *Program) hint() string {
	if p.form == "" {
		return ""
	}
	return "; it is " + p.form
}

// base is the last element of a URL or a path, for messages.
func base(name string) string {
	name, _, _ = strings.Cut(name, "?")
	return path.Base(name)
}
