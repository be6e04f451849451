package fat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// Device is what a filesystem is changed on.
type Device interface {
	io.ReaderAt
	io.WriterAt
	// Sync returns once what was written would survive a loss of power.
	Sync() error
}

// through is what a Device may have besides: a way to write past the host's memory, which Sync flushes, too. The
// content of files is written so, which takes a processor less than half as long.
type through interface{ Through() io.WriterAt }

// ErrFull is in the error for what does not fit.
var ErrFull = errors.New("there is not enough room on it")

// Editor changes files of a filesystem that nobody has mounted, so that a loss of power at any write leaves each file
// as it was or as it is to be: a file appears with the one write of the sector that has its directory entries, when
// content and chain are on the medium, and disappears with one such write before its clusters are given back. What a
// cut leaves is clusters that belong to no file; the next Edit gives them back.
//
// Kernels promise no such thing: a file that vfat renames is two files with one chain for a moment, and who removes one
// of them after a cut takes the content from the other.
type Editor struct {
	*FS
	dev    Device
	sector int64
	// tables are where the copies of the allocation table begin, entries its content.
	tables  []int64
	entries []uint32
	info    int64
}

// maxTable bounds the entries of an allocation table that is held in memory: 64 GiB in clusters of 4 KiB.
const maxTable = 16 << 20

const badCluster = 0x0ffffff7

// How many bytes of content are written at once where they are neighbours, and how many of a table are read; no
// cluster is larger.
const (
	atOnce      = 1 << 20
	tableAtOnce = 64 << 10
)

// Edit opens a filesystem of size bytes, makes its copies of the allocation table alike and gives back clusters that
// belong to no file.
func Edit(dev Device, size int64) (*Editor, error) {
	f, err := Open(dev, size)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 512)
	if _, err := dev.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read boot sector: %w", err)
	}
	le := binary.LittleEndian
	if f.clusters > maxTable {
		return nil, fmt.Errorf("%w: it has %d clusters, more than %d", ErrUnsound, f.clusters, maxTable)
	}
	e := &Editor{FS: f, dev: dev, sector: int64(le.Uint16(b[11:])), info: int64(le.Uint16(b[48:])) * int64(le.Uint16(b[11:]))}
	for i := range int64(b[16]) {
		e.tables = append(e.tables, f.table+i*int64(le.Uint32(b[36:]))*e.sector)
	}
	e.entries = make([]uint32, int64(f.clusters)+2)
	err = e.readTable(f.table, func(at int64, block []byte) {
		for i := range e.entries[at : at+int64(len(block)/4)] {
			e.entries[at+int64(i)] = le.Uint32(block[4*i:])
		}
	})
	if err != nil {
		return nil, err
	}
	if err := e.reclaim(); err != nil {
		return nil, err
	}
	return e, nil
}

// Free is the room for content in bytes.
func (e *Editor) Free() int64 {
	var n int64
	for _, v := range e.entries[2:] {
		if v&0x0fffffff == 0 {
			n++
		}
	}
	return n * e.cluster
}

// reclaim frees clusters that belong to no file, and brings all copies of the table to the content of the first.
func (e *Editor) reclaim() error {
	used := make([]bool, len(e.entries))
	if err := e.mark(used, e.rootCluster, 0); err != nil {
		return err
	}
	changed := map[int64]bool{}
	for c := 2; c < len(e.entries); c++ {
		v := e.entries[c] & 0x0fffffff
		if !used[c] && v != 0 && v != badCluster {
			e.set(uint32(c), 0, changed)
		}
	}
	for _, table := range e.tables[1:] {
		err := e.readTable(table, func(at int64, block []byte) {
			for i, v := range e.entries[at : at+int64(len(block)/4)] {
				if binary.LittleEndian.Uint32(block[4*i:]) != v {
					changed[4*(at+int64(i))/e.sector] = true
				}
			}
		})
		if err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return e.writeTable(changed)
}

// readTable reads a copy of the table: the entries from a number on, as they are on the device.
func (e *Editor) readTable(table int64, each func(at int64, block []byte)) error {
	buf := make([]byte, tableAtOnce)
	for at, count := int64(0), int64(len(e.entries)); at < count; at += tableAtOnce / 4 {
		block := buf[:min(tableAtOnce, 4*(count-at))]
		if _, err := e.dev.ReadAt(block, table+4*at); err != nil {
			return fmt.Errorf("read FAT: %w", err)
		}
		each(at, block)
	}
	return nil
}

// mark marks the clusters of a directory and all that is in it.
func (e *Editor) mark(used []bool, dir uint32, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: it has more than %d levels", ErrUnsound, maxDepth)
	}
	if err := e.markChain(used, dir, maxDirBytes); err != nil {
		return err
	}
	list, err := e.readDir(dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		switch {
		case f.Dir:
			err = e.mark(used, f.first, depth+1)
		case f.first != 0:
			// A chain that is longer than its file is no error here: what matters is that nobody else is given its clusters.
			err = e.markChain(used, f.first, int64(e.clusters)*e.cluster)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func (e *Editor) markChain(used []bool, first uint32, limit int64) error {
	offsets, err := e.chain(first, limit)
	for _, at := range offsets {
		used[e.clusterAt(at)] = true
	}
	return err
}

func (e *Editor) clusterAt(offset int64) uint32 { return uint32((offset-e.data)/e.cluster) + 2 }

// set changes an entry of the table in memory; the upper four bits are not ours (section 4.1).
func (e *Editor) set(c, value uint32, changed map[int64]bool) {
	e.entries[c] = e.entries[c]&0xf0000000 | value&0x0fffffff
	changed[int64(c)*4/e.sector] = true
}

// tableSector is a sector of the table as it is to be; the last one may be shorter.
func (e *Editor) tableSector(n int64) []byte {
	per := e.sector / 4
	var out []byte
	for _, v := range e.entries[n*per : min((n+1)*per, int64(len(e.entries)))] {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}

// writeTable writes sectors of all copies of the table, the one that is read last, and what is free.
func (e *Editor) writeTable(changed map[int64]bool) error {
	for i := len(e.tables) - 1; i >= 0; i-- {
		for n := range int64(len(e.entries))*4/e.sector + 1 {
			if !changed[n] {
				continue
			}
			if _, err := e.dev.WriteAt(e.tableSector(n), e.tables[i]+n*e.sector); err != nil {
				return fmt.Errorf("write FAT: %w", err)
			}
		}
	}
	b := make([]byte, e.sector)
	if _, err := e.dev.ReadAt(b, e.info); err != nil {
		return fmt.Errorf("read the count of free clusters: %w", err)
	}
	if string(b[:4]) == "RRaA" {
		binary.LittleEndian.PutUint32(b[488:], uint32(e.Free()/e.cluster))
		if _, err := e.dev.WriteAt(b, e.info); err != nil {
			return fmt.Errorf("write the count of free clusters: %w", err)
		}
	}
	return e.sync()
}

func (e *Editor) sync() error {
	if err := e.dev.Sync(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// allocate finds room for size bytes without taking it.
func (e *Editor) allocate(size int64) ([]uint32, error) {
	n := (size + e.cluster - 1) / e.cluster
	var out []uint32
	for c := uint32(2); int64(len(out)) < n && c < uint32(len(e.entries)); c++ {
		if e.entries[c]&0x0fffffff == 0 {
			out = append(out, c)
		}
	}
	if int64(len(out)) < n {
		return nil, fmt.Errorf("%w: %d MiB are needed and %d MiB are free", ErrFull, (size+1<<20-1)>>20, e.Free()>>20)
	}
	return out, nil
}

// take links clusters to a chain.
func (e *Editor) take(clusters []uint32, changed map[int64]bool) {
	for i, c := range clusters {
		next := uint32(endOfChain)
		if i+1 < len(clusters) {
			next = clusters[i+1]
		}
		e.set(c, next, changed)
	}
}

// Create makes a file of size bytes in a directory that is there. The name must be free.
func (e *Editor) Create(dir, name string, size int64, content io.Reader, when time.Time) error {
	if err := e.create(dir, name, size, content, when); err != nil {
		return fmt.Errorf("make %s/%s: %w", dir, name, err)
	}
	return nil
}

func (e *Editor) create(dir, name string, size int64, content io.Reader, when time.Time) error {
	if size < 0 || size > 1<<32-1 {
		return fmt.Errorf("%d bytes are not a file size", size)
	}
	p, err := e.newcomer(dir, name)
	if err != nil {
		return err
	}
	clusters, err := e.allocate(size)
	if err != nil {
		return err
	}
	if err := e.store(clusters, size, content); err != nil {
		return err
	}
	first := uint32(0)
	if len(clusters) > 0 {
		first = clusters[0]
	}
	return e.place(p.at, append(p.entries, entryOf(p.short, 0x20, first, size, fatTime(when))...))
}

// newcomer is what becomes of a name that is new in a directory: the entries before the one that makes it a file, its
// short name, and the place for all of them.
type newcomer struct {
	dir     *dir
	entries []byte
	short   string
	at      int64
}

// newcomer finds a place for a new name. It comes before the clusters of the content: with it the directory may grow.
func (e *Editor) newcomer(parent, name string) (p newcomer, err error) {
	if err := checkName(name); err != nil {
		return p, err
	}
	if p.dir, err = e.directory(parent); err != nil {
		return p, err
	}
	if _, there := p.dir.find(name); there {
		return p, fs.ErrExist
	}
	if p.entries, err = p.dir.entriesFor(name); err != nil {
		return p, err
	}
	p.short = p.dir.short(p.entries, name)
	p.at, err = e.room(p.dir, len(p.entries)/dirEntrySize+1)
	return p, err
}

// store writes content into clusters and links them, so that one write of a directory entry makes it a file.
func (e *Editor) store(clusters []uint32, size int64, content io.Reader) error {
	if err := e.fill(clusters, size, content); err != nil || len(clusters) == 0 {
		return err
	}
	changed := map[int64]bool{}
	e.take(clusters, changed)
	return e.writeTable(changed)
}

// MakeDirectory makes an empty directory in one that is there. The name must be free. It appears with one write, as a file
// does.
func (e *Editor) MakeDirectory(parent, name string, when time.Time) error {
	if err := e.makeDirectory(parent, name, when); err != nil {
		return fmt.Errorf("make the directory %s/%s: %w", strings.TrimSuffix(parent, "/"), name, err)
	}
	return nil
}

func (e *Editor) makeDirectory(parent, name string, when time.Time) error {
	p, err := e.newcomer(parent, name)
	if err != nil {
		return err
	}
	clusters, err := e.allocate(1)
	if err != nil {
		return err
	}
	up := p.dir.first
	if up == e.rootCluster {
		up = 0 // Section 6.5: so is the root named there, whichever cluster it has.
	}
	stamp := fatTime(when)
	content := append(entryOf(".          ", attrDir, clusters[0], 0, stamp), entryOf("..         ", attrDir, up, 0, stamp)...)
	content = append(content, make([]byte, e.cluster-int64(len(content)))...)
	if err := e.store(clusters, e.cluster, bytes.NewReader(content)); err != nil {
		return err
	}
	return e.place(p.at, append(p.entries, entryOf(p.short, attrDir, clusters[0], 0, stamp)...))
}

// Replace gives a file that is there another content, by the one write of the directory entry that names it: a cut
// leaves the content before, or the new one.
func (e *Editor) Replace(dir, name string, size int64, content io.Reader, when time.Time) error {
	if err := e.replace(dir, name, size, content, when); err != nil {
		return fmt.Errorf("replace %s/%s: %w", dir, name, err)
	}
	return nil
}

func (e *Editor) replace(dir, name string, size int64, content io.Reader, when time.Time) error {
	if size < 1 || size > 1<<32-1 {
		return fmt.Errorf("%d bytes are not the size of a file with content", size)
	}
	d, err := e.directory(dir)
	if err != nil {
		return err
	}
	f, there := d.find(name)
	switch {
	case !there:
		return fs.ErrNotExist
	case f.Dir:
		return errors.New("it is a directory")
	}
	clusters, err := e.allocate(size)
	if err != nil {
		return err
	}
	if err := e.store(clusters, size, content); err != nil {
		return err
	}
	at := f.places[len(f.places)-1]
	entry := make([]byte, dirEntrySize)
	if _, err := e.dev.ReadAt(entry, at); err != nil {
		return fmt.Errorf("read the directory: %w", err)
	}
	copy(entry[20:], entryOf("", 0, clusters[0], size, fatTime(when))[20:])
	if err := e.place(at, entry); err != nil {
		return err
	}
	// What the content before had is given back.
	return e.reclaim()
}

// fill writes the content into clusters, and flushes it. Neighbours are written at once.
func (e *Editor) fill(clusters []uint32, size int64, content io.Reader) error {
	out := io.WriterAt(e.dev)
	if d, ok := e.dev.(through); ok {
		out = d.Through()
	}
	buf := make([]byte, max(e.cluster, atOnce))
	for len(clusters) > 0 {
		run := 1
		most := min(len(clusters), int(int64(len(buf))/e.cluster))
		for run < most && clusters[run] == clusters[0]+uint32(run) {
			run++
		}
		part := buf[:int64(run)*e.cluster]
		n := min(size, int64(len(part)))
		clear(part[n:])
		if _, err := io.ReadFull(content, part[:n]); err != nil {
			return fmt.Errorf("read the content: %w", err)
		}
		if _, err := out.WriteAt(part, e.data+int64(clusters[0]-2)*e.cluster); err != nil {
			return fmt.Errorf("write the content: %w", err)
		}
		size -= n
		clusters = clusters[run:]
	}
	return e.sync()
}

// place writes directory entries that lie in one sector, in one write.
func (e *Editor) place(at int64, entries []byte) error {
	start := at - at%e.sector
	b := make([]byte, e.sector)
	if _, err := e.dev.ReadAt(b, start); err != nil {
		return fmt.Errorf("read the directory: %w", err)
	}
	for i := int64(0); i < at-start; i += dirEntrySize {
		if b[i] == 0 { // What was the end of the directory is in front of its last file now.
			b[i] = entryDeleted
		}
	}
	copy(b[at-start:], entries)
	if _, err := e.dev.WriteAt(b, start); err != nil {
		return fmt.Errorf("write the directory: %w", err)
	}
	return e.sync()
}

// Remove removes a file. Its clusters are given back unless another file has them too.
func (e *Editor) Remove(dir, name string) error {
	if err := e.remove(dir, name); err != nil {
		return fmt.Errorf("remove %s/%s: %w", dir, name, err)
	}
	return nil
}

func (e *Editor) remove(dir, name string) error {
	d, err := e.directory(dir)
	if err != nil {
		return err
	}
	f, there := d.find(name)
	if !there {
		return fs.ErrNotExist
	}
	if f.Dir {
		return errors.New("it is a directory")
	}
	if err := e.forget(f); err != nil {
		return err
	}
	// What no file has by now is given back.
	return e.reclaim()
}

// forget takes a file out of its directory. Where its entries lie in two sectors, the one that makes it a file goes
// first.
func (e *Editor) forget(f record) error {
	for i := len(f.places) - 1; i >= 0; {
		start := f.places[i] - f.places[i]%e.sector
		b := make([]byte, e.sector)
		if _, err := e.dev.ReadAt(b, start); err != nil {
			return fmt.Errorf("read the directory: %w", err)
		}
		for ; i >= 0 && f.places[i] >= start && f.places[i] < start+e.sector; i-- {
			b[f.places[i]-start] = entryDeleted
		}
		if _, err := e.dev.WriteAt(b, start); err != nil {
			return fmt.Errorf("write the directory: %w", err)
		}
		if err := e.sync(); err != nil {
			return err
		}
	}
	return nil
}

// Rename gives a file another name in its directory. Where the entries of the old name do not lie in one sector, a cut
// may leave both names for the one content; Remove knows that.
func (e *Editor) Rename(dir, from, to string) error {
	if err := e.rename(dir, from, to); err != nil {
		return fmt.Errorf("rename %s/%s to %s: %w", dir, from, to, err)
	}
	return nil
}

func (e *Editor) rename(dir, from, to string) error {
	if err := checkName(to); err != nil {
		return err
	}
	d, err := e.directory(dir)
	if err != nil {
		return err
	}
	f, there := d.find(from)
	if !there {
		return fs.ErrNotExist
	}
	if other, there := d.find(to); there {
		if other.first != f.first || f.first == 0 {
			return fs.ErrExist
		}
		return e.forget(f) // An earlier renaming was cut off between the two.
	}
	entries, err := d.entriesFor(to)
	if err != nil {
		return err
	}
	last := make([]byte, dirEntrySize)
	if _, err := e.dev.ReadAt(last, f.places[len(f.places)-1]); err != nil {
		return fmt.Errorf("read the directory: %w", err)
	}
	copy(last, d.short(entries, to))
	last[12] = 0 // Bits by which Windows shows short names in lower case.
	entries = append(entries, last...)
	if n := len(entries) / dirEntrySize; n <= len(f.places) && f.places[0]/e.sector == f.places[len(f.places)-1]/e.sector {
		unused := make([]byte, (len(f.places)-n)*dirEntrySize)
		for i := 0; i < len(unused); i += dirEntrySize {
			unused[i] = entryDeleted
		}
		return e.place(f.places[0], append(unused, entries...))
	}
	at, err := e.room(d, len(entries)/dirEntrySize)
	if err != nil {
		return err
	}
	if err := e.place(at, entries); err != nil {
		return err
	}
	return e.forget(f)
}

// record is a file with the places of its directory entries; the last is the one that makes it a file.
type record struct {
	Entry
	shortName string
	places    []int64
}

// dir is a directory as it lies on the device.
type dir struct {
	first   uint32
	records []record
	// places are those of all entries, free those that nobody uses; end is the index of the first that never was used.
	places []int64
	free   []bool
	end    int
}

func (d *dir) find(name string) (record, bool) {
	for _, r := range d.records {
		if strings.EqualFold(r.Name, name) {
			return r, true
		}
	}
	return record{}, false
}

// entriesFor are the directory entries of a new name but for the last.
func (d *dir) entriesFor(name string) ([]byte, error) {
	used := map[string]bool{}
	for _, r := range d.records {
		used[r.shortName] = true
	}
	if isShort(name) && !used[shortName(name)] {
		return nil, nil
	}
	short, err := shorten(name, used)
	if err != nil {
		return nil, err
	}
	return longName(name, short), nil
}

// short is the short name that entriesFor chose.
func (d *dir) short(entries []byte, name string) string {
	if entries == nil {
		return shortName(name)
	}
	used := map[string]bool{}
	for _, r := range d.records {
		used[r.shortName] = true
	}
	short, _ := shorten(name, used)
	return short
}

// directory reads a directory by its path.
func (e *Editor) directory(path string) (*dir, error) {
	first, err := e.locate(path)
	if err != nil {
		return nil, err
	}
	return e.scan(first)
}

func (e *Editor) scan(first uint32) (*dir, error) {
	offsets, err := e.chain(first, maxDirBytes)
	if err != nil {
		return nil, err
	}
	d := &dir{first: first, end: -1}
	var long []uint16
	var places []int64
	buf := make([]byte, e.cluster)
	for _, at := range offsets {
		if _, err := e.dev.ReadAt(buf, at); err != nil {
			return nil, fmt.Errorf("read directory: %w", err)
		}
		for i := int64(0); i < e.cluster; i += dirEntrySize {
			b := buf[i : i+dirEntrySize]
			d.places = append(d.places, at+i)
			if b[0] == 0 && d.end < 0 {
				d.end = len(d.places) - 1
			}
			d.free = append(d.free, d.end >= 0 || b[0] == entryDeleted)
			switch {
			case d.free[len(d.free)-1]:
				long, places = nil, nil
			case b[11]&0x3f == attrLong:
				if b[0]&longNameLast != 0 {
					places = nil
				}
				long, places = addLong(long, b), append(places, at+i)
			default:
				if b[11]&attrLabel == 0 && b[0] != '.' {
					d.records = append(d.records, record{parseEntry(b, long), string(b[:11]), append(places, at+i)})
				}
				long, places = nil, nil
			}
		}
	}
	if d.end < 0 {
		d.end = len(d.places)
	}
	return d, nil
}

// room is a place for n entries in one sector. What lies behind the end of the directory may be anything, and is
// cleared before the end moves. A directory that has no such place grows by a cluster.
func (e *Editor) room(d *dir, n int) (int64, error) {
	if int64(n)*dirEntrySize > e.sector {
		return 0, errors.New("the name is too long to be written at once")
	}
	for i := 0; i+n <= len(d.places); i++ {
		fits := d.places[i]/e.sector == d.places[i+n-1]/e.sector
		for j := i; fits && j < i+n; j++ {
			fits = d.free[j]
		}
		if !fits {
			continue
		}
		if i+n <= d.end {
			return d.places[i], nil
		}
		return d.places[i], e.open(d, i)
	}
	if err := e.extend(d); err != nil {
		return 0, err
	}
	grown, err := e.scan(d.first)
	if err != nil {
		return 0, err
	}
	*d = *grown
	return e.room(d, n)
}

// open clears all behind the end of a directory and moves the end to the sector of entry i.
func (e *Editor) open(d *dir, i int) error {
	zero := make([]byte, dirEntrySize)
	write := func(from, to int, b []byte) error {
		for ; from < to; from++ {
			if _, err := e.dev.WriteAt(b, d.places[from]); err != nil {
				return fmt.Errorf("write the directory: %w", err)
			}
		}
		return e.sync()
	}
	if err := write(d.end, len(d.places), zero); err != nil {
		return err
	}
	unused := make([]byte, dirEntrySize)
	unused[0] = entryDeleted
	// The entries of the sector of i itself are place's.
	to := d.end
	for to < i && d.places[to]/e.sector != d.places[i]/e.sector {
		to++
	}
	return write(d.end, to, unused)
}

// extend gives a directory another cluster.
func (e *Editor) extend(d *dir) error {
	if int64(len(d.places)+1)*dirEntrySize > maxDirBytes {
		return fmt.Errorf("%w: the directory has too many entries", ErrFull)
	}
	fresh, err := e.allocate(1)
	if err != nil {
		return err
	}
	if _, err := e.dev.WriteAt(make([]byte, e.cluster), e.data+int64(fresh[0]-2)*e.cluster); err != nil {
		return fmt.Errorf("write the directory: %w", err)
	}
	changed := map[int64]bool{}
	e.take(fresh, changed)
	if err := e.writeTable(changed); err != nil {
		return err
	}
	last := e.clusterAt(d.places[len(d.places)-1])
	changed = map[int64]bool{}
	e.set(last, fresh[0], changed)
	return e.writeTable(changed)
}
