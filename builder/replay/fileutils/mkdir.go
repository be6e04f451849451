package fileutils

import (
	"fmt"
	"path"
	"strings"

	"spore/builder/replay/files"
	"spore/builder/tree"
)

func mkdir(j *job) error {
	o, err := j.options("m|mode= p|parents v|verbose Z", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	var changes []modeChange
	if text, ok := o.last("m"); ok {
		if changes, err = parseMode(text); err != nil {
			return j.stop(1, "invalid mode '%s'", text)
		}
	}
	for _, name := range o.operands {
		if err := j.mkdirOne(name, changes, o.has("p"), o.has("v")); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) mkdirOne(name string, changes []modeChange, parents, verbose bool) error {
	if name == "" {
		j.fail("cannot create directory '': No such file or directory")
		return nil
	}
	if parents {
		if j.isDir(name) {
			return nil
		}
		if ok, err := j.parents(name, verbose); !ok {
			return err
		}
	}
	p := j.abs(name)
	mode, bits := adjust(allRWX, true, j.Umask, changes)
	if err := j.makeDir(p, mode&(allRWX|sticky)&^j.Umask); err != nil {
		return j.soft(err, "cannot create directory '%s'", name)
	}
	// As in mkdir-p.c of gnulib: chmod comes only when mkdir(2) did not give the bits that are named.
	if n, err := j.Files.Lstat(p); err == nil && (n.Mode^mode)&bits != 0 {
		if err := j.setMode(p, mode|n.Mode&^bits&(setuid|setgid|sticky)); err != nil {
			return err
		}
	}
	if verbose {
		j.printf("mkdir: created directory '%s'\n", name)
	}
	return nil
}

// parents makes the missing parents of an operand with the mode 0755.
func (j *job) parents(name string, verbose bool) (ok bool, err error) {
	trimmed := strings.TrimRight(name, "/")
	for i := 1; i < len(trimmed); i++ {
		if trimmed[i] != '/' || trimmed[i-1] == '/' {
			continue
		}
		dir := trimmed[:i]
		if j.isDir(dir) {
			continue
		}
		if err := j.makeDir(j.abs(dir), allRWX&^j.Umask); err != nil {
			if n, err2 := j.stat(dir); err2 == nil && n.Type != tree.Dir {
				j.fail("cannot create directory '%s': Not a directory", dir)
				return false, nil
			}
			return false, j.soft(err, "cannot create directory '%s'", dir)
		}
		if verbose {
			made := "created"
			if j.Name == "install" {
				made = "creating"
			}
			j.printf("%s: %s directory '%s'\n", j.Name, made, dir)
		}
	}
	return true, nil
}

func mkfifo(j *job) error {
	o, err := j.options("m|mode= Z", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	return j.fifos(o, o.operands)
}

func (j *job) fifos(o *options, names []string) error {
	mode := uint32(0o666 &^ j.Umask)
	if text, ok := o.last("m"); ok {
		changes, err := parseMode(text)
		if err != nil {
			return j.stop(1, "invalid mode")
		}
		mode, _ = adjust(0o666, false, j.Umask, changes)
		if mode&^allRWX != 0 {
			return j.stop(1, "mode must specify only file permission bits")
		}
	}
	for _, name := range names {
		p := j.abs(name)
		err := j.Files.Mkfifo(p, mode)
		if err == nil {
			err = j.inherit(p)
		}
		if err != nil {
			if err := j.soft(err, "cannot create fifo '%s'", name); err != nil {
				return err
			}
		}
	}
	return nil
}

func mknod(j *job) error {
	o, err := j.options("m|mode= Z", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) < 2 {
		return j.missing(o.operands)
	}
	name, kind := o.operands[0], o.operands[1]
	if kind != "p" && len(o.operands) < 4 {
		return j.missing(o.operands)
	}
	switch kind {
	case "p":
		if len(o.operands) > 2 {
			return j.extra(o.operands[2])
		}
		return j.fifos(o, []string{name})
	case "b", "c", "u":
		return fmt.Errorf("make the device node %s: %w; udev and tmpfiles.d make device nodes on the node",
			path.Clean(name), files.ErrRefused)
	}
	return j.stop(1, "invalid device type '%s'", kind)
}
