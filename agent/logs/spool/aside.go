package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/storage/atomicfile"
)

// A segment of another format is one of another version of this program. Those who brought its lines were told that
// they are kept, so that it is put aside, and the version that reads it takes it back, behind what came meanwhile: a
// consumer may get some of its lines again. It goes only where there would be no room for lines otherwise.

func (s *Spool) asideDir() string { return filepath.Join(s.o.Dir, "aside") }

// numberOf is the number of a segment, by the name of its file.
func (s *Spool) numberOf(e fs.DirEntry) (number uint64, ok bool) {
	number, err := strconv.ParseUint(strings.TrimSuffix(e.Name(), ".log"), 16, 64)
	return number, err == nil && filepath.Base(s.path(number)) == e.Name() && e.Type().IsRegular()
}

// isOther tells whether a file is a segment of another format. One that cannot be read counts as none of another: its
// bytes are left out and counted when its turn comes, and a disk that is damaged there does not keep the queue shut.
func isOther(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(f, head); err != nil {
		return false
	}
	format := head[len(head)-1]
	return strings.HasPrefix(string(head), segmentMagic[:len(head)-1]) && string(head) != segmentMagic &&
		format >= '0' && format <= '9'
}

// putAside puts segments of other formats aside.
func (s *Spool) putAside() error {
	entries, err := os.ReadDir(s.segmentsDir())
	if err != nil {
		return err
	}
	moved := 0
	for _, e := range entries {
		number, ok := s.numberOf(e)
		if !ok || !isOther(s.path(number)) {
			continue
		}
		if err := os.MkdirAll(s.asideDir(), 0o700); err != nil {
			return err
		}
		if err := os.Rename(s.path(number), filepath.Join(s.asideDir(), e.Name())); err != nil {
			return fmt.Errorf("put a segment aside: %w", err)
		}
		moved++
	}
	if moved == 0 {
		return nil
	}
	s.o.Say(fmt.Sprintf("put %d segments of another format aside, into %s: the version that wrote them takes them back",
		moved, s.asideDir()))
	return errors.Join(atomicfile.SyncDir(s.o.Dir), atomicfile.SyncDir(s.asideDir()), atomicfile.SyncDir(s.segmentsDir()))
}

// takeBack takes segments back that this version reads, and finds those that stay aside.
func (s *Spool) takeBack() error {
	entries, err := os.ReadDir(s.asideDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var back []fs.DirEntry
	for _, e := range entries {
		number, ok := s.numberOf(e)
		if !ok {
			continue
		}
		s.next = max(s.next, number+1) // No number is there twice.
		if isOther(filepath.Join(s.asideDir(), e.Name())) {
			s.aside = append(s.aside, number)
			continue
		}
		back = append(back, e)
	}
	if len(back) == 0 {
		return nil
	}
	if err := s.rollBehind(back); err != nil {
		s.o.Say(fmt.Sprintf("%d segments stay aside until the next start: %v", len(back), err))
		return nil
	}
	for i, e := range back {
		info, err := e.Info()
		if err != nil {
			return err
		}
		last := len(s.segments) - 1
		g := stored{s.segments[last].number - uint64(len(back)-i), info.Size()}
		if err := os.Rename(filepath.Join(s.asideDir(), e.Name()), s.path(g.number)); err != nil {
			return fmt.Errorf("take a segment back: %w", err)
		}
		s.segments, s.total = slices.Insert(s.segments, last, g), s.total+g.size
	}
	s.o.Say(fmt.Sprintf("took %d segments back that were aside", len(back)))
	return errors.Join(atomicfile.SyncDir(s.segmentsDir()), atomicfile.SyncDir(s.asideDir()))
}

// rollBehind begins a segment with all marks, also those of segments that come back, and leaves numbers before it for
// them. The last segment must have the newest marks at each moment: the next start begins to read marks there, and with
// older ones, lines that come again would be taken twice.
func (s *Spool) rollBehind(back []fs.DirEntry) error {
	for _, e := range back {
		info, err := e.Info()
		if err != nil {
			return err
		}
		s.recallFrom(filepath.Join(s.asideDir(), e.Name()), info.Size())
	}
	s.next += uint64(len(back))
	return s.roll(s.o.Now())
}

// dropAside removes the oldest segment that is aside. It is called with the lock.
func (s *Spool) dropAside() (size int64, dropped bool) {
	if len(s.aside) == 0 {
		return 0, false
	}
	path := filepath.Join(s.asideDir(), filepath.Base(s.path(s.aside[0])))
	info, err := os.Lstat(path)
	if err == nil {
		size, err = info.Size(), os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Say("remove a segment that is aside: " + err.Error())
		return 0, false
	}
	s.aside = s.aside[1:]
	s.o.Say(fmt.Sprintf("removed a segment of another format, %d bytes: there is no room for lines that come", size))
	return size, true
}
