// Package dmesg is the verb dmesg: the kernel's log of this boot (dmesg(1)), which says what the journal may have lost:
// what came before it and what a full disk kept out of it.
package dmesg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/verbs"
)

// defaultLines is how many of the last records are shown.
const defaultLines = "1000"

// Record is a record of the kernel's log.
type Record struct {
	// Sequence is its number since the boot.
	Sequence uint64 `json:"sequence"`
	// After is how long after the boot it was written, in microseconds of the clock that stands still in sleep.
	After int64 `json:"afterMicroseconds"`
	// Priority is 0 (emergency) to 7 (debug).
	Priority int    `json:"priority"`
	Message  string `json:"message"`
}

// Show answers with the last records, as lists of Record.
func Show(ctx context.Context, r *verbs.Run) (string, error) {
	most, err := strconv.Atoi(r.Argument("lines", defaultLines))
	if err != nil {
		return "", fmt.Errorf("internal error: %w", err)
	}
	all, lost, err := Read(ctx, r.Machine.Root.At(Path))
	if err != nil {
		return "", err
	}
	if len(all) > most {
		all = all[len(all)-most:]
	}
	for part := all; len(part) > 0; { // One event has room for some hundred records.
		n := min(len(part), 200)
		if err := r.Result(part[:n]); err != nil {
			return "", err
		}
		part = part[n:]
	}
	done := fmt.Sprintf("%d records", len(all))
	if lost > 0 {
		done += fmt.Sprintf("; the kernel had no room for %d before them", lost)
	}
	return done, nil
}

// Path is where the kernel's log is read.
const Path = "/dev/kmsg"

// Read reads what there is of the log (Linux, Documentation/ABI/testing/dev-kmsg): one record
// a read, EAGAIN at the end. lost is how many came before the first that is left.
func Read(ctx context.Context, path string) (out []Record, lost uint64, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("read the kernel's log: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	defer unix.Close(fd)
	buf := make([]byte, 16<<10)
	for ctx.Err() == nil {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // EPIPE: a record was overwritten; the next read goes on.
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			if len(out) > 0 {
				lost = out[0].Sequence
			}
			return out, lost, nil
		case err != nil:
			return nil, 0, fmt.Errorf("read the kernel's log: %w", err)
		}
		if rec, ok := ParseRecord(string(buf[:n])); ok {
			out = append(out, rec)
		}
	}
	return nil, 0, ctx.Err()
}

// ParseRecord reads a record as /dev/kmsg gives it: "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,…];MESSAGE", and behind it
// lines of properties that begin with a space. A record that is none is left out.
func ParseRecord(text string) (Record, bool) {
	head, message, ok := strings.Cut(text, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return Record{}, false
	}
	priority, err1 := strconv.ParseUint(fields[0], 10, 32)
	sequence, err2 := strconv.ParseUint(fields[1], 10, 64)
	after, err3 := strconv.ParseInt(fields[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return Record{}, false
	}
	message, _, _ = strings.Cut(message, "\n")
	const facility = 3 // The lowest three bits are the priority (syslog(3)).
	return Record{Sequence: sequence, After: after, Priority: int(priority & (1<<facility - 1)), Message: message}, true
}

// String is the record as dmesg(1) prints it.
func (r Record) String() string {
	return fmt.Sprintf("[%12.6f] %s", (time.Duration(r.After) * time.Microsecond).Seconds(), r.Message)
}
