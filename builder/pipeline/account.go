package pipeline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"spore/builder/dep5"
	"spore/builder/jar"
	"spore/builder/manifest"
	"spore/builder/packs"
	"spore/builder/payload"
	"spore/builder/privileged"
	"spore/builder/recipe"
	"spore/builder/tree"
)

// account adds to a manifest what only the composed root tells, but for its files: how much of each package it has, the
// packages' licences, and which files give rights of somebody else.
func account(m *manifest.Manifest, opened []*packs.Pack, composed *recipe.Result) error {
	version, err := composed.Tree.ReadFile("/etc/debian_version")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.DebianVersion = strings.TrimSpace(string(version))
	if m.Privileged, err = privileged.List(composed.Tree); err != nil {
		return err
	}

	in := map[string]int{}
	count := func(n *tree.Inode) {
		if n.Type != tree.Dir {
			in[n.Origin]++
		}
	}
	if err := composed.Tree.Walk(func(_ string, n *tree.Inode) error { count(n); return nil }); err != nil {
		return err
	}
	for _, n := range composed.Boot {
		count(n)
	}
	for i, p := range opened {
		total := 0
		err := p.Entries(func(_ string, n *tree.Inode) error {
			if n.Type != tree.Dir {
				total++
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("package %s: %w", p.Name, err)
		}
		q := &m.Packages[i]
		q.FilesIn = in["deb:"+p.Name+"_"+p.Version]
		q.FilesOut = max(total-q.FilesIn, 0)
		// The boot files of a package are in the image even where nothing of it is in the root.
		q.Absent = composed.Dropped[p.Name] && q.FilesIn == 0
		text, err := composed.Tree.ReadFile(path.Join("/usr/share/doc", p.Name, "copyright"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("package %s: read its copyright file: %w", p.Name, err)
		}
		q.License = dep5.Expression(string(text))
	}
	return nil
}

// bootPayloads describes the programs that run from elsewhere than a path of the root.
func (b *build) bootPayloads() ([]manifest.Payload, error) {
	var out []manifest.Payload
	for _, p := range append([]payload.Program{b.binaries.stage1}, b.binaries.contained...) {
		described, err := b.described(p)
		if err != nil {
			return nil, err
		}
		out = append(out, described)
	}
	return out, nil
}

// bundled lists the artifacts inside a jar, but for the one that it is.
func bundled(p payload.Program, file io.ReaderAt, size int64) ([]manifest.Artifact, error) {
	found, err := jar.Artifacts(file, size)
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", p.Name, err)
	}
	var out []manifest.Artifact
	for _, a := range found {
		if a.Group != p.Artifact.Group || a.Name != p.Artifact.Name {
			out = append(out, manifest.Artifact{Group: a.Group, Name: a.Name, Version: a.Version})
		}
	}
	return out, nil
}
