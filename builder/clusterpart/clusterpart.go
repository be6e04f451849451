// Package clusterpart makes the cluster part of an image: the configuration and its compiled form as a small squashfs
// with its dm-verity hash area directly behind it, in one partition.
package clusterpart

import (
	"fmt"
	"io"
	"os"

	"spore/builder/squashfs"
	"spore/builder/tree"
	"spore/cluster"
	"spore/storage/verity"
)

// Part is a finished cluster part.
type Part struct {
	// RootHash is the root of the hash tree in hexadecimal.
	RootHash string
	// Size is the length in bytes, hash area included.
	Size int64
}

// Write writes the cluster part of a configuration to f, which is empty. buildTime is in seconds since the epoch.
func Write(f *os.File, c *cluster.Config, buildTime int64) (Part, error) {
	t, err := Tree(c, buildTime)
	if err != nil {
		return Part{}, err
	}
	linked, err := squashfs.Link(f, t, squashfs.Options{BuildTime: uint32(buildTime)})
	if err != nil {
		return Part{}, fmt.Errorf("link the cluster part: %w", err)
	}
	hash, size, err := verity.Format(f, linked.Size, io.NewOffsetWriter(f, linked.Size), verity.Derive(linked.ContentID[:]))
	if err != nil {
		return Part{}, fmt.Errorf("hash the cluster part: %w", err)
	}
	return Part{RootHash: fmt.Sprintf("%x", hash), Size: linked.Size + size}, nil
}

// Tree lays the compiled configuration out as files that anybody may read: no secret is in it.
func Tree(c *cluster.Config, buildTime int64) (*tree.Tree, error) {
	files, err := cluster.Compile(c)
	if err != nil {
		return nil, err
	}
	t := tree.New()
	for path, data := range files {
		n := &tree.Inode{Type: tree.Regular, Mode: 0o644, MTime: buildTime, Content: tree.Bytes(data), Origin: "config:" + path}
		if err := t.Add("/"+path, n); err != nil {
			return nil, fmt.Errorf("lay out the cluster part: %w", err)
		}
	}
	// Parents are made in the order of a map, so their times are set here.
	return t, t.Walk(func(_ string, n *tree.Inode) error {
		n.MTime = buildTime
		return nil
	})
}
