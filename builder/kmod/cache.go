package kmod

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"

	"spore/builder/store"
	"spore/builder/tree"
)

// scanStep names the output of Scan in the store; its number changes when Modules or the way it is found does.
const scanStep = "kmod-scan-1"

// filesStep names the index files in the store; its number changes when they do.
const filesStep = "kmod-files-1"

// Cached is Scan with its result kept in a store. kernel identifies the content of the module directory, for instance
// the SHA-256 of the kernel's package; t is called, and modules are read, only when the store does not know it.
func Cached(ctx context.Context, st *store.Store, kernel, version string, t func() (*tree.Tree, error)) (*Modules, error) {
	key := store.KeyOf(scanStep, kernel, version)
	f, err := st.Ensure(key, func(w *os.File) error {
		tr, err := t()
		if err != nil {
			return err
		}
		m, err := Scan(ctx, tr, version)
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(m)
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var m Modules
	if err := json.NewDecoder(f).Decode(&m); err != nil {
		return nil, st.Damaged(key, fmt.Errorf("read the module index of kernel %s from the store: %w", version, err))
	}
	return &m, nil
}

// CachedFiles is Files of what Cached returns, with its result kept in a store in the same way.
func CachedFiles(ctx context.Context, st *store.Store, kernel, version string, t func() (*tree.Tree, error)) (map[string][]byte, error) {
	key := store.KeyOf(filesStep, scanStep, kernel, version)
	f, err := st.Ensure(key, func(w *os.File) error {
		m, err := Cached(ctx, st, kernel, version, t)
		if err != nil {
			return err
		}
		files, err := m.Files()
		if err != nil {
			return err
		}
		return gob.NewEncoder(w).Encode(files)
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var files map[string][]byte
	if err := gob.NewDecoder(f).Decode(&files); err != nil {
		return nil, st.Damaged(key, fmt.Errorf("read the index files of kernel %s from the store: %w", version, err))
	}
	return files, nil
}
