// Package position looks after the file in which systemd-journal-upload keeps how far it has sent the journal.
//
// That program writes the file without a sync (systemd, journal-upload.c, update_cursor_state), and ends with an error
// where it cannot use what stands there: after a loss of power or a damaged disk it would begin and end for ever, and
// the node would send nothing. So a file that the program would not begin with is removed before it starts. It begins
// with the oldest entry of the journal then; what was sent already is known by its cursor, and left out (package send).
//
// The package knows what the program accepts, and nothing of what the cursor means.
package position

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"spore/storage/atomicfile"
)

// maxSize bounds the file in bytes; it has about 170.
const maxSize = 64 << 10

// Repair removes the file of a path when systemd-journal-upload would end because of it; removed tells why, and is nil
// where the file is sound, or there is none. An error is one of the disk.
func Repair(path string) (removed, err error) {
	data, err := atomicfile.ReadLimited(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !isFile(path) {
		return nil, fmt.Errorf("read how far the journal is sent: %w", err)
	}
	if err == nil {
		err = check(data)
	}
	if err == nil {
		return nil, nil
	}
	if gone := os.Remove(path); gone != nil {
		return nil, fmt.Errorf("remove how far the journal is sent, which is malformed: %w", gone)
	}
	return err, nil
}

// isFile tells whether a path has a file, and not a folder or a link.
func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// begin is how the one line of the file begins that the program reads.
const begin = "LAST_CURSOR="

// check tells why a file is not as systemd-journal-upload writes it, to its end or to a part of it: comments, and one
// variable that is a cursor. What its reader knows besides, such as quotes and lines that go on with "\" (systemd,
// parse_env_file), it never writes, and its meaning there is not looked for. Without a cursor, the program begins with
// the oldest entry.
func check(data []byte) error {
	switch {
	case bytes.IndexByte(data, 0) >= 0:
		return errors.New("it has bytes of zero")
	case !utf8.Valid(data):
		return errors.New("it has bytes that are not text")
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		cursor, is := strings.CutPrefix(line, begin)
		switch {
		case strings.ContainsAny(line, "\\\r"), !is && !strings.HasPrefix(line, "#") && !strings.HasPrefix(begin, line):
			return fmt.Errorf("%.200q is no line of it", line)
		case cursor != "" && is:
			if err := checkCursor(cursor); err != nil {
				return fmt.Errorf("its cursor %.200q is malformed: %w", cursor, err)
			}
		}
	}
	return nil
}

// checkCursor tells why a cursor is none (systemd, sd-journal.c, sd_journal_seek_cursor).
func checkCursor(cursor string) error {
	has := map[byte]bool{}
	for part := range strings.SplitSeq(cursor, ";") {
		if len(part) < 2 || part[1] != '=' {
			return fmt.Errorf("%.40q is no part of one", part)
		}
		value := part[2:]
		switch part[0] {
		case 's', 'b':
			if len(value) != 32 || strings.Trim(value, "0123456789abcdefABCDEF") != "" {
				return fmt.Errorf("%.40q is no identifier of 128 bits", part)
			}
		case 'i', 'm', 't', 'x':
			if value == "" || len(value) > 16 || strings.Trim(value, "0123456789abcdefABCDEF") != "" {
				return fmt.Errorf("%.40q is no number of 64 bits", part)
			}
		}
		has[part[0]] = true
	}
	if !(has['s'] && has['i']) && !(has['b'] && has['m']) && !has['t'] {
		return errors.New("it names no place")
	}
	return nil
}
