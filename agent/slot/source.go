package slot

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"debug/pe"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"spore/agent/format/squashfs"
	"spore/agent/format/verity"
	"spore/agent/kcmdline"
	"spore/wire/update"
)

// Source is an update as it came.
type Source struct {
	Head update.Head
	// Part and UKI are its content.
	Part, UKI *io.SectionReader
}

// OpenSource reads an update of size bytes and holds all of it to the signature by one of the keys, which are in base64 as the
// cluster part has them.
func OpenSource(r io.ReaderAt, size int64, signingKeys []string) (Source, error) {
	if len(signingKeys) == 0 {
		return Source{}, errors.New("this image was built without keys, so that no update can be known to be of this cluster; run `spore pki init`, build again, and flash")
	}
	var keys []ed25519.PublicKey
	for _, text := range signingKeys {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil {
			keys = append(keys, key)
		}
	}
	counted := &counter{r: io.NewSectionReader(r, 0, size)}
	buffered := bufio.NewReader(counted)
	head, err := update.Read(buffered, keys)
	if err != nil {
		return Source{}, err
	}
	at := counted.n - int64(buffered.Buffered())
	if want := at + head.Part.Size + head.UKI.Size; size != want {
		return Source{}, fmt.Errorf("%w: it has %d bytes and says %d", update.ErrForm, size, want)
	}
	s := Source{head, io.NewSectionReader(r, at, head.Part.Size), io.NewSectionReader(r, at+head.Part.Size, head.UKI.Size)}
	for _, c := range []struct {
		what string
		from io.Reader
		want update.Blob
	}{{"cluster part", s.Part, head.Part}, {"UKI", s.UKI, head.UKI}} {
		got, err := update.Sum(c.from)
		if err != nil {
			return Source{}, fmt.Errorf("read the update: %w", err)
		}
		if got != c.want {
			return Source{}, fmt.Errorf("its %s was changed on the way: %w", c.what, update.ErrSignature)
		}
	}
	return s, s.check()
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// check makes sure that the UKI starts what the head says, and that the cluster part is what the UKI will hold it to: what the
// kernel would refuse is to be refused here.
func (s Source) check() error {
	h := s.Head
	if _, err := pe.NewFile(s.UKI); err != nil {
		return fmt.Errorf("the UKI of the update is not a program that firmware starts: %w", err)
	}
	if ok, err := starts(s.UKI, h.RootHash, h.ClusterHash); err != nil {
		return err
	} else if !ok {
		return errors.New("the UKI of the update does not start its cluster part: its command line does not name it")
	}
	used, err := squashfs.Size(s.Part, s.Part.Size())
	if err != nil {
		return fmt.Errorf("the cluster part of the update: %w", err)
	}
	v, err := verity.Appended(s.Part, s.Part.Size(), used)
	if err != nil {
		return fmt.Errorf("the cluster part of the update: %w", err)
	}
	tree, err := v.ReadTree(s.Part, h.ClusterHash)
	if err == nil {
		err = v.CheckData(s.Part, tree)
	}
	if err != nil {
		return fmt.Errorf("the cluster part of the update: %w", err)
	}
	return nil
}

// maxCmdline bounds the command line in a UKI: the kernel takes less.
const maxCmdline = 64 << 10

// starts tells whether a UKI starts a root and a cluster part by its command line, as stage1 will read it. The words
// count in that section alone: what stands in a program's table of signatures no signature covers, and nothing starts
// it.
func starts(program io.ReaderAt, rootHash, clusterHash string) (bool, error) {
	if _, err := program.ReadAt(make([]byte, 1), 0); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read a UKI: %w", err)
	}
	f, err := pe.NewFile(program)
	if err != nil {
		return false, nil // It is none.
	}
	var lines []*pe.Section
	for _, s := range f.Sections {
		if s.Name == ".cmdline" {
			lines = append(lines, s)
		}
	}
	if len(lines) != 1 || lines[0].Size > maxCmdline {
		return false, nil
	}
	text, err := lines[0].Data()
	if err != nil {
		return false, fmt.Errorf("read the command line of a UKI: %w", err)
	}
	args, err := kcmdline.Parse(string(bytes.TrimRight(text, "\x00")))
	return err == nil && sameHash(args.RootHash, rootHash) && sameHash(args.ClusterHash, clusterHash), nil
}

// maxPCRKey bounds a public key in a UKI.
const maxPCRKey = 64 << 10

// pcrKey is the public key for signatures of PCR 11 that a UKI brings; nothing when it brings none.
func pcrKey(program io.ReaderAt) ([]byte, error) {
	f, err := pe.NewFile(program)
	if err != nil {
		return nil, err
	}
	section := f.Section(".pcrpkey")
	if section == nil {
		return nil, nil
	}
	if section.Size > maxPCRKey {
		return nil, fmt.Errorf("its public key for PCR 11 has %d bytes", section.Size)
	}
	data, err := section.Data()
	return bytes.TrimRight(data, "\x00"), err
}

// sameHash tells whether two hashes are the same.
func sameHash(a, b string) bool { return strings.EqualFold(a, b) }
