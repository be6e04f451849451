package storedisk

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bound is what data may fill in bytes, of a text such as 21474836480, or 80%, which is a share of the file system of
// their folder.
func Bound(dir, text string) (uint64, error) {
	percent, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(percent, 10, 63)
	switch {
	case err != nil || isShare && (n == 0 || n > 100):
		return 0, fmt.Errorf("%.64q is no size; write a whole number of bytes, or a share such as 80%%", text)
	case !isShare:
		return n, nil
	}
	all, err := capacity(dir)
	if err != nil {
		return 0, err
	}
	return all / 100 * n, nil
}

// capacity is what the file system of a folder has for its data and those of others: what is filled and what is free.
func capacity(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("how large the disk of %s is: %w", dir, err)
	}
	return (s.Blocks - s.Bfree + s.Bavail) * uint64(s.Bsize), nil
}
