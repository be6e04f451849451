package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrDamaged is the error for an object whose content is not what was put in, or not what it must be. The object is gone by
// then; whoever tries again makes it anew.
var ErrDamaged = errors.New("it was damaged and is removed from the cache")

// errSum is the reason when an object differs from what was noted.
var errSum = errors.New("its length or checksum differs from the stored one")

// attribute is the extended attribute of an object with its sum. An object of a filesystem without such attributes, or from a
// version of spore that wrote none, is taken as it is.
const attribute = "user.spore.sum"

// sum is what an object can be checked by: against failing disks and memory, not against people, who can write a sum too.
type sum struct {
	size int64
	crc  uint32 // Castagnoli, which processors have an instruction for
}

// castagnoli is never changed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(data []byte) sum {
	return sum{int64(len(data)), crc32.Checksum(data, castagnoli)}
}

// sumBuffers are for sumFile: a build checks hundreds of packs.
var sumBuffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// sumFile reads a file from its beginning.
func sumFile(f *os.File) (sum, error) {
	buf := sumBuffers.Get().(*[256 << 10]byte)
	defer sumBuffers.Put(buf)
	h := crc32.New(castagnoli)
	size, err := io.CopyBuffer(struct{ io.Writer }{h}, io.NewSectionReader(f, 0, 1<<62), buf[:])
	return sum{size, h.Sum32()}, err
}

// note keeps the sum of a finished file with it.
func note(f *os.File, s sum) error {
	text := fmt.Sprintf("%d %08x", s.size, s.crc)
	if err := unix.Fsetxattr(int(f.Fd()), attribute, []byte(text), 0); err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("note the checksum of %s: %w", f.Name(), err)
	}
	return nil
}

// noted is the sum that was kept with a file.
func noted(name string) (s sum, ok bool) {
	buf := make([]byte, 64)
	n, err := unix.Getxattr(name, attribute, buf)
	if err != nil {
		return s, false
	}
	var crc string
	if _, err := fmt.Sscanf(string(buf[:n]), "%d %8s", &s.size, &crc); err != nil {
		return s, false
	}
	raw, err := hex.DecodeString(crc)
	if err != nil || len(raw) != 4 {
		return s, false
	}
	s.crc = uint32(raw[0])<<24 | uint32(raw[1])<<16 | uint32(raw[2])<<8 | uint32(raw[3])
	return s, true
}

// Check compares an object with what was noted when it was put in. It costs about what copying it costs. One that differs is
// removed, and the error is ErrDamaged.
func (s *Store) Check(k Key) error {
	f, err := s.Open(k)
	if err != nil {
		return err
	}
	defer f.Close()
	want, ok := noted(f.Name())
	if !ok {
		return nil
	}
	got, err := sumFile(f)
	if err != nil {
		return fmt.Errorf("check %s: %w", f.Name(), err)
	}
	if got != want {
		return s.Damaged(k, errSum)
	}
	return nil
}

// Damaged removes an object that its user cannot make sense of, and returns an error that is ErrDamaged and says why.
func (s *Store) Damaged(k Key, why error) error {
	p := s.path(k)
	s.used.Delete(k)
	err := s.locked(unix.LOCK_EX, func() error { return os.Remove(p) })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is damaged and cannot be removed: %w: %w", p, why, err)
	}
	return fmt.Errorf("%s: %w: %w", p, why, ErrDamaged)
}

// Verify is Check for an object of List, without a use of it. known is false when nothing says what the object has to be.
func (s *Store) Verify(o Object) (known bool, err error) {
	f, err := os.Open(o.Path)
	if err != nil {
		return true, gone(err)
	}
	defer f.Close()
	if want, ok := noted(o.Path); ok {
		got, err := sumFile(f)
		if err == nil && got != want {
			err = s.Damaged(o.Key, errSum)
		}
		return true, err
	}
	// A file that came from outside has its own hash as its key.
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	return Key(h.Sum(nil)) == o.Key, nil
}

// CheckName compares an object that came from outside with its key, which is the SHA-256 of the content. One that differs is
// removed, and the error is ErrDamaged.
func (s *Store) CheckName(k Key) error {
	f, err := s.Open(k)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("check %s: %w", f.Name(), err)
	}
	if got := Key(h.Sum(nil)); got != k {
		return s.Damaged(k, fmt.Errorf("its SHA-256 is %s", got))
	}
	return nil
}
