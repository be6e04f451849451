package squashfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestSuperblockRefusals(t *testing.T) {
	tr := sampleTree(t)
	name, res := linkFile(t, tr, Options{BuildTime: 17})
	image, err := os.ReadFile(name)
	require.NoError(t, err)
	sb, err := ParseSuperblock(image)
	require.NoError(t, err)
	require.EqualValues(t, 17, sb.MakeTime)
	require.EqualValues(t, res.Used, sb.BytesUsed)
	require.EqualValues(t, DefaultBlockSize, sb.BlockSize)
	require.EqualValues(t, compressionZstd, sb.Compression)
	require.Equal(t, image[:SuperblockSize], sb.encode())

	le := binary.LittleEndian
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   string
	}{
		"too short":                  {func(b []byte) []byte { return b[:95] }, "95 bytes"},
		"another magic":              {func(b []byte) []byte { b[0]++; return b }, "no squashfs magic"},
		"version 3":                  {func(b []byte) []byte { b[28] = 3; return b }, "version 3.0"},
		"blocks of 3000":             {func(b []byte) []byte { le.PutUint32(b[12:], 3000); return b }, "block size 3000"},
		"blocks of 2 MiB":            {func(b []byte) []byte { le.PutUint32(b[12:], 2<<20); return b }, "block size 2097152"},
		"a wrong logarithm":          {func(b []byte) []byte { b[22]++; return b }, "logarithm"},
		"no inodes":                  {func(b []byte) []byte { le.PutUint32(b[4:], 0); return b }, "no inodes"},
		"an impossible size":         {func(b []byte) []byte { le.PutUint64(b[40:], 1<<63); return b }, "impossible size"},
		"an id table outside":        {func(b []byte) []byte { le.PutUint64(b[48:], uint64(res.Used)); return b }, "id table"},
		"an inode table in the head": {func(b []byte) []byte { le.PutUint64(b[64:], 95); return b }, "inode table at 95"},
		"no fragment table":          {func(b []byte) []byte { le.PutUint64(b[80:], invalidBlock); return b }, "fragment table"},
		"tables in another order":    {func(b []byte) []byte { copy(b[72:80], b[64:72]); return b }, "overlap"},
		"a root inode outside":       {func(b []byte) []byte { le.PutUint64(b[32:], math.MaxUint64); return b }, "root inode"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSuperblock(c.change(bytes.Clone(image[:SuperblockSize])))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// FuzzSuperblock shows that what is accepted is consistent.
func FuzzSuperblock(f *testing.F) {
	sb := Superblock{Inodes: 1, BlockSize: 1 << 17, IDs: 1, BytesUsed: 4096, IDTable: 400, InodeTable: 100, DirectoryTable: 200,
		XattrTable: invalidBlock, FragmentTable: invalidBlock, ExportTable: 300}
	f.Add(sb.encode())
	f.Add(sb.encode()[:50])
	f.Fuzz(func(t *testing.T, b []byte) {
		sb, err := ParseSuperblock(b)
		if err != nil {
			return
		}
		again, err := ParseSuperblock(sb.encode())
		require.NoError(t, err)
		require.Equal(t, sb, again)
		require.Less(t, sb.InodeTable, sb.BytesUsed)
	})
}

// smallPack is a pack with each kind of entry.
func smallPack(t testing.TB) []byte {
	tr := tree.New()
	require.NoError(t, tr.WriteFile("/small", prose(1, 100), 0o644, "deb:a_1"))
	require.NoError(t, tr.WriteFile("/large", prose(2, 3*testBlock+5), 0o644, "deb:b_2"))
	require.NoError(t, tr.WriteFile("/sparse", sparse(4), 0o644, ""))
	require.NoError(t, tr.Link("/small", "/link"))
	require.NoError(t, tr.Symlink("small", "/symlink", ""))
	require.NoError(t, tr.Add("/null", &tree.Inode{Type: tree.CharDevice, Major: 1, Minor: 3, Xattrs: []tree.Xattr{{Name: "user.x", Value: []byte("y")}}}))
	_, b := packed(t, tr, PackOptions{BlockSize: testBlock})
	return b
}

// seal gives a pack with a changed index its right checksum and length.
func seal(data, index []byte) []byte {
	sum := sha256.Sum256(index)
	le := binary.LittleEndian
	b := append(bytes.Clone(data), index...)
	b = le.AppendUint64(b, uint64(len(data)))
	b = le.AppendUint64(b, uint64(len(index)))
	b = append(b, sum[:]...)
	b = le.AppendUint64(b, 0)
	return append(b, packMagic...)
}

// unseal splits a pack into data and index.
func unseal(b []byte) (data, index []byte) {
	at := binary.LittleEndian.Uint64(b[len(b)-packFooter:])
	return b[:at], b[at : len(b)-packFooter]
}

func open(b []byte) (*Pack, error) { return OpenPack(bytes.NewReader(b), int64(len(b))) }

func TestADamagedPackIsRefused(t *testing.T) {
	good := smallPack(t)
	le := binary.LittleEndian
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   string
	}{
		"nothing":                  {func(b []byte) []byte { return nil }, "too few"},
		"cut short":                {func(b []byte) []byte { return b[:len(b)-1] }, "an incomplete one"},
		"another magic":            {func(b []byte) []byte { b[0]++; return b }, "no magic"},
		"an odd block size":        {func(b []byte) []byte { b[8]++; return b }, "block size 4097"},
		"an index outside":         {func(b []byte) []byte { le.PutUint64(b[len(b)-64:], 1<<40); return b }, "does not fit"},
		"an index that is too big": {func(b []byte) []byte { le.PutUint64(b[len(b)-56:], 1<<40); return b }, "does not fit"},
		"sizes that wrap around":   {func(b []byte) []byte { le.PutUint64(b[len(b)-64:], math.MaxUint64); return b }, "does not fit"},
		"a flip in the index":      {func(b []byte) []byte { b[len(b)-packFooter-1] ^= 1; return b }, "wrong checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(c.change(bytes.Clone(good)))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAnIndexThatLiesIsRefused(t *testing.T) {
	data, _ := unseal(smallPack(t))
	frag := []fragment{{start: packHeader, size: 100}}
	node := func(f *file) []packNode { return []packNode{{inode: tree.Inode{Type: tree.Regular}, file: f}} }
	one := []packName{{"/f", 0}}
	for name, c := range map[string]struct {
		nodes []packNode
		names []packName
		frags []fragment
		want  string
	}{
		"a fragment before the data":     {nil, nil, []fragment{{start: 0, size: 10}}, "outside of the data"},
		"a fragment behind the data":     {nil, nil, []fragment{{start: int64(len(data)) - 5, size: 10}}, "outside of the data"},
		"a fragment larger than a block": {nil, nil, []fragment{{start: packHeader, size: testBlock + 1}}, "a block of 4097 bytes"},
		"a file past its fragment":       {node(&file{size: 100, fragOff: testBlock - 50}), one, frag, "of a fragment"},
		"a file in no fragment":          {node(&file{size: 100, frag: 1}), one, frag, "2 where 1 is the most"},
		"blocks behind the data":         {node(&file{size: 100, frag: -1, start: math.MaxInt64, blocks: []uint32{50}}), one, nil, "outside of the data"},
		"fewer blocks than the size has": {node(&file{size: math.MaxInt64, frag: -1, blocks: []uint32{50}}), one, nil, "ends too early"},
		"a path of no inode":             {nil, one, nil, "a path of inode 0, and there are 0"},
		"a path with dots":               {node(&file{frag: -1}), []packName{{"/../f", 0}}, nil, "not an absolute and clean path"},
		"a relative path":                {node(&file{frag: -1}), []packName{{"f", 0}}, nil, "not an absolute and clean path"},
		"an inode that cannot be":        {[]packNode{{inode: tree.Inode{Type: 77}}}, nil, nil, "unknown inode type 77"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(seal(data, encodeIndex(c.nodes, c.names, c.frags)))
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, errIndex)
		})
	}
}

func TestDamagedDataOfAPackIsSeenWhenRead(t *testing.T) {
	good := smallPack(t)
	data, _ := unseal(good)
	for at := packHeader; at < len(data); at += 7 {
		b := bytes.Clone(good)
		b[at] ^= 0xff
		p, err := open(b)
		require.NoError(t, err)
		var failed int
		for _, n := range p.Entries() {
			if n.Type != tree.Regular {
				continue
			}
			r, err := n.Content.Open()
			require.NoError(t, err)
			if _, err := io.Copy(io.Discard, r); err != nil {
				failed++
			}
		}
		require.NotZero(t, failed, "flip at %d", at)
	}
}

// FuzzOpenPack opens what a fuzzer makes of an index, reads all files and links them.
func FuzzOpenPack(f *testing.F) {
	data, index := unseal(smallPack(f))
	f.Add(index, data)
	f.Add(index[:len(index)/2], data)
	f.Add([]byte{0, 0, 0, 0}, data)
	f.Fuzz(func(t *testing.T, index, data []byte) {
		if len(data) < packHeader {
			return
		}
		p, err := open(seal(data, index))
		if err != nil {
			return
		}
		tr := tree.New()
		var total int64
		for name, n := range p.Entries() {
			if n.Type == tree.Regular {
				if total += n.Content.Size(); total > 1<<24 {
					return // a small index can promise many blocks of zeros
				}
				r, err := n.Content.Open()
				require.NoError(t, err)
				if got, err := io.Copy(io.Discard, r); err == nil {
					require.Equal(t, n.Content.Size(), got)
				}
			}
			if tr.Add(name, n) != nil {
				return
			}
		}
		_, _ = Link(discardAt{}, tr, Options{BlockSize: p.BlockSize()})
	})
}

// discardAt throws an image away.
type discardAt struct{}

func (discardAt) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

func TestPackRefusals(t *testing.T) {
	file := &tree.Inode{Type: tree.Regular}
	for name, c := range map[string]struct {
		do   func(p *PackWriter) error
		want string
	}{
		"a relative path":       {func(p *PackWriter) error { return p.Add("a", file, nil) }, "pack a: not an absolute"},
		"a path with dots":      {func(p *PackWriter) error { return p.Add("/a/../b", file, nil) }, "not an absolute and clean"},
		"a path twice":          {func(p *PackWriter) error { return errors.Join(p.Add("/a", file, nil), p.Add("/a", file, nil)) }, "pack /a: it appears twice"},
		"a link to what is not": {func(p *PackWriter) error { return p.AddLink("/b", "/a") }, "not added before"},
		"a link to a directory": {func(p *PackWriter) error { return errors.Join(p.Add("/d", &tree.Inode{}, nil), p.AddLink("/e", "/d")) }, "is a directory"},
		"data that ends badly": {func(p *PackWriter) error {
			return p.Add("/a", file, io.MultiReader(strings.NewReader("x"), badReader{}))
		}, "pack /a: bad sector"},
		"a file after bad data":   {func(p *PackWriter) error { _ = p.Add("/a", file, badReader{}); return p.Add("/b", file, nil) }, "bad sector"},
		"closing after bad data":  {func(p *PackWriter) error { _ = p.Add("/a", file, badReader{}); return p.Close() }, "bad sector"},
		"a file after the end":    {func(p *PackWriter) error { _ = p.Close(); return p.Add("/b", file, nil) }, "closed"},
		"an inode of no squashfs": {func(p *PackWriter) error { return p.Add("/b", &tree.Inode{Type: tree.Symlink}, nil) }, "a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := NewPackWriter(io.Discard, PackOptions{})
			require.NoError(t, err)
			require.ErrorContains(t, c.do(p), c.want)
		})
	}
	_, err := NewPackWriter(io.Discard, PackOptions{BlockSize: 5000})
	require.ErrorContains(t, err, "block size 5000")
}

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, errors.New("bad sector") }

func TestAFullDiskIsAnError(t *testing.T) {
	tr := sampleTree(t)
	require.ErrorContains(t, PackTree(&fullWriter{room: 20}, tr, PackOptions{BlockSize: testBlock}), "no space left")
	_, err := Link(fullAt{}, tr, Options{})
	require.ErrorContains(t, err, "no space left")
}

type fullWriter struct{ room int }

func (w *fullWriter) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

type fullAt struct{}

func (fullAt) WriteAt([]byte, int64) (int, error) { return 0, errors.New("no space left") }

func TestTheFormatOfAPackNamesItsBlockSize(t *testing.T) {
	require.Equal(t, PackOptions{}.Format(), PackOptions{BlockSize: DefaultBlockSize}.Format())
	require.NotEqual(t, PackOptions{}.Format(), PackOptions{BlockSize: testBlock}.Format())
	require.Equal(t, PackOptions{}.Format(), PackOptions{Concurrency: 9}.Format())
}

func benchmarkTree(b *testing.B) (*tree.Tree, int64) {
	tr := tree.New()
	var total int64
	for i := range 3000 {
		n := 1000 + i*i%70000
		total += int64(n)
		require.NoError(b, tr.WriteFile(fmt.Sprintf("/dir%d/%d", i%50, i), prose(int64(i), n), 0o644, ""))
	}
	for i := range 8 {
		total += 8 << 20
		require.NoError(b, tr.WriteFile(fmt.Sprintf("/large/%d", i), append(prose(int64(i), 4<<20), noise(int64(i), 4<<20)...), 0o644, ""))
	}
	return tr, total
}

func BenchmarkPack(b *testing.B) {
	tr, total := benchmarkTree(b)
	b.SetBytes(total)
	for b.Loop() {
		require.NoError(b, PackTree(io.Discard, tr, PackOptions{}))
	}
}

func BenchmarkLink(b *testing.B) {
	tr, total := benchmarkTree(b)
	linked, _ := packed(b, tr, PackOptions{})
	b.SetBytes(total)
	for b.Loop() {
		_, err := Link(discardAt{}, linked, Options{})
		require.NoError(b, err)
	}
}
