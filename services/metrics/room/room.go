// Package room makes room in the data of VictoriaMetrics, which does not run meanwhile: it has a retention in days, and
// no bound in bytes. Where its data fill more than they may, or the disk has hardly any space left, the oldest go.
//
// What it knows of the format (VictoriaMetrics 1.150, lib/storage): data/small and data/big have a folder for each
// month, with a folder for each part, which is samples of some time. data/small/MONTH/parts.json lists the parts of a
// month; the store deletes a part that is not listed when it starts. data/indexdb/MONTH is the index of a month, and
// cache what is made again. A part goes as a whole, and a month that has no parts any more goes with its index.
package room

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
)

// Limits are what the data have to keep to.
type Limits struct {
	// Bytes is what they may fill; 0 is without a bound.
	Bytes uint64
	// Floor is how much of the disk has to be free in bytes, and Enough how much there is when room was made.
	Floor, Enough uint64
}

// lastDay is what a full disk leaves: others may fill it, and the data of today would not make room for long.
const lastDay = 24 * time.Hour

// Bounds of what is read of a folder of data.
const (
	maxEntries = 1_000_000
	maxList    = 16 << 20
	maxHeader  = 64 << 10
)

var month = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{4}_[0-9]{2}$`) })

// part is a part of a month.
type part struct {
	month, kind, name string
	// last is the time of its last sample, in milliseconds.
	last  int64
	bytes uint64
}

// list is parts.json of a month.
type list struct {
	Small []string
	Big   []string
}

// content is what a folder of data has.
type content struct {
	// parts are those that are listed, the oldest first.
	parts []part
	// indexes are what the indexes of months fill, and rest what is filled besides. What is not listed does not count: it
	// is of a merge that goes on, or goes at the next start.
	indexes map[string]uint64
	// cache is what goes with the first part.
	cache, rest uint64
}

func (c content) bytes() uint64 {
	sum := c.rest + c.cache
	for _, p := range c.parts {
		sum += p.bytes
	}
	for _, n := range c.indexes {
		sum += n
	}
	return sum
}

// Bytes is what the data in a folder fill.
func Bytes(dir string) (uint64, error) {
	c, err := look(dir)
	return c.bytes(), err
}

// Over tells whether the data in a folder have to give something up, and can. The store may run.
func Over(dir string, l Limits) (bool, error) {
	c, err := look(dir)
	if err != nil {
		return false, err
	}
	free, err := freeOf(dir)
	if err != nil {
		return false, err
	}
	return len(victims(c, free, l)) > 0, nil
}

// Make has the oldest parts go until the data keep to their limits. It can be cut off at any point, and run again.
func Make(dir string, l Limits, say func(string)) error {
	if err := os.RemoveAll(filepath.Join(dir, going)); err != nil {
		return err
	}
	c, err := look(dir)
	if err != nil {
		return err
	}
	free, err := freeOf(dir)
	if err != nil {
		return err
	}
	out := victims(c, free, l)
	if len(out) == 0 {
		return nil
	}
	last, sum := out[len(out)-1].last, uint64(0)
	for _, p := range out {
		sum += p.bytes
	}
	say(fmt.Sprintf("the data fill %d MiB and %d MiB of the disk are free: %d MiB of the oldest go, with samples up to %s",
		c.bytes()>>20, free>>20, sum>>20, time.UnixMilli(last).UTC().Format(time.RFC3339)))
	// It knows series of the indexes that go. It goes first, too, so that a disk without any space takes the new lists.
	if err := os.RemoveAll(filepath.Join(dir, cache)); err != nil {
		return err
	}
	for _, name := range monthsOf(out) {
		if err := drop(dir, name, out, c); err != nil {
			return fmt.Errorf("make room in the data of %s: %w", name, err)
		}
	}
	// What was cut off before has left the indexes of months without any parts.
	newest := c.parts[len(c.parts)-1].month
	for name := range c.indexes {
		has := func(p part) bool { return p.month == name }
		if month().MatchString(name) && name < newest && !slices.ContainsFunc(c.parts, has) {
			if err := forget(dir, name); err != nil {
				return fmt.Errorf("make room in the data of %s: %w", name, err)
			}
		}
	}
	return os.RemoveAll(filepath.Join(dir, going))
}

// victims are the parts that go, the oldest first.
func victims(c content, free uint64, l Limits) []part {
	var out []part
	have := c.bytes()
	over := l.Bytes > 0 && have > l.Bytes
	low := free < l.Floor
	for i, p := range c.parts {
		young := p.last > c.parts[len(c.parts)-1].last-lastDay.Milliseconds()
		switch {
		case over && have > l.Bytes/10*9: // So that it takes a while until the next ones go.
		case low && free < l.Enough && !young:
		default:
			return out
		}
		gone := p.bytes
		if i == 0 {
			gone += c.cache
		}
		if !slices.ContainsFunc(c.parts[i+1:], func(q part) bool { return q.month == p.month }) {
			gone += c.indexes[p.month]
		}
		have, free = have-min(gone, have), free+gone
		out = append(out, p)
	}
	return out
}

// cache is what the store makes again.
const cache = "cache"

// going is where what goes lies until it has gone: the store does not look there.
const going = "going"

// drop has those parts of a month go that are among out, and the month where none is left.
func drop(dir, name string, out []part, c content) error {
	var left list
	for _, p := range c.parts {
		if p.month != name || slices.Contains(out, p) {
			continue
		}
		if p.kind == "small" {
			left.Small = append(left.Small, p.name)
		} else {
			left.Big = append(left.Big, p.name)
		}
	}
	slices.Sort(left.Small)
	slices.Sort(left.Big)
	text, err := json.Marshal(left)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	// From here on the store deletes them, too.
	if err := atomicfile.WriteDurable(filepath.Join(dir, "data/small", name, "parts.json"), text, 0o600); err != nil {
		return err
	}
	for _, p := range out {
		if p.month != name {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, "data", p.kind, name, p.name)); err != nil {
			return err
		}
	}
	if len(left.Small)+len(left.Big) > 0 {
		return nil
	}
	return forget(dir, name)
}

// forget has a month go that has no parts. The index goes last, and each folder at once: the store does not start with
// half of an index.
func forget(dir, name string) error {
	for _, kind := range []string{"big", "small", "indexdb"} {
		to := filepath.Join(dir, going, kind+"-"+name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "data", kind, name), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func monthsOf(parts []part) []string {
	var out []string
	for _, p := range parts {
		if !slices.Contains(out, p.month) {
			out = append(out, p.month)
		}
	}
	slices.Sort(out)
	return out
}

// look reads what is in a folder of data. The store may run meanwhile: what has gone does not count.
func look(dir string) (content, error) {
	c := content{indexes: map[string]uint64{}}
	months, err := os.ReadDir(filepath.Join(dir, "data/small"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	for _, m := range months {
		if !m.IsDir() || !month().MatchString(m.Name()) {
			continue
		}
		parts, err := partsOf(dir, m.Name())
		if err != nil {
			return c, err
		}
		c.parts = append(c.parts, parts...)
	}
	slices.SortFunc(c.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.month, b.month), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	entries, err := os.ReadDir(filepath.Join(dir, "data/indexdb"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	for _, e := range entries {
		if c.indexes[e.Name()], err = indexBytes(filepath.Join(dir, "data/indexdb", e.Name())); err != nil {
			return c, err
		}
	}
	top, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	for _, e := range top {
		if e.Name() == "data" || e.Name() == going {
			continue
		}
		n, err := bytesOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return c, err
		}
		if e.Name() == cache {
			c.cache = n
		} else {
			c.rest += n
		}
	}
	return c, nil
}

// partsOf reads the parts of a month that are listed.
func partsOf(dir, name string) ([]part, error) {
	file := filepath.Join(dir, "data/small", name, "parts.json")
	text, err := atomicfile.ReadLimited(file, maxList)
	if errors.Is(err, fs.ErrNotExist) { // The month has just begun, or goes.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	listed, err := parseList(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out []part
	for kind, names := range map[string][]string{"small": listed.Small, "big": listed.Big} {
		for _, n := range names {
			at := filepath.Join(dir, "data", kind, name, n)
			header, err := atomicfile.ReadLimited(filepath.Join(at, "metadata.json"), maxHeader)
			if errors.Is(err, fs.ErrNotExist) { // It was merged meanwhile.
				continue
			}
			if err != nil {
				return nil, err
			}
			p := part{month: name, kind: kind, name: n}
			if p.last, err = parseHeader(header); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			if p.bytes, err = bytesOf(at); err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// parseList reads parts.json of a month. Names are those of folders beside it.
func parseList(text []byte) (list, error) {
	var l list
	if err := json.Unmarshal(text, &l); err != nil {
		return list{}, fmt.Errorf("the list of parts is malformed: %w", err)
	}
	for _, names := range [][]string{l.Small, l.Big} {
		for _, n := range names {
			if n == "" || n == "." || n == ".." || n != filepath.Base(n) {
				return list{}, fmt.Errorf("the list of parts has %.64q, which is not the name of a folder", n)
			}
		}
	}
	return l, nil
}

// parseHeader reads the time of the last sample from metadata.json of a part, in milliseconds.
func parseHeader(text []byte) (int64, error) {
	var h struct{ MaxTimestamp *int64 }
	if err := json.Unmarshal(text, &h); err != nil {
		return 0, fmt.Errorf("the header of a part is malformed: %w", err)
	}
	if h.MaxTimestamp == nil {
		return 0, errors.New("the header of a part does not have the time of its last sample")
	}
	return *h.MaxTimestamp, nil
}

// indexBytes is what the parts of an index fill that are listed, or all of it where nothing is.
func indexBytes(dir string) (uint64, error) {
	text, err := atomicfile.ReadLimited(filepath.Join(dir, "parts.json"), maxList)
	if errors.Is(err, fs.ErrNotExist) {
		return bytesOf(dir)
	}
	if err != nil {
		return 0, err
	}
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return 0, fmt.Errorf("the list of %s is malformed: %w", dir, err)
	}
	var sum uint64
	for _, name := range names {
		n, err := bytesOf(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// bytesOf is what a folder fills on the disk.
func bytesOf(dir string) (uint64, error) {
	var sum uint64
	entries := 0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // The store has just merged it.
			return nil
		}
		if err != nil {
			return err
		}
		if entries++; entries > maxEntries {
			return fmt.Errorf("%s has more than %d files", dir, maxEntries)
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += uint64(st.Blocks) * 512
		}
		return nil
	})
	return sum, err
}

// freeOf is what the disk has free for the store, as it asks itself.
func freeOf(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("how much of the disk of %s is free: %w", dir, err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}
