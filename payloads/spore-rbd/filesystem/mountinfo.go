package filesystem

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// mountTable is the table of this process's mounts (proc_pid_mountinfo(5)).
const mountTable = "/proc/self/mountinfo"

// Source is what the table of mounts says of the uppermost mount at a path: type and source. Both are empty when nothing is
// mounted there.
func Source(path string) (kind, source string, err error) {
	f, err := os.Open(mountTable)
	if err != nil {
		return "", "", fmt.Errorf("read the table of mounts: %w", err)
	}
	defer f.Close()
	return sourceIn(f, path)
}

// sourceIn reads lines such as
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//
// whose number of fields before the hyphen varies. Later lines are above earlier ones.
func sourceIn(r io.Reader, path string) (kind, source string, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			return "", "", fmt.Errorf("read the table of mounts: a line is %.200q", lines.Text())
		}
		if unescape(left[4]) == path {
			kind, source = right[0], unescape(right[1])
		}
	}
	if err := lines.Err(); err != nil {
		return "", "", fmt.Errorf("read the table of mounts: %w", err)
	}
	return kind, source, nil
}

// unescape reads the octal numbers in whose place the kernel has blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
