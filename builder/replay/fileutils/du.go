package fileutils

import (
	"path"
	"strings"

	"spore/builder/tree"
)

type usage struct {
	*job
	summary, all, bytes, total bool
	unit                       int64
	follow                     string
	seen                       map[*tree.Inode]bool
}

// du counts blocks of 4 KiB for files and directories, and each inode once.
func du(j *job) error {
	o, err := j.options("s|summarize a|all k m b|bytes c|total x|one-file-system L|dereference "+
		"D|H|dereference-args P", permuted)
	if err != nil {
		return err
	}
	u := &usage{job: j, summary: o.has("s"), all: o.has("a"), total: o.has("c"), unit: 1024,
		seen:   map[*tree.Inode]bool{},
		follow: o.lastOf("L", "D", "P")}
	if u.summary && u.all {
		return j.stop(1, "cannot both summarize and show all entries")
	}
	switch o.lastOf("k", "m", "b") {
	case "m":
		u.unit = 1 << 20
	case "b":
		u.unit, u.bytes = 1, true
	}
	operands := o.operands
	if len(operands) == 0 {
		operands = []string{"."}
	}
	var sum int64
	for _, name := range operands {
		n, err := j.look(name, u.follow == "L" || u.follow == "D")
		if err != nil {
			if err := j.soft(err, "cannot access '%s'", name); err != nil {
				return err
			}
			continue
		}
		if u.seen[n] {
			continue
		}
		size, err := u.walk(name, j.abs(name), n, true)
		if err != nil {
			return err
		}
		sum += size
	}
	if u.total {
		u.tell(sum, "total")
	}
	return nil
}

func (u *usage) walk(name, p string, n *tree.Inode, operand bool) (int64, error) {
	if u.seen[n] {
		return 0, nil
	}
	u.seen[n] = true
	sum := kilobytes(n) << 10
	if u.bytes {
		sum = size(n)
	}
	dir := n.Type == tree.Dir
	if dir {
		names, err := u.children(p)
		if err != nil {
			return sum, u.soft(err, "cannot read directory '%s'", name)
		}
		for _, child := range names {
			cp := path.Join(p, child)
			c, err := u.Files.Lstat(cp)
			if err == nil && u.follow == "L" {
				c, err = u.Files.Stat(cp)
			}
			if err != nil {
				continue
			}
			size, err := u.walk(strings.TrimSuffix(name, "/")+"/"+child, cp, c, false)
			if err != nil {
				return sum, err
			}
			sum += size
		}
	}
	if operand || !u.summary && (dir || u.all) {
		u.tell(sum, name)
	}
	return sum, nil
}

func (u *usage) tell(sum int64, name string) { u.printf("%d\t%s\n", (sum+u.unit-1)/u.unit, name) }

// freeSpace is what df tells in bytes: a terabyte, none of it used. What fits into the image is not for scripts to
// find out.
const freeSpace = 1 << 40

func df(j *job) error {
	o, err := j.options("P|portability k m l|local a|all output?", permuted)
	if err != nil {
		return err
	}
	unit, title := int64(1<<10), "1K-blocks"
	if o.lastOf("k", "m") == "m" {
		unit, title = 1<<20, "1M-blocks"
	}
	use := "Use%"
	if o.has("P") {
		use = "Capacity"
		title = map[int64]string{1 << 10: "1024-blocks", 1 << 20: "1048576-blocks"}[unit]
	}
	names := o.operands
	if len(names) == 0 {
		names = []string{"/"}
	}
	output, chosen := o.last("output")
	if chosen && output != "avail" {
		return j.unknown("--output=" + output)
	}
	heading := false
	for _, name := range names {
		if _, err := j.stat(name); err != nil {
			if err := j.soft(err, "%s", name); err != nil {
				return err
			}
			continue
		}
		if chosen {
			if !heading {
				j.printf("%*s\n", 10, "Avail")
				heading = true
			}
			j.printf("%*d\n", 10, freeSpace/unit)
			continue
		}
		if !heading {
			j.printf("Filesystem %*s Used %*s %s Mounted on\n", max(len(title), 10), title, 10, "Available", use)
			heading = true
		}
		j.printf("rootfs     %*d %4d %*d %*s /\n", max(len(title), 10), freeSpace/unit, 0, 10, freeSpace/unit,
			len(use), "0%")
	}
	return nil
}
