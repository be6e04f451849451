// Package support writes what nodes gave for somebody else who is to help (the verb support) into one archive: a
// .tar.zst with a folder for each node and an index.html to read it by. What nodes send is data from outside: names of
// files are checked, and sizes are bounded.
package support

import (
	"archive/tar"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	_ "embed"

	"github.com/klauspost/compress/zstd"

	"spore/wire/nodeapi"
)

// Bounds of what one node may give: files, and bytes of all of them.
const (
	maxFiles = 1000
	maxBytes = 64 << 20
)

// maxName is how long the path of a file may be, in bytes.
const maxName = 200

// nameForm is that of a file's path: a few folders deep, without anything that leads out or is hidden.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*){0,5}$`)

// extensions are those of files that are read as they are. A browser runs what is in others, such as .html and .svg:
// they get one that it shows as text.
var extensions = []string{"", ".txt", ".json", ".yaml", ".yml", ".env"}

// Folder gathers the files of one node on the disk, since those of many nodes do not fit into memory.
type Folder struct {
	dir   string
	files map[string]bool
	bytes int64
}

// NewFolder begins with a node, in a directory that is there and has nothing of it yet.
func NewFolder(dir, node string) (*Folder, error) {
	at := filepath.Join(dir, node)
	if err := os.Mkdir(at, 0o700); err != nil {
		return nil, fmt.Errorf("gather what %s sends: %w", node, err)
	}
	return &Folder{dir: at, files: map[string]bool{}}, nil
}

// Append adds to the end of a file. One with an extension that a browser may run becomes a text.
func (f *Folder) Append(name, text string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fmt.Errorf("it sent a file with the name %.64q", name)
	}
	if !slices.Contains(extensions, path.Ext(name)) {
		name += ".txt"
	}
	if f.bytes += int64(len(text)); f.bytes > maxBytes {
		return fmt.Errorf("it sent more than %d bytes", maxBytes)
	}
	at := filepath.Join(f.dir, filepath.FromSlash(name))
	if !f.files[name] {
		if len(f.files) >= maxFiles {
			return fmt.Errorf("it sent more than %d files", maxFiles)
		}
		f.files[name] = true
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return fmt.Errorf("gather what it sends: %w", err)
		}
	}
	out, err := os.OpenFile(at, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("gather what it sends: %w", err)
	}
	_, err = io.WriteString(out, text)
	return errors.Join(err, out.Close())
}

// Node is what the index says of a node.
type Node struct {
	Name string
	// Problem says why something of it is missing.
	Problem string
	// System is the state of its systemd, Version the root that runs, and Roles its roles.
	System, Version string
	Roles           []string
	// Conditions are those that are not ok.
	Conditions []nodeapi.Condition
	// Files are the paths of its files, sorted; Write fills them in.
	Files []string
}

// Index is what the index says.
type Index struct {
	Cluster string
	// Made is when, by the operator's clock, and By is the version of the program.
	Made  time.Time
	By    string
	Nodes []Node
}

//go:embed index.html.tmpl
var indexText string

var indexTemplate = template.Must(template.New("index").Parse(indexText))

// Write writes the archive: the index, and the folder of each node that has one below dir.
func Write(w io.Writer, dir string, index Index) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	t := tar.NewWriter(z)
	for i := range index.Nodes {
		n := &index.Nodes[i]
		if n.Files, err = filesOf(filepath.Join(dir, n.Name)); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
	}
	var page strings.Builder
	if err := indexTemplate.Execute(&page, index); err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	top := "support-" + index.Cluster
	if err := add(t, top+"/index.html", int64(page.Len()), strings.NewReader(page.String()), index.Made); err != nil {
		return err
	}
	for _, n := range index.Nodes {
		for _, name := range n.Files {
			if err := addFile(t, top+"/"+n.Name+"/"+name, filepath.Join(dir, n.Name, filepath.FromSlash(name)), index.Made); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// filesOf lists the files below a directory, sorted; none where it is not there.
func filesOf(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular():
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			out = append(out, filepath.ToSlash(name))
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

func addFile(t *tar.Writer, name, path string, at time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return add(t, name, st.Size(), f, at)
}

func add(t *tar.Writer, name string, size int64, from io.Reader, at time.Time) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: at, Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("write %s into the archive: %w", name, err)
	}
	if _, err := io.CopyN(t, from, size); err != nil {
		return fmt.Errorf("write %s into the archive: %w", name, err)
	}
	return nil
}
