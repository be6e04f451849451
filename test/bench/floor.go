package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"spore/builder/deb"
	"spore/builder/initrd"
	"spore/builder/manifest"
	"spore/builder/squashfs"
	"spore/builder/tree"
	"spore/builder/xz"
	"spore/storage/verity"
)

// floorCommand is the subcommand that does the floor's work; it is not for people.
const floorCommand = "floor"

// minCoverage is how much of the image's file data the floor must have met in packages and programs, so that an image
// whose files come from elsewhere is not held against a floor that left them out.
const minCoverage = 0.95

// FloorWork is what the floor works on.
type FloorWork struct {
	// Debs are the packages of the image, Programs files that are in it and in no package.
	Debs     []string `json:"debs"`
	Programs []string `json:"programs"`
	// Manifest is that of the image, which says which files are in it.
	Manifest string `json:"manifest"`
	// Initramfs is that of the image, not compressed.
	Initramfs string `json:"initramfs"`
	// Temp takes the compressed data.
	Temp string `json:"temp"`
}

// apartSuffix is of the file beside the work that says what kernel modules and initramfs took, in nanoseconds of
// processors.
const apartSuffix = ".apart"

// floor does the decompression and compression that no builder gets around, and nothing else: first what packages and
// files take, then what kernel modules and initramfs take, whose processor time it returns. It resolves, checks, lays
// out and writes no image. Decoders, encoders and hash are those of the builder, and so are the number of packages at a
// time and their order, the largest first.
func floor(ctx context.Context, w FloorWork, says io.Writer) (apart time.Duration, err error) {
	modules, err := floorOfFiles(ctx, w, says)
	if err != nil {
		return 0, err
	}
	before, err := processorTime()
	if err != nil {
		return 0, err
	}
	if err := floorOfKernel(ctx, modules, w.Initramfs); err != nil {
		return 0, err
	}
	after, err := processorTime()
	return after - before, err
}

// floorOfKernel decompresses modules and compresses the initramfs.
func floorOfKernel(ctx context.Context, modules [][]byte, initramfs string) error {
	plain, err := os.ReadFile(initramfs)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := initrd.Compress(plain)
		return err
	})
	workers := runtime.GOMAXPROCS(0)
	for n := range workers {
		group.Go(func() error {
			var d *xz.Reader
			for i := n; i < len(modules); i += workers {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				in := bytes.NewReader(modules[i])
				var err error
				if d == nil {
					d, err = xz.NewReader(in, xz.Options{})
				} else {
					err = d.Reset(in)
				}
				if err != nil {
					return fmt.Errorf("decompress a module: %w", err)
				}
				if _, err := io.Copy(io.Discard, d); err != nil {
					return fmt.Errorf("decompress a module: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// floorOfFiles decompresses all packages, compresses the data of the files that are in the image in blocks of the
// image's size and at its level, and makes the hash tree over what came out. It returns the modules that were
// compressed with xz.
func floorOfFiles(ctx context.Context, w FloorWork, says io.Writer) ([][]byte, error) {
	inImage, want, err := imageFiles(w.Manifest)
	if err != nil {
		return nil, err
	}
	out, err := os.CreateTemp(w.Temp, "floor-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	c := &compressor{enc: enc, out: out}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	debs, err := largestFirst(w.Debs)
	if err != nil {
		return nil, err
	}
	for _, path := range debs {
		group.Go(func() error { return errors.Join(ctx.Err(), c.deb(path, inImage)) })
	}
	for _, path := range w.Programs {
		group.Go(func() error { return errors.Join(ctx.Err(), c.program(path)) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	c.size += -c.size & (verity.BlockSize - 1)
	if err := out.Truncate(c.size); err != nil {
		return nil, err
	}
	if _, _, err := verity.Format(out, c.size, io.Discard, verity.Derive(make([]byte, sha256.Size))); err != nil {
		return nil, err
	}
	fmt.Fprintf(says, "floor: %d of %d bytes of the image's files, %d compressed\n", c.read, want, c.size)
	if float64(c.read) < minCoverage*float64(want) {
		return nil, fmt.Errorf("the floor met %d bytes of files, the image has %d: it is not a floor of this image", c.read, want)
	}
	return c.modules, nil
}

// newEncoder is that of package squashfs, which a test holds it against.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(squashfs.DefaultBlockSize),
		zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)))
}

// compressor compresses files and writes the blocks one after the other.
type compressor struct {
	enc *zstd.Encoder
	out *os.File

	mu      sync.Mutex
	read    int64 // bytes of files
	size    int64 // bytes written
	modules [][]byte
}

func (c *compressor) deb(path string, inImage map[string]bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d, err := deb.NewReader(f, deb.Options{})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer d.Close()
	block := make([]byte, squashfs.DefaultBlockSize)
	for {
		h, err := d.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if h.Inode.Type != tree.Regular || h.Link != "" || !inImage[h.Path] {
			continue // Next goes over the data, which is decompressed all the same.
		}
		var data io.Reader = d
		var module *bytes.Buffer
		if strings.HasSuffix(h.Path, ".ko.xz") {
			module = &bytes.Buffer{}
			data = io.TeeReader(d, module)
		}
		if err := c.file(data, block); err != nil {
			return fmt.Errorf("%s: %s: %w", path, h.Path, err)
		}
		if module != nil {
			c.mu.Lock()
			c.modules = append(c.modules, module.Bytes())
			c.mu.Unlock()
		}
	}
}

func (c *compressor) program(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.file(f, make([]byte, squashfs.DefaultBlockSize))
}

// file compresses one file. The head of data that is compressed already, such as that of kernel modules, says so, and
// the builder does not try it again; neither does the floor.
func (c *compressor) file(r io.Reader, block []byte) error {
	var packed []byte
	stored := false
	for first := true; ; first = false {
		n, err := io.ReadFull(r, block)
		if n > 0 {
			stored = stored || first && packedAlready(block[:n])
			out := block[:n]
			if !stored {
				if packed = c.enc.EncodeAll(block[:n], packed[:0]); len(packed) < n {
					out = packed
				}
			}
			if err := c.write(out, n); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// packedAlready knows xz, gzip and zstd by their first bytes.
func packedAlready(head []byte) bool {
	for _, magic := range []string{"\xfd7zXZ\x00", "\x1f\x8b\x08", "\x28\xb5\x2f\xfd"} {
		if len(head) >= len(magic) && string(head[:len(magic)]) == magic {
			return true
		}
	}
	return false
}

func (c *compressor) write(data []byte, read int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.out.Write(data); err != nil {
		return err
	}
	c.read += int64(read)
	c.size += int64(len(data))
	return nil
}

// imageFiles are the regular files of an image, and how large they are together. Names of one file are counted once
// each, which is why the coverage need not be whole.
func imageFiles(path string) (map[string]bool, int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	var m manifest.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", path, err)
	}
	files, size := map[string]bool{}, int64(0)
	for _, f := range m.Files {
		if f.Type == "file" {
			files[f.Path] = true
			size += f.Size
		}
	}
	return files, size, nil
}

// largestFirst orders files by size.
func largestFirst(paths []string) ([]string, error) {
	sizes := map[string]int64{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		sizes[p] = info.Size()
	}
	sorted := slices.Clone(paths)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(sizes[b], sizes[a]) })
	return sorted, nil
}

// runFloor is the subcommand: its argument is a file with the work.
func runFloor(ctx context.Context, path string) error {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return err
	}
	var w FloorWork
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	apart, err := floor(ctx, w, os.Stdout)
	if err != nil {
		return err
	}
	return os.WriteFile(path+apartSuffix, fmt.Appendln(nil, int64(apart)), 0o644)
}
