// Package cachefolder finds the cache of the builder for the commands that have a use for it.
package cachefolder

import (
	"fmt"
	"os"
	"path/filepath"

	"spore/builder/store"
)

// LimitVariable is the environment variable that goes before the limit kept in the cache.
const LimitVariable = "SPORE_CACHE_LIMIT"

// Path is the folder that the flag names, else spore in the user's cache folder.
func Path(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag) // The compiler, which runs in another folder, is told paths in it.
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (or name one with --cache): %w", err)
	}
	return filepath.Join(base, "spore"), nil
}

// Open begins a session in it.
func Open(flag string) (*store.Store, error) {
	dir, err := Path(flag)
	if err != nil {
		return nil, err
	}
	return store.Open(dir)
}

// Limit is the size that the cache is held to, in bytes; 0 is none.
func Limit(dir string) (int64, error) {
	n, err := store.Limit(dir, os.Getenv(LimitVariable))
	if err != nil {
		return 0, fmt.Errorf("limit of the cache (%s, or spore cache limit): %w", LimitVariable, err)
	}
	return n, nil
}
