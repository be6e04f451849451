package squashfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"spore/builder/tree"
	"spore/storage/pieces"
)

// Options decide how an image is linked.
type Options struct {
	// BuildTime is the image's own time, in seconds since the epoch.
	BuildTime uint32
	// BlockSize in bytes must be that of all packs in the tree; 0 means DefaultBlockSize.
	BlockSize uint32
	// Concurrency is how many copies and compressions run at once; 0 means GOMAXPROCS. The bytes do not depend on it.
	Concurrency int
	// First are paths of regular files whose data comes first, in this order; the data of the others lies behind. A path
	// that the tree does not have is passed over.
	First []string
}

// Result says what was written.
type Result struct {
	// Size is the length of the image in bytes: a multiple of 4096. Used is the same without the padding.
	Size, Used int64
	// Copied is how many bytes came from packs as they were, Fresh how many were compressed now (after compression).
	Copied, Fresh int64
	// Shared is how many bytes files have, before compression, whose data is in the image once for another file.
	Shared int64
	// Inodes and Fragments count what is in the image.
	Inodes, Fragments int
	// ContentID is a hash of all metadata and of the SHA-256 of all file data, known without reading the data again. Two
	// images with the same id hold the same tree. It is no hash of the image's bytes.
	ContentID [sha256.Size]byte
	// Pieces are the hashes of all bytes of the image, in their order: the same file of the same package is the same
	// pieces in another image. Those of packs are known without reading the data.
	Pieces pieces.Index
}

// Link prepares and writes an image.
func Link(w io.WriterAt, t *tree.Tree, o Options) (Result, error) {
	img, err := Prepare(t, o)
	if err != nil {
		return Result{}, err
	}
	return img.Result, img.Write(w)
}

// Prepare makes a squashfs image of zstd blocks of a tree. Regular files whose Content is a *PackedContent cost a copy
// of their blocks when it is written; all others are compressed now and held in memory until then. A tree that squashfs
// cannot hold is an error that names the path.
func Prepare(t *tree.Tree, o Options) (*Image, error) {
	img, err := prepare(t, o)
	if err != nil {
		return nil, fmt.Errorf("link a squashfs image: %w", err)
	}
	return img, nil
}

func prepare(t *tree.Tree, o Options) (*Image, error) {
	po, err := PackOptions{BlockSize: o.BlockSize, Concurrency: o.Concurrency}.withDefaults()
	if err != nil {
		return nil, err
	}
	root, nodes, err := plan(t)
	if err != nil {
		return nil, err
	}
	enc, err := newEncoder(po.BlockSize, po.Concurrency)
	if err != nil {
		return nil, err
	}
	fresh, err := packFresh(nodes, enc, po)
	if err != nil {
		return nil, err
	}
	options := compressorOptions()
	lay, err := place(nodes, o.First, fresh, po.BlockSize, int64(SuperblockSize+len(options)))
	if err != nil {
		return nil, err
	}
	tables, sb, err := buildTables(root, nodes, lay, enc)
	if err != nil {
		return nil, err
	}
	sb.MakeTime, sb.BlockSize = o.BuildTime, po.BlockSize
	used := int64(sb.BytesUsed)
	res := Result{
		Size: (used + padTo - 1) / padTo * padTo, Used: used, Copied: lay.copied, Fresh: lay.written, Shared: lay.shared,
		Inodes: len(nodes), Fragments: len(lay.frags), ContentID: contentID(sb.encode(), tables, lay),
	}
	return assemble(res, lay, append(sb.encode(), options...), tables, po.Concurrency), nil
}

// compressorOptions is the metadata block that follows the superblock where the level is not zstd's default of 15.
func compressorOptions() []byte {
	b := binary.LittleEndian.AppendUint16(nil, 4|storedMetadata)
	return binary.LittleEndian.AppendUint32(b, zstdLevel)
}

func contentID(sb, tables []byte, l *layout) (id [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "spore squashfs content\n")
	h.Write(sb)
	h.Write(tables)
	for _, f := range l.order {
		h.Write(f.sum[:])
	}
	h.Sum(id[:0])
	return id
}

// packFresh compresses what comes from no pack into a pack in memory, in the order of the tree. The nodes' content
// becomes packed content.
func packFresh(nodes []*node, enc *zstd.Encoder, o PackOptions) (*Pack, error) {
	var buf bytes.Buffer
	d := newDataWriter(&buf, 0, enc, o)
	fresh := &Pack{blockSize: o.BlockSize, lastFrag: -1}
	for _, n := range nodes {
		if n.inode.Type != tree.Regular {
			continue
		}
		if c, ok := n.inode.Content.(*PackedContent); ok {
			n.content = c
			continue
		}
		f, err := addContent(d, n.inode.Content)
		if err != nil {
			return nil, fmt.Errorf("compress %s: %w", n.path, err)
		}
		n.content = &PackedContent{pack: fresh, file: f}
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	fresh.r, fresh.frags = bytes.NewReader(buf.Bytes()), d.frags
	return fresh, nil
}

func addContent(d *dataWriter, c tree.Content) (*file, error) {
	if c == nil {
		return d.add(bytes.NewReader(nil))
	}
	r, err := c.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := d.add(r)
	if err != nil {
		return nil, err
	}
	if f.size != c.Size() {
		return nil, fmt.Errorf("it has %d bytes and said %d", f.size, c.Size())
	}
	return f, nil
}

// appendMetadata is what buildTables does with one finished metadata stream.
func appendMetadata(out []byte, offset int64, m *metadataWriter) (all []byte, start uint64) {
	start = uint64(offset) + uint64(len(out))
	return append(out, m.finish()...), start
}

// newMetadata returns an empty stream.
func newMetadata(enc *zstd.Encoder) *metadataWriter { return &metadataWriter{enc: enc} }
