package kraft

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

	"spore/storage/atomicfile"
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
	// The directory lies in the folder of Kafka's user.
	home, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(dir, name), nil
	}
	if err != nil {
		return "", fmt.Errorf("look for archives of classes: %w", err)
	}
	defer home.Close()
	names, err := namesIn(home, filepath.Base(dir))
	if err != nil {
		return "", fmt.Errorf("look for archives of classes: %w", err)
	}
	for _, other := range names {
		path := filepath.Join(filepath.Base(dir), other)
		if other == name && !unfinished(home, path) || !strings.Contains(other, archiveSuffix) {
			continue
		}
		if err := home.Remove(path); err != nil {
			return "", fmt.Errorf("remove an old archive of classes: %w", err)
		}
	}
	return filepath.Join(dir, name), nil
}

// unfinished tells whether an archive has no header.
func unfinished(home *os.Root, path string) bool {
	f, err := atomicfile.OpenIn(home, path)
	if err != nil {
		return true
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err != nil || magic == [4]byte{}
}
