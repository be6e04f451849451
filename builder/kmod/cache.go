package kmod

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"spore/builder/store"
	"spore/builder/tree"
)

// scanStep names the output of Scan in the store; its number changes when Modules or the way it is found does.
const scanStep = "kmod-scan-2"

// Cached is Scan with its result kept in a store. kernel identifies the content of the module directory, for instance
// the SHA-256 of the kernel's package; t is called, and modules are read, only when the store does not know it.
func Cached(ctx context.Context, st *store.Store, kernel, version string, part Part, t func() (*tree.Tree, error)) (*Modules, error) {
	key := store.KeyOf(scanStep, kernel, version, part.ID)
	f, err := st.Ensure(key, func(w *os.File) error {
		tr, err := t()
		if err != nil {
			return err
		}
		m, err := Scan(ctx, tr, version, part)
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
