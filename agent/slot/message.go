package slot

import (
	"bufio"
	"bytes"
	"cmp"
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

// Message is an update as it comes: its head, whose signature holds, and some of its objects.
type Message struct {
	Head    update.Head
	objects *bufio.Reader
}

// OpenMessage reads the head of a message and holds it to the signature by one of the keys, which are in base64 as
// the cluster part has them.
func OpenMessage(r io.Reader, signingKeys []string) (*Message, error) {
	if len(signingKeys) == 0 {
		return nil, errors.New("this image was built without keys, so that no update can be known to be of this " +
			"cluster; run `spore pki init`, build again, and flash")
	}
	var keys []ed25519.PublicKey
	for _, text := range signingKeys {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil {
			keys = append(keys, key)
		}
	}
	objects := bufio.NewReaderSize(r, 64<<10)
	head, err := update.Read(objects, keys)
	if err != nil {
		return nil, err
	}
	return &Message{head, objects}, nil
}

// source is an update of which UKI, cluster part and boot loader are there.
type source struct {
	Head update.Head
	// Part, UKI and Loader are its content. Loader is empty where the update brings none.
	Part, UKI, Loader *io.SectionReader
}

// hold holds cluster part and boot loader to the hashes of the head.
func (s source) hold() error {
	return cmp.Or(s.holdTo("cluster part", s.Part, s.Head.Part), s.holdTo("boot loader", s.Loader, s.Head.Loader))
}

// holdUKI holds the UKI to its hash.
func (s source) holdUKI() error { return s.holdTo("UKI", s.UKI, s.Head.UKI) }

func (s source) holdTo(what string, content *io.SectionReader, want update.Blob) error {
	if want == (update.Blob{}) {
		return nil
	}
	got, err := update.Sum(io.NewSectionReader(content, 0, content.Size()))
	if err != nil {
		return fmt.Errorf("read the update: %w", err)
	}
	if got != want {
		return fmt.Errorf("its pieces do not make up the %s that was signed: %w", what, update.ErrForm)
	}
	return nil
}

// check refuses a UKI that does not start what the head says, and a cluster part that is not what the UKI will hold it
// to: what the kernel would refuse is to be refused here.
func (s source) check() error {
	if err := s.sound(); err != nil {
		return Refusal{err.Error()}
	}
	return nil
}

func (s source) sound() error {
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

// starts tells whether a UKI starts a root and a cluster part.
func starts(program io.ReaderAt, rootHash, clusterHash string) (bool, error) {
	root, cluster, err := named(program)
	return err == nil && sameHash(root, rootHash) && sameHash(cluster, clusterHash), err
}

// named are the hashes of root and cluster part that a UKI starts by its command line, as stage1 will read it; empty
// where it is none of ours. The words count in that section alone: what stands in a program's table of signatures no
// signature covers, and nothing starts it.
func named(program io.ReaderAt) (rootHash, clusterHash string, err error) {
	if _, err := program.ReadAt(make([]byte, 1), 0); err != nil && !errors.Is(err, io.EOF) {
		return "", "", fmt.Errorf("read a UKI: %w", err)
	}
	f, err := pe.NewFile(program)
	if err != nil {
		return "", "", nil // It is none.
	}
	var lines []*pe.Section
	for _, s := range f.Sections {
		if s.Name == ".cmdline" {
			lines = append(lines, s)
		}
	}
	if len(lines) != 1 || lines[0].Size > maxCmdline {
		return "", "", nil
	}
	text, err := lines[0].Data()
	if err != nil {
		return "", "", fmt.Errorf("read the command line of a UKI: %w", err)
	}
	args, err := kcmdline.Parse(string(bytes.TrimRight(text, "\x00")))
	if err != nil {
		return "", "", nil
	}
	return args.RootHash, args.ClusterHash, nil
}

// kernelParts are the sections that make a kernel another one.
var kernelParts = []string{".linux", ".initrd", ".ucode"}

// sameKernel tells whether two UKIs have the same kernel, initramfs and microcode.
func sameKernel(a, b io.ReaderAt) (bool, error) {
	one, err := pe.NewFile(a)
	if err != nil {
		return false, fmt.Errorf("read a UKI: %w", err)
	}
	other, err := pe.NewFile(b)
	if err != nil {
		return false, fmt.Errorf("read a UKI: %w", err)
	}
	for _, name := range kernelParts {
		same, err := sameContent(one.Section(name), other.Section(name))
		if err != nil {
			return false, fmt.Errorf("read a UKI: %w", err)
		}
		if !same {
			return false, nil
		}
	}
	return true, nil
}

// sameContent compares two sections; one that is not there is as one without content.
func sameContent(a, b *pe.Section) (bool, error) {
	size := sizeOfSection(a)
	if size != sizeOfSection(b) {
		return false, nil
	}
	one, other := make([]byte, min(piece, size)), make([]byte, min(piece, size))
	for at := int64(0); at < size; at += piece {
		n := min(piece, size-at)
		for _, r := range []struct {
			section *pe.Section
			into    []byte
		}{{a, one[:n]}, {b, other[:n]}} {
			if got, err := r.section.ReadAt(r.into, at); int64(got) < n {
				return false, err
			}
		}
		if !bytes.Equal(one[:n], other[:n]) {
			return false, nil
		}
	}
	return true, nil
}

func sizeOfSection(s *pe.Section) int64 {
	if s == nil {
		return 0
	}
	return int64(s.Size)
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
