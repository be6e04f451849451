package squashfs

import (
	"errors"
	"fmt"
	"math"
	"path"
	"sort"

	"spore/builder/tree"
)

// node is one inode on its way into the image.
type node struct {
	path    string // the first of its paths
	inode   *tree.Inode
	nlink   uint32
	number  uint32 // inode number, from 1
	parent  *node  // of a directory
	entries []entry
	content *PackedContent // of a regular file
	placed  *placement     // likewise, once the data has its place

	written   bool
	reference uint64 // in the inode table, once written
	list      listing
}

// entry is one name in a directory.
type entry struct {
	name string
	node *node
}

// plan turns a tree into nodes with numbers, and checks that squashfs can hold each. The nodes come in the order of
// their numbers: the root, then the entries of each directory together, so that the differences that a directory stores
// stay small.
func plan(t *tree.Tree) (root *node, nodes []*node, err error) {
	byInode, byPath := map[*tree.Inode]*node{}, map[string]*node{}
	err = t.Walk(func(p string, in *tree.Inode) error {
		n := byInode[in]
		if n == nil {
			if err := checkInode(in); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			n = &node{path: p, inode: in}
			byInode[in] = n
		} else if in.Type == tree.Dir {
			return fmt.Errorf("%s: the directory %s has a second name", p, n.path)
		}
		if in.Type == tree.Dir {
			byPath[p] = n
			n.nlink = 2
		} else {
			n.nlink++
		}
		if p == "/" {
			return nil
		}
		if err := checkPath(p); err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
		dir := byPath[path.Dir(p)]
		if dir == nil {
			return fmt.Errorf("%s: %s is not a directory", p, path.Dir(p))
		}
		dir.entries = append(dir.entries, entry{path.Base(p), n})
		if in.Type == tree.Dir {
			n.parent = dir
			dir.nlink++
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	root = byPath["/"]
	if root == nil {
		return nil, nil, errors.New("the tree has no root directory")
	}
	if int64(len(byInode)) >= math.MaxUint32 {
		return nil, nil, fmt.Errorf("%d inodes are too many", len(byInode))
	}
	return root, number(root), nil
}

func number(root *node) []*node {
	var nodes []*node
	take := func(n *node) {
		if n.number == 0 {
			nodes = append(nodes, n)
			n.number = uint32(len(nodes))
		}
	}
	take(root)
	dirs := []*node{root}
	for len(dirs) > 0 {
		d := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		sort.Slice(d.entries, func(i, j int) bool { return d.entries[i].name < d.entries[j].name })
		for _, e := range d.entries {
			take(e.node)
		}
		for i := len(d.entries) - 1; i >= 0; i-- {
			if n := d.entries[i].node; n.inode.Type == tree.Dir {
				dirs = append(dirs, n)
			}
		}
	}
	return nodes
}
