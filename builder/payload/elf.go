package payload

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// needs is what a file has to find in the image to be started.
type needs struct {
	// form is "program", "script", another form in words that is known to be mistaken for one, or nothing.
	form        string
	interpreter string
	libraries   []string
}

// Bounds on what is read of a file.
const (
	maxHead      = 4096
	maxInterp    = 4096 // PATH_MAX
	maxLibraries = 1000
	maxElf       = 1 << 30
)

// mistaken are forms that people name where a program belongs, by their first bytes.
var mistaken = []struct{ magic, form string }{
	{"PK\x03\x04", "a zip archive: name its files with the key archive"},
	{"\x1f\x8b", "compressed with gzip: name the files of an archive with the key archive, or decompress it"},
	{"\xfd7zXZ\x00", "compressed with xz: name the files of an archive with the key archive, or decompress it"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd: name the files of an archive with the key archive, or decompress it"},
	{"!<arch>\n", "a Debian package or a library for linking: name packages in image.yaml"},
	{"MZ", "a program for Windows"},
	{"\xcf\xfa\xed\xfe", "a program for macOS"},
	{"\xca\xfe\xba\xbe", "a program for macOS, or a class of Java"},
	{"<", "a page or a text of HTML or XML: the address may be that of a page that leads to the file"},
}

// inspect finds out what a file is. A program for another machine than the image's is an error.
func inspect(r io.ReaderAt) (needs, error) {
	head := make([]byte, maxHead)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return needs{}, err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return inspectELF(r)
	case bytes.HasPrefix(head, []byte("#!")):
		return inspectScript(head), nil
	}
	for _, m := range mistaken {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return needs{form: m.form}, nil
		}
	}
	return needs{}, nil
}

// inspectScript reads the first line of a script (execve(2), "Interpreter scripts"); env(1) stands for what it starts.
func inspectScript(head []byte) needs {
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	words := strings.Fields(string(line))
	switch {
	case len(words) == 0:
		return needs{}
	case path.Base(words[0]) != "env":
		return needs{form: "script", interpreter: words[0]}
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return needs{form: "script", interpreter: w}
		}
	}
	return needs{form: "script", interpreter: words[0]}
}

// inspectELF reads the headers of a program or a library (System V ABI, chapter 5).
func inspectELF(r io.ReaderAt) (needs, error) {
	f, err := elf.NewFile(io.NewSectionReader(r, 0, maxElf))
	if err != nil {
		return needs{}, fmt.Errorf("is damaged: %w", err)
	}
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return needs{}, fmt.Errorf("is for %s, and the image is for x86-64 (amd64); take the file for linux/amd64",
			machine(f))
	}
	out := needs{form: "a library or an object file of ELF"}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if p.Filesz > maxInterp {
			return needs{}, errors.New("is damaged: the name of its interpreter has no end")
		}
		name := make([]byte, p.Filesz)
		if _, err := io.ReadFull(p.Open(), name); err != nil {
			return needs{}, fmt.Errorf("is damaged: %w", err)
		}
		out.interpreter = strings.TrimRight(string(name), "\x00")
	}
	if f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN && f.Entry != 0 {
		out.form = "program"
	}
	if out.interpreter == "" {
		return out, nil
	}
	// One that says where its libraries are brings them along, or knows better.
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if set, err := f.DynString(tag); err != nil || len(set) > 0 {
			return out, nil
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return needs{}, fmt.Errorf("is damaged: %w", err)
	}
	if len(libraries) > maxLibraries {
		return needs{}, fmt.Errorf("needs more than %d libraries", maxLibraries)
	}
	out.libraries = libraries
	return out, nil
}

// machine is an architecture in words.
func machine(f *elf.File) string {
	name := strings.ToLower(strings.TrimPrefix(f.Machine.String(), "EM_"))
	switch f.Machine {
	case elf.EM_AARCH64:
		name = "arm64 (aarch64)"
	case elf.EM_386:
		name = "i386"
	case elf.EM_X86_64:
		name = "x32"
	}
	return name
}
