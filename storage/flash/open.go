package flash

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alignment is what reads past the host's memory are aligned to; no disk has larger sectors.
const alignment = 4096

// File is an open disk, or a file that stands for one.
type File struct {
	f          *os.File
	direct     *os.File
	note       string
	size       int64
	sectorSize int
	block      bool
	mu         sync.Mutex
	buf        []byte
}

// Open opens a disk or an existing file for writing. A disk is claimed for this process: that fails when anything of it
// is mounted or in use otherwise.
func Open(path string) (*File, error) { return open(path, os.O_RDWR|unix.O_EXCL) }

// OpenShared opens a disk for writing of which partitions are in use, for whoever changes nothing of those.
func OpenShared(path string) (*File, error) { return open(path, os.O_RDWR) }

// OpenRead opens a disk or file to look at it.
func OpenRead(path string) (*File, error) { return open(path, os.O_RDONLY) }

func open(path string, flags int) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	d := &File{sectorSize: 512}
	switch {
	case info.Mode().IsRegular():
		flags &^= unix.O_EXCL
	case info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0:
		d.block = true
	default:
		return nil, fmt.Errorf("%s is neither a disk nor a file", path)
	}
	if d.f, err = os.OpenFile(path, flags, 0); err != nil {
		switch {
		case errors.Is(err, unix.EBUSY):
			return nil, fmt.Errorf("%s is in use: unmount what is mounted of it (findmnt, lsblk), and try again (%w)", path, err)
		case errors.Is(err, unix.EACCES):
			return nil, fmt.Errorf("%w: writing disks takes root (sudo)", err)
		}
		return nil, err
	}
	if err := d.measure(); err != nil {
		d.f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.direct, err = os.OpenFile(path, flags&unix.O_ACCMODE|unix.O_DIRECT, 0); err != nil {
		d.note = "read back through the host's memory, since " + path + " cannot be read past it (O_DIRECT)"
	}
	return d, nil
}

func (d *File) measure() error {
	if !d.block {
		info, err := d.f.Stat()
		if err != nil {
			return err
		}
		d.size = info.Size() / 512 * 512
		return nil
	}
	size, err := d.f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("ask for its size: %w", err)
	}
	d.size = size
	if d.sectorSize, err = unix.IoctlGetInt(int(d.f.Fd()), unix.BLKSSZGET); err != nil {
		return fmt.Errorf("ask for its sectors: %w", err)
	}
	return nil
}

// Size implements Device.
func (d *File) Size() int64 { return d.size }

// SectorSize implements Device.
func (d *File) SectorSize() int { return d.sectorSize }

// ReadAt implements io.ReaderAt.
func (d *File) ReadAt(b []byte, off int64) (int, error) { return d.f.ReadAt(b, off) }

// WriteAt implements io.WriterAt.
func (d *File) WriteAt(b []byte, off int64) (int, error) { return d.f.WriteAt(b, off) }

// Sync implements Device.
func (d *File) Sync() error { return d.f.Sync() }

// Fresh implements Device.
func (d *File) Fresh() (io.ReaderAt, string) {
	if d.direct != nil {
		// Some filesystems open a file so, and refuse to read it.
		if _, err := (direct{d}).ReadAt(make([]byte, 512), 0); !errors.Is(err, unix.EINVAL) {
			return direct{d}, ""
		}
		d.note = "read back through the host's memory: this filesystem has no O_DIRECT"
	}
	return dropped{d}, d.note
}

// Through writes past the host's memory what of a write is whole blocks of 4096 bytes of the disk, and is as a write of
// WriteAt for what is not, and where the disk cannot be written so. Sync flushes both. It is for large content that
// nobody reads soon: the copy to the host's memory is most of what a write costs a processor.
func (d *File) Through() io.WriterAt { return through{d} }

// Reread has the kernel look for the partitions of the disk again, where something waits for them; that they are in use
// is no error, since nothing has to read them now.
func (d *File) Reread() {
	if d.block {
		_ = unix.IoctlSetInt(int(d.f.Fd()), unix.BLKRRPART, 0)
	}
}

// Close closes it.
func (d *File) Close() error {
	if d.direct != nil {
		d.direct.Close()
	}
	if d.buf != nil {
		_ = unix.Munmap(d.buf)
		d.buf = nil
	}
	return d.f.Close()
}

// direct reads past the page cache (open(2), O_DIRECT), which wants everything aligned.
type direct struct{ d *File }

// ReadAt implements io.ReaderAt. What is aligned is read to where it is wanted; else whole blocks are read first.
func (r direct) ReadAt(b []byte, off int64) (int, error) {
	if off%alignment == 0 && len(b)%alignment == 0 && isAligned(b) {
		n, err := r.d.readBlocks(b, off)
		if err == nil && n < len(b) {
			err = io.EOF
		}
		return n, err
	}
	return r.unaligned(b, off)
}

func (r direct) unaligned(b []byte, off int64) (int, error) {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	from := off / alignment * alignment
	need := (off + int64(len(b)) - from + alignment - 1) / alignment * alignment
	if int64(len(d.buf)) < need {
		if d.buf != nil {
			_ = unix.Munmap(d.buf)
		}
		var err error
		if d.buf, err = unix.Mmap(-1, 0, int(need), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
			d.buf = nil
			return 0, fmt.Errorf("take memory to read: %w", err)
		}
	}
	got, err := d.readBlocks(d.buf[:need], from)
	if err != nil {
		return 0, err
	}
	n := copy(b, d.buf[min(off-from, int64(got)):got])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// isAligned tells whether memory begins where the kernel takes it for a block.
func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment == 0 }

// readBlocks reads whole blocks into aligned memory. Fewer are read at the end of the disk.
func (d *File) readBlocks(b []byte, off int64) (got int, err error) {
	for got < len(b) {
		n, err := unix.Pread(int(d.direct.Fd()), b[got:], off+int64(got))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		if got += n; n%alignment != 0 {
			break // The end: the last sectors of a disk may be no whole 4096 bytes.
		}
	}
	return got, nil
}

// through writes past the page cache, as far as it can.
type through struct{ d *File }

// WriteAt implements io.WriterAt. The kernel keeps what is written in both ways apart by pages of its memory, and no
// page is smaller than a block here.
func (t through) WriteAt(b []byte, off int64) (int, error) {
	head := min(int64(len(b)), (alignment-off%alignment)%alignment)
	end := head + (int64(len(b))-head)/alignment*alignment
	done := 0
	for _, part := range []struct {
		b     []byte
		write func([]byte, int64) (int, error)
	}{{b[:head], t.d.f.WriteAt}, {b[head:end], t.d.writeBlocks}, {b[end:], t.d.f.WriteAt}} {
		if len(part.b) == 0 {
			continue
		}
		n, err := part.write(part.b, off+int64(done))
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// writeBlocks writes whole blocks past the page cache. What is refused so is written as any other: some filesystems
// open a file so, and refuse to write it.
func (d *File) writeBlocks(b []byte, off int64) (int, error) {
	if d.direct == nil || !isAligned(b) {
		return d.f.WriteAt(b, off)
	}
	n, err := d.direct.WriteAt(b, off)
	if errors.Is(err, unix.EINVAL) {
		var rest int
		rest, err = d.f.WriteAt(b[n:], off+int64(n))
		n += rest
	}
	return n, err
}

// dropped asks the kernel to forget what it has in memory before it reads.
type dropped struct{ d *File }

// ReadAt implements io.ReaderAt.
func (r dropped) ReadAt(b []byte, off int64) (int, error) {
	_ = unix.Fadvise(int(r.d.f.Fd()), off, int64(len(b)), unix.FADV_DONTNEED)
	return r.d.f.ReadAt(b, off)
}
