// Package netroot downloads the verified parts of an image into memory: root and cluster part, with their hash trees. The two
// root hashes of the kernel's command line decide what is accepted; a block of the root that does not match is not kept at all.
//
// A transfer that breaks goes on where it was. Nothing here maps or mounts: the kernel checks each block once more.
package netroot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"spore/agent/format/squashfs"
	"spore/agent/format/verity"
	"spore/agent/stage1/httpget"
	"spore/agent/wait"
)

// Names of the files in the folder of the server (a contract with the builder).
const (
	RootName    = "root.squashfs"
	VerityName  = "root.verity"
	ClusterName = "cluster.squashfs"
)

const (
	// chunk is read at a time, in bytes; whole blocks.
	chunk = 1 << 20
	// maxPart bounds each part: what the superblocks' reader takes at most.
	maxPart = 1 << 40
	// maxBad is how often one block may come wrong, and maxRefused how often the server may answer that it has no such file.
	maxBad     = 3
	maxRefused = 5
	// sayEvery is how often progress is said.
	sayEvery = 10 * time.Second
)

// Options say what to fetch from where.
type Options struct {
	// Base is the folder on the server.
	Base httpget.URL
	// Client asks it.
	Client httpget.Client
	// RootHash and ClusterHash are in hex.
	RootHash, ClusterHash string
	// Room makes a directory that holds need bytes of files; its error says what is missing. It is called once, before the
	// first file is kept.
	Room func(need int64) (dir string, err error)
	// Stall is how long nothing new may come before it is given up.
	Stall time.Duration
	// First is the first wait before it is tried again; it is doubled up to Longest.
	First, Longest time.Duration
	// Say reports progress and what is waited for.
	Say func(string)
}

// File is a part in memory.
type File struct {
	*os.File
	// Size is in bytes.
	Size int64
}

// Files are all parts.
type Files struct{ Root, Verity, Cluster File }

// Close closes them; what is in memory stays as long as somebody else has it open, or its directory.
func (f Files) Close() {
	for _, p := range []File{f.Root, f.Verity, f.Cluster} {
		if p.File != nil {
			p.Close()
		}
	}
}

// Fetch downloads all parts and checks them. What it returns is open for reading.
func Fetch(ctx context.Context, o Options) (_ Files, err error) {
	f := fetch{Options: o}
	defer func() {
		if err != nil {
			f.files.Close()
		}
	}()
	var need int64
	parts := []struct {
		name string
		to   *File
	}{{VerityName, &f.files.Verity}, {ClusterName, &f.files.Cluster}, {RootName, &f.files.Root}}
	for _, p := range parts {
		if p.to.Size, err = f.size(ctx, p.name); err != nil {
			return Files{}, err
		}
		need += p.to.Size
	}
	dir, err := o.Room(need)
	if err != nil {
		return Files{}, err
	}
	for _, p := range parts {
		if p.to.File, err = os.OpenFile(filepath.Join(dir, p.name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o400); err != nil {
			return Files{}, fmt.Errorf("keep %s: %w", p.name, err)
		}
	}
	if err := f.root(ctx); err != nil {
		return Files{}, err
	}
	return f.files, f.cluster(ctx)
}

type fetch struct {
	Options
	files Files
}

// root downloads the tree first: then every block of the root can be judged when it comes.
func (f *fetch) root(ctx context.Context) error {
	tree := f.files.Verity
	if err := f.stream(ctx, VerityName, tree.Size, keep(tree)); err != nil {
		return err
	}
	v, err := verity.Separate(tree, tree.Size, f.files.Root.Size)
	if err != nil {
		return f.refused(VerityName, err)
	}
	hashes, err := v.ReadTree(tree, f.RootHash)
	if err != nil {
		return f.refused(VerityName, err)
	}
	f.files.Root.Size = v.DataBlocks * verity.BlockSize
	write := keep(f.files.Root)
	return f.stream(ctx, RootName, f.files.Root.Size, func(at int64, data []byte) (int, error) {
		good := 0
		for ; good < len(data); good += verity.BlockSize {
			n := (at + int64(good)) / verity.BlockSize
			if !hashes.Good(n, data[good:good+verity.BlockSize]) {
				_, err := write(at, data[:good])
				return good, errors.Join(fmt.Errorf("block %d: %w", n, verity.ErrBlock), err)
			}
		}
		return write(at, data)
	})
}

// cluster downloads the cluster part, whose tree is behind its data.
func (f *fetch) cluster(ctx context.Context) error {
	part := f.files.Cluster
	if err := f.stream(ctx, ClusterName, part.Size, keep(part)); err != nil {
		return err
	}
	used, err := squashfs.Size(part, part.Size)
	if err != nil {
		return f.refused(ClusterName, err)
	}
	v, err := verity.Appended(part, part.Size, used)
	if err != nil {
		return f.refused(ClusterName, err)
	}
	hashes, err := v.ReadTree(part, f.ClusterHash)
	if err == nil {
		err = v.CheckData(part, hashes)
	}
	if err != nil {
		return f.refused(ClusterName, err)
	}
	return nil
}

// refused is a part that is not this kernel's.
func (f *fetch) refused(name string, err error) error {
	return fmt.Errorf("%s is refused: %w; kernel and parts must be of one build", f.Base.File(name), err)
}

// keep writes where it came.
func keep(to File) sink {
	return func(at int64, data []byte) (int, error) { return to.WriteAt(data, at) }
}

// sink takes data of whole blocks, but at the end, and says how many bytes of it are good.
type sink func(at int64, data []byte) (int, error)

// size asks how large a file is.
func (f *fetch) size(ctx context.Context, name string) (int64, error) {
	size := int64(0)
	err := f.persist(ctx, name, func(*int64) error {
		body, err := f.Client.Get(ctx, f.Base.File(name), 0)
		if err != nil {
			return err
		}
		defer body.Close()
		size = body.Size
		return nil
	})
	if err == nil && (size <= 0 || size > maxPart) {
		err = f.refused(name, fmt.Errorf("it has %d bytes", size))
	}
	return size, err
}

// stream fetches the first size bytes of a file.
func (f *fetch) stream(ctx context.Context, name string, size int64, to sink) error {
	p := progress{name: name, size: size, say: f.Say, start: time.Now()}
	buf := make([]byte, min(chunk, size))
	err := f.persist(ctx, name, func(done *int64) error {
		body, err := f.Client.Get(ctx, f.Base.File(name), *done)
		if err != nil {
			return err
		}
		defer body.Close()
		if body.Size < size {
			return fmt.Errorf("GET %s: it has %d bytes, and %d are wanted", f.Base.File(name), body.Size, size)
		}
		for *done < size {
			n, readErr := io.ReadFull(body, buf[:min(int64(len(buf)), size-*done)])
			if *done+int64(n) < size {
				n -= n % verity.BlockSize // A block that is cut is asked for again.
			}
			good, err := to(*done, buf[:n])
			*done += int64(good)
			p.at(*done)
			if err != nil {
				return fmt.Errorf("GET %s: %w", f.Base.File(name), err)
			}
			if readErr != nil && *done < size {
				return fmt.Errorf("GET %s: after %d of %d bytes: %w", f.Base.File(name), *done, size, readErr)
			}
		}
		return nil
	})
	if err == nil {
		p.end()
	}
	return err
}

// persist tries until it is done, or nothing new came for too long. try moves done on.
func (f *fetch) persist(ctx context.Context, name string, try func(done *int64) error) error {
	var done int64
	last, pause, bad, refused := time.Now(), f.First, 0, 0
	for {
		before := done
		err := try(&done)
		if err == nil {
			return nil
		}
		if done > before {
			last, pause, bad, refused = time.Now(), f.First, 0, 0
		}
		var status *httpget.StatusError
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case errors.Is(err, verity.ErrBlock):
			bad++
		case errors.As(err, &status) && status.Status < 500:
			refused++
		}
		left := f.Stall - time.Since(last)
		if left <= 0 || bad == maxBad || refused == maxRefused {
			return fmt.Errorf("%w; given up after %d good bytes", err, done)
		}
		f.Say(fmt.Sprintf("waiting for %s: %v; trying again in %s, for %s", name, err, pause, left.Round(time.Second)))
		if err := wait.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, f.Longest)
	}
}

// progress says how far a download is, now and then.
type progress struct {
	name  string
	size  int64
	say   func(string)
	start time.Time
	said  time.Time
}

func (p *progress) at(done int64) {
	now := time.Now()
	if p.said.IsZero() {
		p.said = now
	}
	if now.Sub(p.said) < sayEvery {
		return
	}
	p.said = now
	p.say(fmt.Sprintf("%s: %d of %d MiB, %s", p.name, done>>20, p.size>>20, rate(done, now.Sub(p.start))))
}

func (p *progress) end() {
	took := time.Since(p.start)
	p.say(fmt.Sprintf("%s: %.1f MiB in %.1f s, %s", p.name, float64(p.size)/(1<<20), took.Seconds(), rate(p.size, took)))
}

func rate(bytes int64, took time.Duration) string {
	return fmt.Sprintf("%.1f MiB/s", float64(bytes)/(1<<20)/max(took.Seconds(), 0.001))
}
