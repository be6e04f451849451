// Package days has the oldest days of VictoriaLogs go: those that are older than entries are kept, and others where the
// data fill more than they may, or the disk has hardly any space left.
//
// VictoriaLogs could do a part of that by itself, in ways that lose entries. Where its clock is early when it starts,
// it deletes the days of the future; where it is late, those that seem old. Its bound in bytes keeps the last two days,
// whatever they fill, and entries that come late for a day that has gone are dropped, counted nowhere (VictoriaLogs
// 1.51, lib/logstorage/storage.go). So its own retention is without an end.
//
// A day is a folder of partitions/. The running store lets go of one when it is told to, and knows nothing of it then.
package days

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/services/logs"
	"spore/storage/atomicfile"
)

// Limits are what the data have to keep to.
type Limits struct {
	// Days is how many days before the newest one are kept.
	Days int
	// Bytes is what all may fill; 0 is without a bound.
	Bytes uint64
	// Floor is how much of the disk has to be free in bytes, and Enough how much there is when room was made.
	Floor, Enough uint64
}

// State is how the store is.
type State struct {
	// Days are those that it has, such as 20261126, sorted.
	Days []string
	// Bytes is what all fill; 0 where the store does not run.
	Bytes uint64
	// Free is how much of the disk is free for the store.
	Free uint64
	// ReadOnly tells that it takes nothing.
	ReadOnly bool
}

// Form is how a day is written.
const Form = "20060102"

// Store is VictoriaLogs of this node.
type Store struct {
	// Dir is the folder of its data.
	Dir string
	// Address is where it listens, and PasswordFile has its password.
	Address, PasswordFile string
	// Free tells how much of its disk is free; tests have their own.
	Free func(dir string) (uint64, error)
}

// Bounds of what the store answers, in bytes, and for how long it is waited for. It lets go of a day when the questions
// about it have ended, which take a minute at most (its unit), and it has written what it has of it.
const (
	maxAnswer     = 8 << 20
	patience      = time.Minute
	patienceOfDay = 10 * time.Minute
)

const (
	partitions = "partitions"
	// going begins the name of a day until it has gone: the store does not start with half of one, and does not see
	// what begins with a dot. A full disk takes the name, too.
	going = ".going-"
)

// settled is how many days there have to be that are not too old before others go for their age. A store whose clock
// jumps by years has a day of then as soon as an entry comes, as seen from which all that it has is too old: people
// have two days to see that the clock is wrong.
const settled = 3

// Victim is the day that goes next, and why; both are empty where all may stay. now is the time of the clock, which may
// be wrong: days are old as seen from the newest one that is not of the future, and only where there are some beside it
// that are not (settled). That one always stays.
func Victim(s State, l Limits, now time.Time) (day, why string) {
	if len(s.Days) < 2 {
		return "", ""
	}
	today := now.UTC().Format(Form)
	after, found := slices.BinarySearch(s.Days, today)
	newest := after - 1
	if found {
		newest = after
	}
	if newest >= 0 {
		last, err := time.Parse(Form, s.Days[newest])
		if err == nil {
			old, _ := slices.BinarySearch(s.Days, last.AddDate(0, 0, -l.Days).Format(Form))
			if old > 0 && newest+1-old >= min(settled, l.Days+1) {
				return s.Days[0], fmt.Sprintf("entries are kept for %d days", l.Days)
			}
		}
	} else {
		newest = len(s.Days) - 1
	}
	first := s.Days[0]
	if newest == 0 {
		first = s.Days[1]
	}
	switch {
	case l.Bytes > 0 && s.Bytes > l.Bytes:
		return first, fmt.Sprintf("the data fill %d MiB, and may fill %d MiB", s.Bytes>>20, l.Bytes>>20)
	case s.Free < l.Floor:
		return first, fmt.Sprintf("%d MiB of the disk are free", s.Free>>20)
	}
	return "", ""
}

// Keep has days go until the data keep to their limits, and returns how the store is then, and how many went. The store
// runs.
func (s Store) Keep(ctx context.Context, l Limits, now time.Time, say func(string)) (State, int, error) {
	return s.keep(ctx, l, now, say, s.look, s.detach)
}

// Prepare does what Keep does before the store starts, without its bound in bytes: a store does not start on a full
// disk. It removes what was cut off, too.
func (s Store) Prepare(l Limits, now time.Time, say func(string)) error {
	left, err := filepath.Glob(filepath.Join(s.Dir, partitions, going+"*"))
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	look := func(context.Context) (State, error) {
		days, err := s.days()
		if err != nil {
			return State{}, err
		}
		free, err := s.Free(s.Dir)
		return State{Days: days, Free: free}, err
	}
	_, _, err = s.keep(context.Background(), l, now, say, look, func(context.Context, string) error { return nil })
	return err
}

func (s Store) keep(ctx context.Context, l Limits, now time.Time, say func(string),
	look func(context.Context) (State, error), letGo func(context.Context, string) error) (State, int, error) {
	gone, freed := 0, uint64(0)
	var before State
	for {
		st, err := look(ctx)
		if err != nil {
			return st, gone, err
		}
		judged := st
		if gone == 0 {
			before = st
			if st.Free < l.Floor {
				l.Floor = max(l.Floor, l.Enough)
			}
		} else {
			// File systems count as free what was removed only a while later, and the store says for a second what it
			// said.
			judged.Free, judged.Bytes = max(st.Free, before.Free+freed), before.Bytes-min(freed, before.Bytes)
		}
		day, why := Victim(judged, l, now)
		if day == "" {
			return st, gone, nil
		}
		say(fmt.Sprintf("%s: the day %s goes", why, day))
		if err := letGo(ctx, day); err != nil {
			return st, gone, err
		}
		n, err := s.remove(day)
		if err != nil {
			return st, gone, fmt.Errorf("remove the day %s: %w", day, err)
		}
		gone, freed = gone+1, freed+n
	}
}

// remove removes a day that no store has, and returns what it has filled.
func (s Store) remove(day string) (uint64, error) {
	to := filepath.Join(s.Dir, partitions, going+day)
	if err := os.RemoveAll(to); err != nil {
		return 0, err
	}
	if err := os.Rename(filepath.Join(s.Dir, partitions, day), to); err != nil {
		return 0, err
	}
	n, err := bytesOf(to)
	if err != nil {
		return 0, err
	}
	return n, os.RemoveAll(to)
}

// days are the folders of days.
func (s Store) days() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.Dir, partitions))
	if errors.Is(err, fs.ErrNotExist) { // It has never run.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if isDay(e.Name()) && e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

func isDay(name string) bool {
	t, err := time.Parse(Form, name)
	return err == nil && t.Format(Form) == name
}

// look asks the running store.
func (s Store) look(ctx context.Context) (State, error) {
	list, err := s.ask(ctx, patience, "/internal/partition/list", nil)
	if err != nil {
		return State{}, err
	}
	var st State
	if st.Days, err = parseDays(list); err != nil {
		return State{}, err
	}
	metrics, err := s.ask(ctx, patience, "/metrics", nil)
	if err != nil {
		return State{}, err
	}
	if st.Bytes, st.ReadOnly, err = parseMetrics(string(metrics)); err != nil {
		return State{}, err
	}
	st.Free, err = s.Free(s.Dir)
	return st, err
}

// detach has the store let go of a day.
func (s Store) detach(ctx context.Context, day string) error {
	_, err := s.ask(ctx, patienceOfDay, "/internal/partition/detach", url.Values{"name": {day}})
	return err
}

func (s Store) ask(ctx context.Context, bound time.Duration, path string, form url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	password, err := atomicfile.ReadLimited(s.PasswordFile, 4<<10)
	if err != nil {
		return nil, fmt.Errorf("the password of the store: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Address+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(logs.User, strings.TrimSpace(string(password)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the store: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the store for %s: %w", path, err)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask the store for %s: it answers %s: %.200q", path, answer.Status, text)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("ask the store for %s: its answer has more than %d bytes", path, maxAnswer)
	}
	return text, nil
}

// parseDays reads the list of days that the store has. Each is the name of a folder.
func parseDays(text []byte) ([]string, error) {
	var out []string
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("the store's list of days is malformed: %w", err)
	}
	for _, day := range out {
		if !isDay(day) {
			return nil, fmt.Errorf("the store's list of days has %.64q, which is not one", day)
		}
	}
	slices.Sort(out)
	return out, nil
}

// parseMetrics reads what the data fill, and whether the store takes nothing, from what it says of itself.
func parseMetrics(text string) (bytes uint64, readOnly bool, err error) {
	sizes := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		size := strings.HasPrefix(line, "vl_data_size_bytes{")
		if !size && !strings.HasPrefix(line, "vl_storage_is_read_only{") {
			continue
		}
		n, err := strconv.ParseUint(line[strings.LastIndexByte(line, ' ')+1:], 10, 63)
		if err != nil {
			return 0, false, fmt.Errorf("the store says %.200q of itself, which is not a number: %w", line, err)
		}
		if size {
			bytes, sizes = bytes+n, sizes+1
		} else {
			readOnly = n != 0
		}
	}
	if sizes != 2 {
		return 0, false, fmt.Errorf("the store says %d sizes of its data; there are two, entries and index", sizes)
	}
	return bytes, readOnly, nil
}

// bytesOf is what a folder fills on the disk.
func bytesOf(dir string) (uint64, error) {
	var sum uint64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		sum += uint64(st.Blocks) * 512
		return nil
	})
	return sum, err
}

// Free is what the disk of a folder has free for the store.
func Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("how much of the disk of %s is free: %w", dir, err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}
