package kubecluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spore/builder/payload"
	"spore/builder/store"
)

// Programs compiles payloads of the source tree, or takes them from the cache, and lays their programs into root at the
// paths that they have in the image.
func Programs(ctx context.Context, source, root string, payloads ...string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	st, err := store.Open(filepath.Join(cache, "spore"))
	if err != nil {
		return err
	}
	for _, name := range payloads {
		programs, err := payload.Build(ctx, st, filepath.Join(source, "payloads", name), payload.Options{Env: os.Environ()})
		if err != nil {
			return err
		}
		for _, p := range programs {
			path := filepath.Join(root, p.Target)
			if err := install(p.Path, path); err != nil {
				return fmt.Errorf("install %s: %w", p.Name, err)
			}
			for _, link := range p.Links {
				if err := symlink(path, filepath.Join(root, link)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// install copies a program of the store, where it is no program.
func install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func symlink(to, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.Symlink(to, path)
}
