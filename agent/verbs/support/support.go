// Package support is the verb support: what somebody else needs to help, of one node, as text files without secrets:
// the journal of this start and the last, the kernel's log, units, mounts, network, versions, and the configuration.
package support

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/dmesg"
	"spore/agent/verbs/mask"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Bounds: of one file and of all in bytes, of one line, and of what one event carries, of which JSON makes up to six
// times as much.
const (
	maxFile = 16 << 20
	maxAll  = 48 << 20
	maxLine = 32 << 10
	chunk   = 64 << 10
)

// Bounds of time: of a journal, of a program that asks another, and of any else.
const (
	journalTime = 5 * time.Minute
	askTime     = 10 * time.Second
	programTime = 40 * time.Second
)

// maxConfiguration is how many files of the configuration are collected.
const maxConfiguration = 500

// maxSmall bounds what is read of a file of the node in bytes.
const maxSmall = 1 << 20

// Part is a piece of a file, in the order of the file.
type Part struct {
	// File is its path in what is collected, such as journal/this-start.txt.
	File string `json:"file"`
	// Text is what follows in it.
	Text string `json:"text"`
}

// Support is the verb; its Run is verbs.Machine but in tests.
type Support struct {
	Run verbs.Programs
	// Verbs are others whose answers are collected, too, by name. They are called without arguments.
	Verbs map[string]verbs.Handler
	// File and All bound one file and all of them, in bytes, and Time one program; 0 is the usual.
	File, All int
	Time      time.Duration
}

// source is a file of what is collected, and how it is made.
type source struct {
	file string
	make func(ctx context.Context, w io.Writer) error
}

// Collect answers with the files, part by part. lines bounds the entries of each journal.
func (s Support) Collect(ctx context.Context, r *verbs.Run) (string, error) {
	m, err := mask.New(r.Machine.Root.At(paths.Secrets), r.Machine.Root.At(paths.Live), r.Machine.Root.At(paths.StateKeys))
	if err != nil {
		return "", err
	}
	lines := r.Argument("lines", "20000")
	c := &collector{r: r, mask: m, most: cmp.Or(s.File, maxFile), mostAll: cmp.Or(s.All, maxAll)}
	files := 0
	for _, src := range s.sources(r, lines) {
		if err := c.file(ctx, src); err != nil {
			return "", err
		}
		if files++; c.all >= c.mostAll {
			return fmt.Sprintf("%d files; the rest was left out: there is no room for more than %d MiB", files, c.mostAll>>20), nil
		}
	}
	return fmt.Sprintf("%d files, %.1f MiB", files, float64(c.all)/(1<<20)), nil
}

// sources are the files. What says most comes first, since a bound cuts off the end, and the journals come before
// programs that ask others, which may hang.
func (s Support) sources(r *verbs.Run, lines string) []source {
	root := r.Machine.Root
	file := func(to string, from ...string) source {
		return source{to, func(_ context.Context, w io.Writer) error { return copyFiles(w, from...) }}
	}
	program := func(to string, bound time.Duration, words ...string) source {
		return source{to, func(ctx context.Context, w io.Writer) error {
			return s.program(ctx, w, cmp.Or(s.Time, bound), words...)
		}}
	}
	journal := []string{"journalctl", "--no-pager", "--quiet", "--output=short-iso-precise", "--lines=" + lines}
	out := []source{
		file("status.json", root.At(paths.Status)),
		file("versions.txt", root.At("/usr/lib/os-release"), root.At("/proc/version"), root.At("/proc/cmdline"), root.At(paths.Update)),
		program("journal/this-start.txt", journalTime, append(slices.Clone(journal), "--boot=0")...),
		program("journal/last-start.txt", journalTime, append(slices.Clone(journal), "--boot=-1")...),
		{"kernel.txt", func(ctx context.Context, w io.Writer) error { return kernelLog(ctx, w, root.At(dmesg.Path)) }},
		program("units/failed.txt", askTime, "systemctl", "status", "--failed", "--no-pager", "--full", "--lines=50"),
		program("units/all.txt", askTime, "systemctl", "list-units", "--all", "--plain", "--no-pager", "--full"),
		program("units/jobs.txt", askTime, "systemctl", "list-jobs", "--no-pager", "--full"),
		program("units/timers.txt", askTime, "systemctl", "list-timers", "--all", "--no-pager", "--full"),
		file("machine/memory.txt", root.At("/proc/meminfo"), root.At("/proc/loadavg"), root.At("/proc/pressure/cpu"),
			root.At("/proc/pressure/memory"), root.At("/proc/pressure/io")),
		file("machine/processors.txt", root.At("/proc/cpuinfo")),
		file("disks/partitions.txt", root.At("/proc/partitions"), root.At("/proc/diskstats"), root.At("/proc/self/mountinfo")),
		program("disks/space.txt", programTime, "df", "-h"),
		program("disks/inodes.txt", programTime, "df", "-i"),
		program("network/state.txt", askTime, "networkctl", "status", "--all", "--no-pager", "--full", "--lines=20"),
		file("network/counters.txt", root.At("/proc/net/dev"), root.At("/proc/net/route"), root.At("/proc/net/ipv6_route"),
			root.At("/proc/net/arp"), root.At("/etc/resolv.conf")),
		program("network/time.txt", askTime, "timedatectl", "timesync-status"),
	}
	for _, name := range slices.Sorted(maps.Keys(s.Verbs)) {
		out = append(out, source{name + ".json", func(ctx context.Context, w io.Writer) error {
			return answer(ctx, w, r, s.Verbs[name], cmp.Or(s.Time, programTime))
		}})
	}
	return append(out, configuration(root.At("/etc/cluster-config"))...)
}

// configuration are the files that the node was given, which hold no secret by the rules of the configuration; they are
// masked all the same. Folders and files are links into the cluster part.
func configuration(dir string) []source {
	var out []source
	for _, folder := range []string{"", "services", "nodes", "roles", "environment"} {
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		if err != nil { // Most clusters lack one of them.
			continue
		}
		for _, e := range entries {
			path := filepath.Join(dir, folder, e.Name())
			if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || len(out) >= maxConfiguration {
				continue
			}
			out = append(out, source{"configuration/" + filepath.ToSlash(filepath.Join(folder, e.Name())),
				func(_ context.Context, w io.Writer) error { return copyFiles(w, path) }})
		}
	}
	return out
}

// copyFiles writes files one after the other, with their names where there are several.
func copyFiles(w io.Writer, files ...string) error {
	for _, name := range files {
		data, err := atomicfile.ReadLimited(name, maxSmall)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if len(files) > 1 {
			fmt.Fprintf(w, "== %s\n", name)
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(append(bytes.TrimRight(data, "\n"), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// program writes what a program prints and says until its time is over.
func (s Support) program(ctx context.Context, w io.Writer, bound time.Duration, words ...string) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := s.Run(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = w, w
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s was not done within %s; what it prints last can be missing: %w", words[0], bound, ctx.Err())
	case errors.As(err, &exit): // systemctl status tells by its exit status that a unit failed.
		return nil
	}
	return err
}

// answer writes the results of another verb, as an array in JSON that has <, > and & as they are, for the mask to find
// secrets with them.
func answer(ctx context.Context, w io.Writer, r *verbs.Run, handle verbs.Handler, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var text bytes.Buffer
	_, failed := handle(ctx, verbs.For(r.Machine, r.Cluster, r.Node, nodeapi.Order{}, &text))
	text.WriteString("{\"done\":\"-\"}\n")
	results := []any{}
	_, err := nodeapi.ReadEvents(&text, func(e nodeapi.Event) error {
		if e.Result == nil {
			return nil
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(e.Result))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return err
		}
		results = append(results, v)
		return nil
	})
	if err != nil {
		return errors.Join(failed, err)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return errors.Join(failed, e.Encode(results))
}

func kernelLog(ctx context.Context, w io.Writer, path string) error {
	records, _, err := dmesg.Read(ctx, path)
	if err != nil {
		return err
	}
	for _, rec := range records {
		if _, err := fmt.Fprintln(w, rec); err != nil {
			return err
		}
	}
	return nil
}

// collector gives files to the caller.
type collector struct {
	r    *verbs.Run
	mask *mask.Mask
	// most and mostAll are the bounds, and all is what was sent, in bytes.
	most, mostAll, all int
}

// file gives one, masked line by line, with the newest where there is no room for all. What cannot be read is a file
// that says so; an error is that nobody listens.
func (c *collector) file(ctx context.Context, src source) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	most := min(c.most, c.mostAll-c.all)
	t, err := newTail(most)
	if err != nil {
		return fmt.Errorf("collect %s: %w", src.file, err)
	}
	defer t.close()
	missing := src.make(ctx, t)
	out := &partWriter{c: c, file: src.file}
	if err := c.copy(out, t); err != nil {
		return fmt.Errorf("collect %s: %w", src.file, err)
	}
	if most < c.most && t.written > int64(most) {
		c.all = c.mostAll
	}
	if missing != nil {
		if err := out.write("(" + c.mask.Text(missing.Error()) + ")"); err != nil {
			return err
		}
	}
	return out.flush()
}

// copy masks the lines of a file and writes them. Those before what is shown are read, too: a key may begin there.
func (c *collector) copy(out *partWriter, t *tail) error {
	from, before, cut, err := t.read()
	if err != nil {
		return err
	}
	lines := mask.Lines{Mask: c.mask}
	in := bufio.NewReaderSize(from, maxLine)
	if cut > 0 {
		if err := out.write(fmt.Sprintf("(cut off: about %d bytes before this)", cut)); err != nil {
			return err
		}
	}
	for {
		text, size, err := readLine(in)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		text = lines.Line(strings.ToValidUTF8(text, "\ufffd"))
		early := before > 0
		if before -= size; early {
			continue
		}
		c.all += int(size)
		if err := out.write(text); err != nil {
			return err
		}
	}
}

// readLine returns a line without its end, and how many bytes it has with it. Of a line that is too long it returns the
// words that fit: half a secret would not be found.
func readLine(in *bufio.Reader) (string, int64, error) {
	line, err := in.ReadSlice('\n')
	size := int64(len(line))
	switch {
	case errors.Is(err, io.EOF) && len(line) > 0:
		return string(line), size, nil
	case !errors.Is(err, bufio.ErrBufferFull):
		return string(bytes.TrimRight(line, "\r\n")), size, err
	}
	text := string(line[:max(0, bytes.LastIndexAny(line, " \t"))]) + " (line cut off)"
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		size += int64(len(line))
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text, size, err
}

// partWriter sends a file in parts.
type partWriter struct {
	c    *collector
	file string
	text strings.Builder
	some bool
}

func (p *partWriter) write(line string) error {
	p.text.WriteString(line)
	p.text.WriteByte('\n')
	if p.text.Len() < chunk {
		return nil
	}
	return p.flush()
}

// flush sends what there is; a file of which nothing was sent is sent as an empty one. A line can have become longer
// than a part by what stands for its secrets.
func (p *partWriter) flush() error {
	if p.text.Len() == 0 && p.some {
		return nil
	}
	p.some = true
	text := p.text.String()
	p.text.Reset()
	for len(text) > chunk {
		n := chunk
		for n > chunk-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		if err := p.c.r.Result(Part{p.file, text[:n]}); err != nil {
			return err
		}
		text = text[n:]
	}
	return p.c.r.Result(Part{p.file, text})
}
