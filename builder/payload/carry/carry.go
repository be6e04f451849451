// Package carry moves what is slow to make from one machine's store to another's: compiled programs and jars of payloads,
// in a tar archive (POSIX.1-1988, ustar) that is compressed with Zstandard (RFC 8878). A member is called NAME/KEY, by the
// name and the key of the program. Nothing is believed of an archive: what it brings is held against the checksums that are
// committed beside the pins (payload.Program, Sum), on the way out and on the way in.
package carry

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"

	"github.com/klauspost/compress/zstd"

	"spore/builder/payload"
	"spore/builder/store"
)

const (
	// maxMemory bounds the decoder, in bytes; the encoder's window has 8 MiB.
	maxMemory = 64 << 20
	// maxMembers bounds an archive.
	maxMembers = 10_000
)

// member is the form of a name in an archive: NAME/KEY.
var member = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*/[0-9a-f]{64}$`)

// ErrNothing is returned when an archive would have no program, or has none that is wanted.
var ErrNothing = errors.New("all compiled payloads are missing, or belong to other pins")

// Result says what was carried.
type Result struct {
	// Programs and Jars are their numbers; Size is that of both before compression, in bytes.
	Programs, Jars int
	Size           int64
	// Present were in the store already.
	Present int
	// Missing are the names of programs that the store does not have.
	Missing []string
	// Unpinned are the names of programs whose bytes no checksum says: the pins are others than those that the checksums
	// are of, or the archive's were.
	Unpinned []string
}

func (r *Result) add(p payload.Program) {
	if p.Compiled {
		r.Programs++
	} else {
		r.Jars++
	}
	r.Size += p.Sum.Size
}

// Export writes the given programs, as far as the store has them. One that is not what its checksum says is an error.
func Export(w io.Writer, st *store.Store, programs []payload.Program) (Result, error) {
	var r Result
	packed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return r, err
	}
	defer packed.Close()
	archive := tar.NewWriter(packed)
	for _, p := range programs {
		switch {
		case p.Sum == nil:
			r.Unpinned = append(r.Unpinned, p.Name)
		case !st.Has(p.Key):
			r.Missing = append(r.Missing, p.Name)
		default:
			if err := exportOne(archive, st, p); err != nil {
				return r, fmt.Errorf("export %s: %w", p.Name, err)
			}
			r.add(p)
		}
	}
	if r.Programs+r.Jars == 0 {
		return r, ErrNothing
	}
	return r, errors.Join(archive.Close(), packed.Close())
}

// exportOne writes a program with fixed owner, mode and time, so that the same programs make the same archive.
func exportOne(archive *tar.Writer, st *store.Store, p payload.Program) error {
	f, err := st.Open(p.Key)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != p.Sum.Size {
		return differs(p, fmt.Sprintf("%d bytes", info.Size()))
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: memberName(p), Mode: 0o644, Size: p.Sum.Size}); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(archive, h), f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != p.Sum.SHA256 {
		return differs(p, "sha256 "+got)
	}
	return nil
}

// Import puts the programs of an archive into the store, each when it is what its checksum says; one that is not is an
// error, and is not kept. Programs of other pins are left out.
func Import(r io.Reader, st *store.Store, programs []payload.Program) (Result, error) {
	wanted := map[string]payload.Program{}
	for _, p := range programs {
		wanted[memberName(p)] = p
	}
	var result Result
	err := members(r, func(name string, size int64, content io.Reader) error {
		p, known := wanted[name]
		switch {
		case !known || p.Sum == nil:
			result.Unpinned = append(result.Unpinned, path.Dir(name))
			return nil
		case st.Has(p.Key):
			result.Present++
			return nil
		case size != p.Sum.Size:
			return fmt.Errorf("import %s: %w", p.Name, differs(p, fmt.Sprintf("%d bytes", size)))
		}
		if err := st.Put(p.Key, func(w *os.File) error { return copyChecked(w, content, p) }); err != nil {
			return fmt.Errorf("import %s: %w", p.Name, err)
		}
		result.add(p)
		return nil
	})
	if err == nil && result.Programs+result.Jars+result.Present == 0 {
		err = ErrNothing
	}
	return result, err
}

func copyChecked(w io.Writer, content io.Reader, p payload.Program) error {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, h), content); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != p.Sum.SHA256 {
		return differs(p, "sha256 "+got)
	}
	return nil
}

// differs says what is wrong with a program's bytes.
func differs(p payload.Program, got string) error {
	return fmt.Errorf("it has %s, and the pins of payload %s say %d bytes with sha256 %s: it is damaged or forged",
		got, p.Payload, p.Sum.Size, p.Sum.SHA256)
}

func memberName(p payload.Program) string { return p.Name + "/" + p.Key.String() }

// members hands over each file of an archive.
func members(r io.Reader, each func(name string, size int64, content io.Reader) error) error {
	unpacked, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemory), zstd.WithDecoderLowmem(true))
	if err != nil {
		return notAnArchive(err)
	}
	defer unpacked.Close()
	archive := tar.NewReader(unpacked)
	for n := 0; ; n++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return notAnArchive(err)
		}
		switch {
		case header.Typeflag != tar.TypeReg || !member.MatchString(header.Name):
			return notAnArchive(fmt.Errorf("%.200q is something else than a file of a payload", header.Name))
		case n == maxMembers:
			return notAnArchive(fmt.Errorf("it has more than %d files", maxMembers))
		}
		if err := each(header.Name, header.Size, archive); err != nil {
			return err
		}
	}
}

func notAnArchive(err error) error {
	return fmt.Errorf("it is damaged, or was not written by spore cache export: %w", err)
}
