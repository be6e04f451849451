package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"spore/builder/stamp"
)

// file is one input of the compiler.
type file struct {
	path string
	hash string
}

// moduleFiles hashes go.mod, go.sum and every regular file in the given directories, sorted by path. Tests, test data and
// hidden files are left out: they never reach a program.
func moduleFiles(module string, hashes *stamp.Hashes, dirs ...string) ([]file, error) {
	return listFiles(module, hashes, map[string]bool{"go.mod": true, "go.sum": true}, dirs...)
}

// listFiles hashes the named files and those in the given directories.
func listFiles(module string, hashes *stamp.Hashes, names map[string]bool, dirs ...string) ([]file, error) {
	root := os.DirFS(module)
	for _, dir := range dirs {
		err := fs.WalkDir(root, dir, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && p == dir && dir != ".":
				return fs.SkipDir // not every tree has every directory
			case err != nil:
				return err
			case p != "." && ignored(d.Name()):
				if d.IsDir() {
					return fs.SkipDir
				}
			case d.Type().IsRegular():
				names[p] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	files := make([]file, 0, len(names))
	for name := range names {
		h, err := hashes.SHA256(filepath.Join(module, name))
		if err != nil {
			return nil, fmt.Errorf("the payload needs it: %w", err)
		}
		files = append(files, file{path.Clean(name), h})
	}
	sort.Slice(files, func(i, j int) bool { return files[i].path < files[j].path })
	return files, nil
}

// listHash is the Go command's hash of a list of files (golang.org/x/mod/sumdb/dirhash, Hash1), in hexadecimal.
func listHash(files []file) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s  %s\n", f.hash, f.path)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ignored follows the go command's rule for names that it does not look at, and leaves out tests.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || strings.HasSuffix(name, "_test.go")
}
