package squashfs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"

	"spore/builder/tree"
)

// packFormat names the format of packs and what decides their bytes. It changes when either does.
const packFormat = "squashfs pack 2, zstd default"

const (
	packMagic  = "SPOREPK2"
	packHeader = 16 // magic, block size, zero
	packFooter = 64 // index offset, index length, SHA-256 of the index, data end, magic
)

// PackOptions decide how a pack is written. The zero value is right.
type PackOptions struct {
	// BlockSize in bytes is that of the images that the pack is for; 0 means DefaultBlockSize.
	BlockSize uint32
	// Concurrency is how many blocks are compressed at once; 0 means GOMAXPROCS. The bytes do not depend on it.
	Concurrency int
}

func (o PackOptions) withDefaults() (PackOptions, error) {
	if o.BlockSize == 0 {
		o.BlockSize = DefaultBlockSize
	}
	if o.Concurrency <= 0 {
		o.Concurrency = runtime.GOMAXPROCS(0)
	}
	return o, checkBlockSize(o.BlockSize)
}

// Format names everything besides its files that decides the bytes of a pack: it belongs into the key under which a
// pack is cached.
func (o PackOptions) Format() string {
	if o.BlockSize == 0 {
		o.BlockSize = DefaultBlockSize
	}
	return fmt.Sprintf("%s, blocks of %d", packFormat, o.BlockSize)
}

// A PackWriter compresses files into a pack. It must be closed; a pack whose writer was not closed cannot be opened.
type PackWriter struct {
	data  *dataWriter
	nodes []packNode
	names []packName
	seen  map[string]int // path to its node
	err   error
}

// packNode is one inode of a pack.
type packNode struct {
	inode tree.Inode // without Content
	file  *file      // of a regular file
}

// packName is one path of a pack.
type packName struct {
	path string
	node int
}

// NewPackWriter begins a pack.
func NewPackWriter(w io.Writer, o PackOptions) (*PackWriter, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("make a pack: %w", err)
	}
	head := make([]byte, packHeader)
	copy(head, packMagic)
	binary.LittleEndian.PutUint32(head[8:], o.BlockSize)
	if _, err := w.Write(head); err != nil {
		return nil, fmt.Errorf("write the head of a pack: %w", err)
	}
	enc, err := newEncoder(o.BlockSize, o.Concurrency)
	if err != nil {
		return nil, err
	}
	return &PackWriter{data: newDataWriter(w, packHeader, enc, o), seen: map[string]int{}}, nil
}

// Add puts one inode at an absolute, clean path. The data of a regular file is read from data to its end; where data is
// nil it is what n.Content holds, or nothing. The inode is copied and its Content is not kept. A path may come only
// once.
func (p *PackWriter) Add(name string, n *tree.Inode, data io.Reader) error {
	if err := p.add(name, n, data); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

func (p *PackWriter) add(name string, n *tree.Inode, data io.Reader) error {
	if err := p.check(name); err != nil {
		return err
	}
	if err := checkInode(n); err != nil {
		return err
	}
	node := packNode{inode: *n}
	node.inode.Content = nil
	if n.Type == tree.Regular {
		if data == nil && n.Content != nil {
			r, err := n.Content.Open()
			if err != nil {
				return err
			}
			defer r.Close()
			data = r
		}
		if data == nil {
			data = strings.NewReader("")
		}
		f, err := p.data.add(data)
		if err != nil {
			p.err = err
			return err
		}
		node.file = f
	}
	p.seen[name] = len(p.nodes)
	p.names = append(p.names, packName{name, len(p.nodes)})
	p.nodes = append(p.nodes, node)
	return nil
}

// AddLink makes name another name of the file that was added at target.
func (p *PackWriter) AddLink(name, target string) error {
	if err := p.check(name); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	node, ok := p.seen[target]
	if !ok {
		return fmt.Errorf("pack %s: it is a hard link to %s, which was not added before it", name, target)
	}
	if p.nodes[node].inode.Type == tree.Dir {
		return fmt.Errorf("pack %s: it is a hard link to %s, which is a directory", name, target)
	}
	p.seen[name] = node
	p.names = append(p.names, packName{name, node})
	return nil
}

func (p *PackWriter) check(name string) error {
	if p.err != nil {
		return p.err
	}
	if err := checkPath(name); err != nil {
		return err
	}
	if _, ok := p.seen[name]; ok {
		return errors.New("it appears twice")
	}
	return nil
}

// checkPath accepts absolute, clean paths whose elements a squashfs directory can hold.
func checkPath(name string) error {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return errors.New("not an absolute and clean path")
	}
	if strings.IndexByte(name, 0) >= 0 {
		return errors.New("a zero byte in the path")
	}
	for len(name) > 0 {
		elem, rest, _ := strings.Cut(name, "/")
		if len(elem) > maxName {
			return fmt.Errorf("a name of %d bytes, and %d is the most", len(elem), maxName)
		}
		name = rest
	}
	return nil
}

// Close writes the index. It does not close the writer below.
func (p *PackWriter) Close() error {
	if p.err != nil {
		return p.err
	}
	if err := p.data.finish(); err != nil {
		return err
	}
	p.err = errors.New("the pack is closed")
	index := encodeIndex(p.nodes, p.names, p.data.frags)
	sum := sha256.Sum256(index)
	le := binary.LittleEndian
	foot := le.AppendUint64(make([]byte, 0, packFooter), uint64(p.data.off))
	foot = le.AppendUint64(foot, uint64(len(index)))
	foot = append(foot, sum[:]...)
	foot = le.AppendUint64(foot, 0)
	foot = append(foot, packMagic...)
	if _, err := p.data.w.Write(append(index, foot...)); err != nil {
		return fmt.Errorf("write the index of a pack: %w", err)
	}
	return nil
}

// PackTree writes every file of a tree into a pack: the way to compress a payload once.
func PackTree(w io.Writer, t *tree.Tree, o PackOptions) error {
	p, err := NewPackWriter(w, o)
	if err != nil {
		return err
	}
	first := map[*tree.Inode]string{}
	err = t.Walk(func(name string, n *tree.Inode) error {
		if old, ok := first[n]; ok {
			return p.AddLink(name, old)
		}
		first[n] = name
		return p.Add(name, n, nil)
	})
	if err != nil {
		return err
	}
	return p.Close()
}
