package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"spore/builder/packs"
	"spore/builder/recipe"
	"spore/builder/squashfs"
	"spore/builder/tree"
)

// interpreters returns what the recipe asks of each program of the packages: to find that out takes decompressing a block of
// nearly every one, and packages rarely change.
func (b *build) interpreters(opened []*packs.Pack) (map[[sha256.Size]byte]string, error) {
	var sums []string
	for _, p := range b.packages.list {
		sums = append(sums, p.SHA256)
	}
	found, err := memo(b, "interpreters", sums, func() (map[string]string, error) {
		found := map[string]string{}
		for _, p := range opened {
			if err := addInterpreters(found, p); err != nil {
				return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
		}
		return found, nil
	})
	if err != nil {
		return nil, err
	}
	known := make(map[[sha256.Size]byte]string, len(found))
	for sum, interpreter := range found {
		raw, err := hex.DecodeString(sum)
		if err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("internal error: %q is not a hash of a program", sum)
		}
		known[[sha256.Size]byte(raw)] = interpreter
	}
	return known, nil
}

// addInterpreters adds those of one package, for the folders in which the recipe asks, before and after /usr is merged.
func addInterpreters(found map[string]string, p *packs.Pack) error {
	return p.Entries(func(name string, n *tree.Inode) error {
		c, packed := n.Content.(*squashfs.PackedContent)
		switch path.Dir(name) {
		case "/bin", "/sbin", "/usr/bin", "/usr/sbin":
		default:
			return nil
		}
		if !packed || n.Mode&0o111 == 0 {
			return nil
		}
		interpreter, err := recipe.Interpreter(c)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found[fmt.Sprintf("%x", c.SHA256())] = interpreter
		return nil
	})
}
