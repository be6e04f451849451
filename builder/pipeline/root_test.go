package pipeline

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/store"
	"spore/builder/tree"
)

// storedRoot is a build whose root is in the store, made as composeRoot does but for the root itself.
func storedRoot(t *testing.T, st *store.Store, name string) *build {
	t.Helper()
	b := &build{Options: Options{Store: st}, root: root{key: store.KeyOf(name), Hash: name, Boot: map[string]string{}}}
	for _, boot := range []string{objKernel, objStub, objLoader, objMicrocode, objRelease} {
		require.NoError(t, b.keepBootFile(boot, tree.Bytes("the "+boot)))
	}
	for _, own := range []string{objFiles, objSquashfs, objVerity} {
		require.NoError(t, b.keep(own, tree.Bytes(own+" of "+name)))
	}
	require.NoError(t, st.Put(b.root.object(objMeta), func(w *os.File) error { return json.NewEncoder(w).Encode(b.root) }))
	return b
}

func TestARootIsTakenFromTheStoreOnlyWhole(t *testing.T) {
	for _, name := range []string{objMeta, objFiles, objSquashfs, objVerity, objKernel, objStub, objLoader, objMicrocode, objRelease} {
		st, err := store.Open(t.TempDir())
		require.NoError(t, err)
		made := storedRoot(t, st, "a")
		again := &build{Options: Options{Store: st}, root: root{key: made.root.key}}
		stored, err := again.loadRoot()
		require.NoError(t, err)
		require.True(t, stored)
		require.True(t, again.root.cached)
		require.Equal(t, made.root.Hash, again.root.Hash)
		data, err := st.ReadAll(again.root.object(objKernel))
		require.NoError(t, err)
		require.Equal(t, "the kernel", string(data))

		require.NoError(t, os.Remove(st.Path(made.root.object(name))))
		again = &build{Options: Options{Store: st}, root: root{key: made.root.key}}
		stored, err = again.loadRoot()
		require.NoError(t, err, name)
		require.False(t, stored, name)
		require.Equal(t, root{key: made.root.key}, again.root, "what composeRoot begins with")
	}
}

func TestADamagedDescriptionOfARootIsRemoved(t *testing.T) {
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	b := &build{Options: Options{Store: st}, root: root{key: store.KeyOf("a")}}
	require.NoError(t, st.Put(b.root.object(objMeta), func(w *os.File) error { _, err := w.WriteString("{"); return err }))
	_, err = b.loadRoot()
	require.ErrorIs(t, err, store.ErrDamaged)
	stored, err := b.loadRoot()
	require.NoError(t, err)
	require.False(t, stored)
}

func TestRootsShareWhatBootsThem(t *testing.T) {
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	one, two := storedRoot(t, st, "a"), storedRoot(t, st, "b")
	require.Equal(t, one.root.object(objKernel), two.root.object(objKernel))
	require.NotEqual(t, one.root.object(objKernel), one.root.object(objStub))
	require.NotEqual(t, one.root.object(objSquashfs), two.root.object(objSquashfs))
}
