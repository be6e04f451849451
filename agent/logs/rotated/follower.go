// Package rotated follows log files that somebody else writes line by line, puts aside under another name, compresses
// and removes: those of one container, or the audit log of kube-apiserver. It reads each file to its end before it goes
// to the next one, and finds its place again after a restart, whatever the file is called by then.
//
// It leaves out what a line means, and keeps no place: the caller does, when somebody has what was read.
package rotated

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Settle is for how long nothing was written to a file before the next one is read: who rotates gives it another name
// first, and tells the writer afterwards.
const Settle = 2 * time.Second

// headSize is how many bytes of the first line name a file. They reach behind the time of a container's line and the
// identifier of an audit record, which nobody writes twice.
const headSize = 256

// File is a file of a series.
type File struct {
	// Path is that in the tree, Name the last part of it.
	Path, Name string
	Inode      uint64
	Size       int64
	Changed    time.Time
	// Group is told with its lines.
	Group int
}

// Position is a place in a series.
type Position struct {
	// Head names the file by its first line.
	Head string `json:"head,omitempty"`
	// Offset is in bytes, of what the file has before it is compressed.
	Offset int64 `json:"offset,omitempty"`
	// End says that the file was read to its end and will have no more.
	End bool `json:"end,omitempty"`
}

// Line is a line of a series, without its newline.
type Line struct {
	// Data is valid until the next line.
	Data []byte
	// Cut is how many bytes at its end are missing, for the line is longer than MaxLine.
	Cut int64
	// Start is where it begins, After where the next one does.
	Start, After Position
	Group        int
}

// Lost counts what went before it was read.
type Lost struct {
	// Files were removed, or could not be read to their end.
	Files int64
	// Bytes are those of them of which it is known.
	Bytes int64
}

// String is for people.
func (l Lost) String() string {
	return fmt.Sprintf("%d files were removed before they were read (%d bytes are known)", l.Files, l.Bytes)
}

// Follower reads a series of files.
type Follower struct {
	// MaxLine bounds a line in bytes.
	MaxLine int
	// Settle is Settle but in tests.
	Settle time.Duration
	// Now is the clock.
	Now func() time.Time
	// Lost grows.
	Lost Lost
	// Denied says that the next file is there and may not be read. It is waited for.
	Denied bool

	tree  *Tree
	files []File
	now   *reading
	// begin is where to begin, until a file was opened.
	begin *Position
	// left is the end of the last file that was left.
	left Position
}

// Follow begins at a position; nil is the beginning of the oldest file.
func Follow(tree *Tree, begin *Position) *Follower {
	if begin == nil {
		begin = &Position{End: true}
	}
	return &Follower{MaxLine: 64 << 10, Settle: Settle, Now: time.Now, tree: tree, begin: begin}
}

// reading is the file that is read.
type reading struct {
	file File
	f    *os.File
	// unzip is nil where the file is not compressed.
	unzip *gzip.Reader
	head  string
	// offset is that of rest.
	offset int64
	// rest begins a line whose end was not read yet.
	rest []byte
	// more is how many bytes of that line came behind rest and were not kept.
	more int64
	// finished says that nothing will come: it is compressed, and was read to its end.
	finished bool
}

func (r *reading) Read(p []byte) (int, error) {
	if r.unzip != nil {
		return r.unzip.Read(p)
	}
	return r.f.Read(p)
}

func (r *reading) close() { _ = r.f.Close() }

// at is the place where the next line begins.
func (r *reading) at(offset int64) Position { return Position{Head: r.head, Offset: offset} }

// errStale is a name that another file has by now.
var errStale = errors.New("the file has another name by now")

// passing are errors that say nothing of a file: the machine or this program has too little of something.
var passing = []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR}

// later tells whether an error goes away: the file is looked for again, or its right to be read is waited for.
func (f *Follower) later(err error) bool {
	f.Denied = errors.Is(err, fs.ErrPermission)
	is := func(target error) bool { return errors.Is(err, target) }
	return f.Denied || is(errStale) || is(fs.ErrNotExist) || slices.ContainsFunc(passing, is)
}

// open opens a file at its beginning.
func (f *Follower) open(file File) (*reading, error) {
	h, err := f.tree.Open(file.Path)
	if err != nil {
		return nil, err
	}
	r := &reading{file: file, f: h}
	var st unix.Stat_t
	if err := unix.Fstat(int(h.Fd()), &st); err != nil || st.Ino != file.Inode {
		r.close()
		return nil, errStale
	}
	if strings.HasSuffix(file.Name, ".gz") {
		if r.unzip, err = gzip.NewReader(h); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// headOf names a file; it is empty for one without a whole first line.
func (f *Follower) headOf(file File) (string, error) {
	r, err := f.open(file)
	if err != nil {
		return "", err
	}
	defer r.close()
	data := make([]byte, headSize+1)
	n, _ := io.ReadFull(r, data)
	data = data[:n]
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return Head(data[:i]), nil
	}
	if n < headSize {
		return "", nil
	}
	return Head(data), nil
}

// Head names a file by its first line.
func Head(line []byte) string {
	sum := sha256.Sum256(line[:min(len(line), headSize)])
	return hex.EncodeToString(sum[:12])
}

// See takes what files there are now, from the oldest on.
func (f *Follower) See(files []File) {
	sizes := map[uint64]int64{}
	names := map[string]bool{}
	for _, file := range files {
		sizes[file.Inode], names[file.Name] = file.Size, true
	}
	unknown := f.unknown(files)
	for _, old := range f.unread() {
		size, ok := sizes[old.Inode]
		switch {
		case ok && size >= old.Size, names[old.Name+".gz"]:
		case unknown > 0: // It was put aside and compressed since.
			unknown--
		default:
			f.Lost.Files++
			f.Lost.Bytes += old.Size
		}
	}
	if f.now == nil && f.begin.Head != "" && !f.begin.End && len(files) == 0 && len(f.files) > 0 {
		f.Lost.Files++ // One of them at least.
		f.begin = &Position{End: true}
	}
	f.files = files
	f.find()
}

// unknown is how many of the files are compressed and were not known under that name or the one before.
func (f *Follower) unknown(files []File) (count int) {
	known := map[string]bool{}
	for _, old := range f.files {
		known[old.Name] = true
	}
	for _, file := range files {
		before, zipped := strings.CutSuffix(file.Name, ".gz")
		if zipped && !known[before] && !known[file.Name] {
			count++
		}
	}
	return count
}

// find looks which of the files is the one that is read: it may have another name by now, or be compressed.
func (f *Follower) find() {
	r := f.now
	if r == nil {
		return
	}
	same := func(is func(File) bool) bool {
		i := slices.IndexFunc(f.files, is)
		if i >= 0 {
			r.file.Name, r.file.Inode = f.files[i].Name, f.files[i].Inode
		}
		return i >= 0
	}
	_ = same(func(file File) bool { return file.Inode == r.file.Inode }) ||
		same(func(file File) bool { return file.Name == r.file.Name+".gz" }) ||
		r.head != "" && same(func(file File) bool { head, err := f.headOf(file); return err == nil && head == r.head })
}

// unread are the files that are known and were not begun.
func (f *Follower) unread() []File {
	if f.now == nil {
		if f.begin.Head != "" {
			return nil // Which of them were read is not known yet.
		}
		return f.files
	}
	return f.files[f.current()+1:]
}

// current is the index of the file that is read, -1 where it is not among the files any more.
func (f *Follower) current() int {
	return slices.IndexFunc(f.files, func(file File) bool { return file.Inode == f.now.file.Inode })
}

// next is the file that comes behind the one that is read.
func (f *Follower) next() (File, bool) {
	i := f.current() + 1
	// For a moment the file is there a second time, compressed.
	if i > 0 && i < len(f.files) && f.files[i].Name == f.files[i-1].Name+".gz" {
		i++
	}
	if i >= len(f.files) {
		return File{}, false
	}
	return f.files[i], true
}

// start opens the first file to be read; false says that there is none.
func (f *Follower) start() bool {
	if len(f.files) == 0 {
		return false
	}
	if f.begin.Head != "" {
		for _, file := range slices.Backward(f.files) {
			head, err := f.headOf(file)
			if f.later(err) {
				return false
			}
			if head == f.begin.Head && f.resume(file) {
				return true
			}
		}
		if !f.begin.End {
			f.Lost.Files++
		}
	}
	f.begin = &Position{End: true}
	for len(f.files) > 0 {
		r, err := f.open(f.files[0])
		if err == nil {
			f.now, f.begin = r, nil
			return true
		}
		if f.later(err) {
			return false
		}
		f.skip()
	}
	return false
}

// skip leaves out the oldest file, which cannot be opened.
func (f *Follower) skip() {
	f.Lost.Files++
	f.Lost.Bytes += f.files[0].Size
	f.files = f.files[1:]
}

// resume opens a file at the place where it was left.
func (f *Follower) resume(file File) bool {
	r, err := f.open(file)
	if err != nil {
		return false
	}
	if !r.skip(f.begin.Offset) {
		r.close()
		return false
	}
	r.head, r.offset = f.begin.Head, f.begin.Offset
	f.now, f.begin = r, nil
	return true
}

// skip goes to a place; false says that the file is shorter.
func (r *reading) skip(offset int64) bool {
	if r.unzip != nil {
		_, err := io.CopyN(io.Discard, r.unzip, offset)
		return err == nil
	}
	st, err := r.f.Stat()
	if err != nil || st.Size() < offset {
		return false
	}
	_, err = r.f.Seek(offset, io.SeekStart)
	return err == nil
}

// Read gives about as many bytes of lines as the budget has to each, and uses buf, which is longer than MaxLine, for
// it. more says that the budget ended it.
func (f *Follower) Read(buf []byte, budget int, each func(Line)) (more bool) {
	for budget > 0 {
		if f.now == nil && !f.start() {
			return false
		}
		n := f.read(buf, budget, each)
		budget -= n
		if n == 0 && !f.move(each) {
			return false
		}
	}
	return true
}

// read reads once, and gives the lines that end.
func (f *Follower) read(buf []byte, budget int, each func(Line)) int {
	r := f.now
	if r.finished {
		return 0
	}
	kept := copy(buf, r.rest)
	n, err := r.Read(buf[kept:min(len(buf), kept+budget)])
	if r.unzip != nil && err != nil {
		r.finished = true
		if !errors.Is(err, io.EOF) { // It is damaged.
			f.Lost.Files++
		}
	}
	if n <= 0 {
		r.begin()
		return 0
	}
	data, searched := buf[:kept+n], kept
	for {
		i := bytes.IndexByte(data[searched:], '\n')
		if i < 0 {
			break
		}
		f.give(data[:searched+i], 1, each)
		data, searched = data[searched+i+1:], 0
	}
	keep := min(len(data), f.MaxLine)
	r.more += int64(len(data) - keep)
	r.rest = append([]byte(nil), data[:keep]...)
	return n
}

// begin begins anew where the file was emptied and not put aside.
func (r *reading) begin() {
	st, err := r.f.Stat()
	if err != nil || r.unzip != nil || st.Size() >= r.offset+int64(len(r.rest))+r.more {
		return
	}
	if _, err := r.f.Seek(0, io.SeekStart); err == nil {
		r.head, r.offset, r.rest, r.more = "", 0, nil, 0
	}
}

// give gives one line, whose end has so many bytes.
func (f *Follower) give(line []byte, end int64, each func(Line)) {
	r := f.now
	if r.offset == 0 {
		r.head = Head(line)
	}
	keep := min(len(line), f.MaxLine)
	l := Line{Data: line[:keep], Cut: r.more + int64(len(line)-keep), Start: r.at(r.offset), Group: r.file.Group}
	r.offset += int64(len(line)) + r.more + end
	l.After = r.at(r.offset)
	r.rest, r.more = nil, 0
	each(l)
}

// move goes to the next file, when there is one and nobody writes to this one any more. A line that has no end is
// given.
func (f *Follower) move(each func(Line)) bool {
	r := f.now
	file, ok := f.next()
	if !ok {
		return false
	}
	if !r.finished {
		st, err := r.f.Stat()
		// A time that is ahead of the clock is from before the clock was set back.
		if err == nil && (f.Now().Sub(st.ModTime()).Abs() < f.Settle || st.Size() > r.offset+int64(len(r.rest))+r.more) {
			return false
		}
	}
	if len(r.rest) > 0 {
		f.give(r.rest, 0, each)
	}
	to, err := f.open(file)
	if f.later(err) {
		return false
	}
	if err != nil {
		f.Lost.Files++
		f.Lost.Bytes += file.Size
		f.files = slices.DeleteFunc(slices.Clone(f.files), func(other File) bool { return other.Path == file.Path })
		return true
	}
	f.left = Position{Head: r.head, Offset: r.offset, End: true}
	r.close()
	f.now = to
	return true
}

// Place is a position as it is to be kept: with what is known of the end of its file.
func (f *Follower) Place(p Position) Position {
	p.End = p.Head == f.left.Head && p.Offset == f.left.Offset
	return p
}

// Waits tells whether no file was opened, though there are some: they have other names by now.
func (f *Follower) Waits() bool { return f.now == nil && len(f.files) > 0 && !f.Denied }

// Done tells whether all was read and there is nothing left of the series.
func (f *Follower) Done() bool {
	if len(f.files) > 0 {
		return false
	}
	if f.now == nil {
		return true
	}
	st, err := f.now.f.Stat()
	read := f.now.offset + int64(len(f.now.rest)) + f.now.more
	return err != nil || f.now.finished || f.now.unzip == nil && st.Size() <= read
}

// Close ends it. What was not read of a file that is not there any more counts as lost.
func (f *Follower) Close() {
	if f.now == nil {
		return
	}
	if st, err := f.now.f.Stat(); err == nil && len(f.files) == 0 && f.now.unzip == nil && st.Size() > f.now.offset {
		f.Lost.Files++
		f.Lost.Bytes += st.Size() - f.now.offset
	}
	f.now.close()
	f.now = nil
}
