package packs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/deb/debtest"
	"spore/builder/store"
	"spore/builder/tree"
)

func sample() debtest.Deb {
	return debtest.Deb{
		Control: debtest.Control("hello", "1.0-1"),
		Scripts: []debtest.Entry{{Name: "./postinst", Body: "#!/bin/sh\nadduser hello\n"}},
		Data:    []debtest.Entry{{Name: "./usr/bin/hello", Body: "hello\n", Mode: 0o755}},
	}
}

func TestAPackageIsReadOnce(t *testing.T) {
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	reads := 0
	open := func() (io.ReadCloser, error) {
		reads++
		return io.NopCloser(bytes.NewReader(sample().Bytes())), nil
	}
	for range 2 {
		p, err := Ensure(context.Background(), st, "00", open)
		require.NoError(t, err)
		require.Equal(t, "hello", p.Name)
		require.Equal(t, "1.0-1", p.Version)
		require.Contains(t, string(p.Scripts["postinst"]), "adduser hello")
		files := map[string]*tree.Inode{}
		require.NoError(t, p.Entries(func(path string, n *tree.Inode) error {
			files[path] = n
			return nil
		}))
		r, err := files["/usr/bin/hello"].Content.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "hello\n", string(data))
		require.NoError(t, p.Close())
	}
	require.Equal(t, 1, reads)
}

func TestABrokenPackageLeavesNothing(t *testing.T) {
	whole := sample().Bytes()
	for name, open := range map[string]func() (io.ReadCloser, error){
		"truncated":  func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole[:len(whole)-40])), nil },
		"no archive": func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("x"))), nil },
		"not there":  func() (io.ReadCloser, error) { return nil, errors.New("gone") },
	} {
		t.Run(name, func(t *testing.T) {
			st, err := store.Open(t.TempDir())
			require.NoError(t, err)
			_, err = Ensure(context.Background(), st, "00", open)
			require.Error(t, err)
			_, err = Ensure(context.Background(), st, "00", func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole)), nil })
			require.NoError(t, err)
		})
	}
}

func TestAProgramIsCompressedOnce(t *testing.T) {
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	want := bytes.Repeat([]byte("program "), 100_000)
	for range 2 {
		c, err := EnsureContent(st, store.KeyOf("x"), tree.Bytes(want))
		require.NoError(t, err)
		r, err := c.Open()
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, c.Close())
	}
}
