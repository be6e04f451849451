package initialize

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"spore/builder/cmd/schema"
	"spore/cluster"
	"spore/cluster/check"
	"spore/cluster/role"
)

// skeletons holds a role that is valid and documents each key, as files of a configuration folder.
//
//go:embed skeleton
var skeletons embed.FS

// skeletonName is what the role is called there.
const skeletonName = "my-role"

// writable are names that mean themselves in paths, YAML and units; the check of roles refuses more.
var writable = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)

// clusterFile is what makes a folder a configuration.
const clusterFile = "cluster.yaml"

// WriteRole puts the skeleton of a role of the user's own into the configuration folder dir, and the schemas beside it,
// and returns the names of the files that it wrote, sorted. It overwrites nothing but schemas.
func WriteRole(dir, name string) ([]string, error) {
	shared, err := os.ReadFile(filepath.Join(dir, clusterFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s; name a configuration folder, or make one with `spore init`", dir, clusterFile)
	}
	if err != nil {
		return nil, fmt.Errorf("write role %s: %w", name, err)
	}
	files, err := skeleton(name)
	if err != nil {
		return nil, err
	}
	d, err := try(name, files, shared)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(files))
	for _, file := range names {
		if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
			return nil, fmt.Errorf("%s exists already and is not overwritten; name another role", filepath.Join(dir, file))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("write role %s: %w", name, err)
		}
	}
	if err := writeAll(dir, names, files); err != nil {
		return nil, fmt.Errorf("write role %s: %w", name, err)
	}
	schemas, err := schema.Write(dir, []*role.Definition{d})
	if err != nil {
		return nil, err
	}
	names = append(names, schemas...)
	slices.Sort(names)
	return names, nil
}

// skeleton are the files of a role of that name, by their paths.
func skeleton(name string) (map[string][]byte, error) {
	if !writable.MatchString(name) {
		return nil, fmt.Errorf("%q is not the name of a role; write 2 to 32 lower-case letters, digits and -, the first a letter",
			name)
	}
	folder, err := fs.Sub(skeletons, "skeleton")
	if err != nil {
		return nil, err
	}
	written := map[string][]byte{}
	if err := collect(written, folder, ""); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for file, data := range written {
		file = strings.ReplaceAll(file, skeletonName, name)
		files[file] = []byte(strings.ReplaceAll(string(data), skeletonName, name))
	}
	return files, nil
}

// try checks the files in a folder of their own, with the cluster's: a name that something else has is found before
// anything is written.
func try(name string, files map[string][]byte, shared []byte) (*role.Definition, error) {
	dir, err := os.MkdirTemp("", "spore-role-")
	if err != nil {
		return nil, fmt.Errorf("check role %s: %w", name, err)
	}
	defer os.RemoveAll(dir)
	all := maps.Clone(files)
	all[clusterFile] = shared
	if err := writeAll(dir, slices.Sorted(maps.Keys(all)), all); err != nil {
		return nil, fmt.Errorf("check role %s: %w", name, err)
	}
	c, report := cluster.Check(os.DirFS(dir), cluster.Options{})
	for _, p := range report {
		if _, ours := files[p.File]; ours && p.Severity == check.Error {
			return nil, fmt.Errorf("a role cannot be called %q: %s", name, strings.TrimSuffix(p.Message, "; rename the file"))
		}
	}
	if len(c.Roles) != 1 {
		return nil, fmt.Errorf("internal error: the skeleton of a role makes %d roles", len(c.Roles))
	}
	return c.Roles[0], nil
}

func writeAll(dir string, names []string, files map[string][]byte) error {
	for _, name := range names {
		if err := writeNew(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

// printRole names what was written and what is left to do.
func printRole(w io.Writer, dir, name string, written []string) {
	for _, file := range written {
		fmt.Fprintln(w, filepath.Join(dir, file))
	}
	fmt.Fprintf(w, "edit %s, and in %s:\n", filepath.Join(dir, role.Dir, name+".yaml"), filepath.Join(dir, clusterFile))
	fmt.Fprintf(w, "  add %s to services\n", name)
	fmt.Fprintf(w, "  add %s to the roles of each node that runs it\n", name)
	fmt.Fprintf(w, "then: spore validate %s\n", path.Clean(filepath.ToSlash(dir)))
}
