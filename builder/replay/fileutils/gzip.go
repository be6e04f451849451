package fileutils

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"spore/builder/replay/files"
	"spore/builder/tree"
)

type zipper struct {
	*job
	toStdout, unzip, force, keepOld, test bool
	level                                 int
}

// gzipOptions are those of gzip, gunzip and zcat. The header never has a name or a time, as with -n.
const gzipOptions = "c|stdout|to-stdout d|decompress|uncompress f|force k|keep n|no-name q|quiet t|test v|verbose " +
	"1|fast 2 3 4 5 6 7 8 9|best"

func gzipCommand(j *job) error { return zip(j, false, false) }

func gunzip(j *job) error { return zip(j, true, false) }

func zcat(j *job) error { return zip(j, true, true) }

func zip(j *job, unzip, toStdout bool) error {
	o, err := j.options(gzipOptions, permuted)
	if err != nil {
		return err
	}
	z := &zipper{job: j, toStdout: toStdout || o.has("c"), unzip: unzip || o.has("d") || o.has("t"), force: o.has("f"),
		keepOld: o.has("k"), test: o.has("t"), level: 6}
	if level := o.lastOf("1", "2", "3", "4", "5", "6", "7", "8", "9"); level != "" {
		z.level = int(level[0] - '0')
	}
	if len(o.operands) == 0 {
		o.operands = []string{"-"}
	}
	for _, name := range o.operands {
		if err := z.one(name); err != nil {
			return err
		}
	}
	return nil
}

func (z *zipper) one(name string) error {
	if name == "-" {
		data, err := read(z.Stdin)
		if err != nil {
			return err
		}
		out, err := z.convert("stdin", data)
		if err == nil && !z.test {
			z.Stdout.Write(out)
		}
		return z.told(err)
	}
	n, err := z.stat(name)
	if err != nil && z.unzip && !strings.HasSuffix(name, ".gz") {
		if with, err2 := z.stat(name + ".gz"); err2 == nil {
			name, n, err = name+".gz", with, nil
		}
	}
	if err != nil {
		return z.soft(err, "%s", name)
	}
	link, err := z.lstat(name)
	switch {
	case n.Type == tree.Dir:
		z.status = 2
		z.warn("%s is a directory -- ignored", name)
		return nil
	case n.Type != tree.Regular, err == nil && link.Type == tree.Symlink && !z.toStdout && !z.test && !z.force:
		z.status = 2
		z.warn("%s: not a directory or a regular file - ignored", name)
		return nil
	}
	out, target, ok, err := z.plan(name, n)
	if !ok || err != nil {
		return err
	}
	switch {
	case z.test:
		return nil
	case z.toStdout:
		z.Stdout.Write(out)
		return nil
	}
	return z.replace(name, target, n, out)
}

// warn prints a message: gunzip and zcat call themselves gzip too.
func (z *zipper) warn(format string, args ...any) {
	fmt.Fprintf(z.Stderr, "gzip: "+format+"\n", args...)
}

// plan returns the result for a file and the name that it gets.
func (z *zipper) plan(name string, n *tree.Inode) (out []byte, target string, ok bool, err error) {
	target = name + ".gz"
	if z.unzip {
		target = strings.TrimSuffix(name, ".gz")
		if strings.HasSuffix(name, ".tgz") {
			target = strings.TrimSuffix(name, ".tgz") + ".tar"
		}
	}
	inPlace := !z.toStdout && !z.test
	switch {
	case inPlace && z.unzip && target == name:
		z.status = 2
		z.warn("%s: unknown suffix -- ignored", name)
		return nil, "", false, nil
	case inPlace && !z.unzip && strings.HasSuffix(name, ".gz") && !z.force:
		z.warn("%s already has .gz suffix -- unchanged", name)
		return nil, "", false, nil
	case inPlace && !z.force && z.known(z.abs(target)):
		z.status = 2
		z.warn("%s already exists;	not overwritten", target)
		return nil, "", false, nil
	}
	data, err := z.Files.ReadFile(z.abs(name))
	if err != nil {
		return nil, "", false, z.soft(err, "%s", name)
	}
	if out, err = z.convert(name, data); err != nil {
		return nil, "", false, z.told(err)
	}
	return out, target, true, nil
}

// replace puts the new file in the place of the old one, with its owner, mode and time stamp.
func (z *zipper) replace(name, target string, n *tree.Inode, out []byte) error {
	p := z.abs(target)
	if have, err := z.Files.Lstat(p); err == nil && have.Type != tree.Dir {
		if err := z.Files.Remove(p); err != nil {
			return z.soft(err, "%s", target)
		}
	}
	if err := z.Files.WriteFile(p, out, 0o600); err != nil {
		return z.soft(err, "%s", target)
	}
	if err := z.preserve(p, n, keep{mode: true, ownership: true, timestamps: true}); err != nil {
		return z.soft(err, "%s", target)
	}
	if z.keepOld {
		return nil
	}
	return z.soft(z.Files.Remove(z.abs(name)), "%s", name)
}

var errFormat = errors.New("not in gzip format")

// told prints what is wrong with the data.
func (z *zipper) told(err error) error {
	if err == nil || hard(err) {
		return err
	}
	z.status = 1
	fmt.Fprintf(z.Stderr, "\ngzip: %s\n", err)
	return nil
}

func (z *zipper) convert(name string, data []byte) ([]byte, error) {
	if !z.unzip {
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, z.level)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		return out.Bytes(), nil
	}
	if len(data) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		if z.force && z.toStdout {
			return data, nil
		}
		return nil, fmt.Errorf("%s: %w", name, errFormat)
	}
	out, err := read(r)
	if err != nil && !hard(err) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, err
}

// read returns all of a stream that is not larger than a file may be.
func read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, files.MaxRead+1))
	if err != nil {
		return nil, err
	}
	if len(data) > files.MaxRead {
		return nil, fmt.Errorf("the data is over %d bytes: %w", files.MaxRead, files.ErrBound)
	}
	return data, nil
}
