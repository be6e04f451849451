package kafka

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archiveSuffix is that of an archive of classes (JEP 350).
const archiveSuffix = ".jsa"

// Archive names the JVM's archive of classes in a directory after all that decides whether the JVM takes it, and removes
// other ones: the JVM makes an archive where there is none, but refuses one of other jars, sizes, times or options at each
// start without ever making it anew. So does it go with one that it was writing when the power was cut: its header, which
// comes last, is empty.
func Archive(dir string, of []string, options []byte) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s", len(options), options)
	for _, path := range slices.Sorted(slices.Values(of)) {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("name the archive of classes: %w", err)
		}
		fmt.Fprintf(h, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
	}
	name := "kafka-" + hex.EncodeToString(h.Sum(nil)[:8]) + archiveSuffix
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for archives of classes: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Name() == name && !unfinished(path) || !strings.Contains(e.Name(), archiveSuffix) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return "", fmt.Errorf("remove an old archive of classes: %w", err)
		}
	}
	return filepath.Join(dir, name), nil
}

// unfinished tells whether an archive has no header.
func unfinished(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err != nil || magic == [4]byte{}
}
