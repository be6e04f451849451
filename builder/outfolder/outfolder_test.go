package outfolder

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneWriterAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "out")
	release, locked, err := Take(context.Background(), dir, nil, func() { t.Error("there is nobody") })
	require.NoError(t, err)
	require.True(t, locked)

	short, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
	defer cancel()
	waited := 0
	_, _, err = Take(short, dir, nil, func() { waited++ })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "wait for the output folder "+dir)
	require.Equal(t, 1, waited)

	done := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		second, _, err := Take(context.Background(), dir, nil, func() { close(begun) })
		if err == nil {
			second()
		}
		done <- err
	}()
	<-begun
	release()
	require.NoError(t, <-done)
}

func TestOnlyUnfinishedFilesOfOursAreRemoved(t *testing.T) {
	dir := t.TempDir()
	gone := []string{".spore.img.123456", ".spore.efi-99", ".netboot-7", ".netboot-7.old"}
	stay := []string{"spore.img", ".spore.img", ".spore.img.bak", ".other-12", "netboot", ".spore.img.12x", "spore.img.123"}
	for _, name := range append(gone, stay...) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "file"), nil, 0o644))
	}
	release, _, err := Take(context.Background(), dir, []string{"spore.img", "spore.efi", "netboot"}, nil)
	require.NoError(t, err)
	release()
	for _, name := range gone {
		require.NoDirExists(t, filepath.Join(dir, name))
	}
	for _, name := range stay {
		require.DirExists(t, filepath.Join(dir, name))
	}
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, _, err := Take(context.Background(), filepath.Join(file, "out"), nil, nil)
	require.ErrorContains(t, err, "make the output folder")
}
