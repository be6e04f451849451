package program

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheProgramIsCompiledAsTheMakefileDoes(t *testing.T) {
	var command string
	path, err := SporeBy(t.TempDir(), func(_, name string, args ...string) error {
		command = strings.Join(append([]string{name}, args...), " ")
		return nil
	})
	require.NoError(t, err)
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.Contains(t, string(makefile), "@"+strings.Replace(command, path, "bin/spore", 1)+"\n")
}

func TestItIsCompiledByOneTestAtATime(t *testing.T) {
	source := t.TempDir()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := SporeBy(source, func(_, _ string, _ ...string) error {
				if !mu.TryLock() {
					return errors.New("another one compiles it")
				}
				defer mu.Unlock()
				return nil
			})
			require.NoError(t, err)
		})
	}
	all.Wait()
}

func TestWhatTheCompilerSaysIsInTheError(t *testing.T) {
	_, err := Spore(t.TempDir())
	require.ErrorContains(t, err, "compile spore: exit status 1\n")
	require.ErrorContains(t, err, "go.mod")
	_, err = Spore(filepath.Join("program_test.go", "folder"))
	require.ErrorContains(t, err, "not a directory")
}
