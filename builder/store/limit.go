package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"
)

// defaultLimit is how large a store grows where nobody says otherwise, in bytes; on a small disk it is a quarter of the disk.
const defaultLimit = 20 << 30

// limitName is the file of the store with the user's limit.
const limitName = "limit"

// noLimit is the word for a store that may grow as it likes.
const noLimit = "none"

// ParseSize reads a size such as 10GiB, 500MB or a number of bytes.
func ParseSize(text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%.40q is not a size; write for instance 10GiB or 500MB", text)
	}
	return int64(n), nil
}

// Limit is the size in bytes that a store is held to after each build, and 0 where there is no limit: override where it is not
// empty, else what SetLimit kept, else 20 GiB or a quarter of the disk. A limit is a size as ParseSize reads it, or "none".
func Limit(dir, override string) (int64, error) {
	if override != "" {
		return parseLimit(override)
	}
	text, err := os.ReadFile(filepath.Join(dir, limitName))
	if errors.Is(err, fs.ErrNotExist) {
		return standardLimit(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("read the limit of the cache: %w", err)
	}
	n, err := parseLimit(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, limitName), err)
	}
	return n, nil
}

func parseLimit(text string) (int64, error) {
	if text == noLimit {
		return 0, nil
	}
	n, err := ParseSize(text)
	if err == nil && n == 0 {
		err = fmt.Errorf("a limit of 0; write %s for a cache without a limit", noLimit)
	}
	return n, err
}

func standardLimit(dir string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("ask for the size of the disk of %s: %w", dir, err)
	}
	return min(defaultLimit, int64(disk.Blocks)*disk.Bsize/4), nil
}

// standard is the word for the limit where nobody says otherwise.
const standard = "default"

// CheckLimit reports whether SetLimit takes a text: a size, "none" or "default".
func CheckLimit(text string) error {
	if text == standard {
		return nil
	}
	_, err := parseLimit(text)
	return err
}

// SetLimit keeps a limit in the store; "default" removes it.
func (s *Store) SetLimit(text string) error {
	if err := CheckLimit(text); err != nil {
		return err
	}
	name := filepath.Join(s.dir, limitName)
	if text == standard {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return s.replace(name, []byte(text+"\n"))
}
