package rbd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImagesByTheirHandles(t *testing.T) {
	for _, tt := range []struct{ handle, pool, name string }{
		{"rbd/pvc-5d3c0d6e-0d7f-4a0c-9d27-0f2f4a8f2c11", "rbd", "pvc-5d3c0d6e-0d7f-4a0c-9d27-0f2f4a8f2c11"},
		{"fast.pool/data_1", "fast.pool", "data_1"},
		{".a/" + strings.Repeat("x", 128), ".a", strings.Repeat("x", 128)},
	} {
		i, err := ParseImage(tt.handle)
		require.NoError(t, err)
		require.Equal(t, Image{tt.pool, tt.name}, i)
		require.Equal(t, tt.handle, i.String())
	}
	for _, bad := range []string{
		"", "/", "rbd", "rbd/", "/image", "rbd/namespace/image", "rbd/image@snapshot", "rbd/--size", "-p/image", "rbd/a b", "rbd/a\nb", "rbd/ä",
		"rbd/" + strings.Repeat("x", 129), strings.Repeat("x", 65) + "/image", "rbd/../x",
	} {
		_, err := ParseImage(bad)
		require.Error(t, err, "%q", bad)
	}
}

func FuzzParseImage(f *testing.F) {
	for _, s := range []string{"rbd/image", "rbd/--conf=x", "a/b/c", "a/b@c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, err := ParseImage(s)
		if err != nil {
			return
		}
		require.Equal(t, s, i.String())
		require.False(t, strings.HasPrefix(s, "-") || strings.ContainsAny(s, " @\n\t\x00'\"\\$"), "%q goes into command lines", s)
	})
}

func TestWhatTheExitStatusMeans(t *testing.T) {
	for status, want := range map[syscall.Errno]error{
		syscall.ENOENT: ErrNotFound, syscall.EEXIST: ErrExists, syscall.EBUSY: ErrInUse, syscall.EROFS: ErrInUse, syscall.ETIMEDOUT: ErrInUse, syscall.ENOTEMPTY: ErrSnapshots,
	} {
		_, err := ending(t, "rbd", status).Info(context.Background(), Image{"rbd", "x"})
		for _, is := range []error{ErrNotFound, ErrExists, ErrInUse, ErrSnapshots} {
			require.Equal(t, is == want, errors.Is(err, is), "%v is %v", err, is)
		}
	}
}

// ending is a command that ends with an exit status.
func ending(t *testing.T, name string, status syscall.Errno) Command {
	program := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", int(status)), 0o755))
	return Command{Program: program}
}
