// Package program compiles the program spore for tests, once for all of them. It is bin/spore of the source tree, with
// the bytes that `make` gives it: the cache keeps the root of an image for the program that made it, so that tests that
// run the same program do not compose the same root again.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Spore compiles the program of a source tree, unless it is there already, and returns its path.
func Spore(source string) (string, error) {
	return SporeBy(source, func(dir, name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// SporeBy is Spore for a test whose commands run in another place, such as another network: run runs one in a folder.
func SporeBy(source string, run func(dir, name string, args ...string) error) (string, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	path := filepath.Join(source, "bin", "spore")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	// Tests of several packages run side by side, and go build writes into the file that another one may read.
	lock, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := run(source, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./builder"); err != nil {
		return "", fmt.Errorf("compile spore: %w", err)
	}
	return path, nil
}
