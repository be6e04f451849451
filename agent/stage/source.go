package stage

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"debug/pe"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"spore/agent/stage1/squashfs"
	"spore/agent/stage1/verity"
	"spore/update"
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
	if ok, err := starts(io.NewSectionReader(s.UKI, 0, s.UKI.Size()), h.RootHash, h.ClusterHash); err != nil {
		return err
	} else if !ok {
		return errors.New("the UKI of the update does not start its cluster part")
	}
	if _, err := pe.NewFile(s.UKI); err != nil {
		return fmt.Errorf("the UKI of the update is no program that firmware starts: %w", err)
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

// starts tells whether a UKI has a root and a cluster part in its command line, as `spore build` writes it.
func starts(r io.Reader, rootHash, clusterHash string) (bool, error) {
	want := []byte("roothash=" + rootHash + " spore.clusterhash=" + clusterHash + " ")
	buf, kept := make([]byte, 1<<20), 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		if bytes.Contains(buf[:kept+n], want) {
			return true, nil
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read a UKI: %w", err)
		}
		kept = copy(buf, buf[len(buf)-len(want):])
	}
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

// directorySecurity is the entry of the table of signatures (PE format, "Optional header data directories").
const directorySecurity = 4

// maxSignature bounds a table of signatures.
const maxSignature = 1 << 20

// certificates are those in the signature of a program for UEFI, DER; none when it is not signed. It proves nothing: the
// firmware does.
func certificates(program io.ReaderAt) ([][]byte, error) {
	f, err := pe.NewFile(program)
	if err != nil {
		return nil, err
	}
	header, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || header.NumberOfRvaAndSizes <= directorySecurity {
		return nil, errors.New("it is no program for this kind of machine")
	}
	dir := header.DataDirectory[directorySecurity]
	if dir.Size == 0 {
		return nil, nil
	}
	if dir.Size < 8 || dir.Size > maxSignature {
		return nil, fmt.Errorf("its table of signatures has %d bytes", dir.Size)
	}
	table := make([]byte, dir.Size)
	// Unlike in all other entries, this is a place in the file.
	if _, err := program.ReadAt(table, int64(dir.VirtualAddress)); err != nil {
		return nil, fmt.Errorf("read its table of signatures: %w", err)
	}
	return signers(table)
}

// signers takes the certificates out of a WIN_CERTIFICATE (UEFI 2.10, section 32.2.4) with PKCS #7 signed data (RFC 2315).
func signers(table []byte) ([][]byte, error) {
	size := binary.LittleEndian.Uint32(table)
	if size < 8 || int64(size) > int64(len(table)) {
		return nil, errors.New("its signature is cut short")
	}
	var content struct {
		Type asn1.ObjectIdentifier
		Data asn1.RawValue `asn1:"explicit,tag:0"`
	}
	if _, err := asn1.Unmarshal(table[8:size], &content); err != nil {
		return nil, fmt.Errorf("its signature: %w", err)
	}
	var data struct {
		Version      int
		Digests      asn1.RawValue
		Content      asn1.RawValue
		Certificates asn1.RawValue `asn1:"optional,tag:0"`
		Rest         asn1.RawValue `asn1:"optional,tag:1"`
		Signers      asn1.RawValue
	}
	if _, err := asn1.Unmarshal(content.Data.FullBytes, &data); err != nil {
		if _, err = asn1.Unmarshal(content.Data.Bytes, &data); err != nil {
			return nil, fmt.Errorf("its signature: %w", err)
		}
	}
	var out [][]byte
	for rest := data.Certificates.Bytes; len(rest) > 0; {
		var one asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &one); err != nil {
			return nil, fmt.Errorf("its signature: %w", err)
		}
		out = append(out, one.FullBytes)
	}
	return out, nil
}

// sameHash tells whether two hashes are the same.
func sameHash(a, b string) bool { return strings.EqualFold(a, b) }
