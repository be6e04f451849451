package fileutils

import (
	"path"

	"spore/builder/tree"
)

// linkCounts has the number of names of each inode that has more than one, once it was asked for.
type linkCounts map[*tree.Inode]int

// linkCount is st_nlink: for a directory two and one for each directory in it, as on ext4.
func (j *job) linkCount(n *tree.Inode) int {
	if j.counts == nil {
		j.counts = linkCounts{}
		if root, err := j.Files.Lstat("/"); err == nil {
			j.countLinks("/", root)
		}
	}
	if count := j.counts[n]; count > 0 {
		return count
	}
	return 1
}

func (j *job) countLinks(dir string, n *tree.Inode) {
	j.counts[n] = 2
	names, err := j.children(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		p := path.Join(dir, name)
		child, err := j.Files.Lstat(p)
		if err != nil {
			continue
		}
		if child.Type == tree.Dir {
			j.counts[n]++
			j.countLinks(p, child)
		} else {
			j.counts[child]++
		}
	}
}
