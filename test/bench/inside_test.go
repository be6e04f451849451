package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMountpointsAreMadeWhereThereAreNone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mountpoint(filepath.Join(dir, "a", "b"), false))
	require.DirExists(t, filepath.Join(dir, "a", "b"))
	file := filepath.Join(dir, "resolv.conf")
	require.NoError(t, os.Symlink("../run/nowhere", file))
	require.NoError(t, mountpoint(file, true))
	info, err := os.Lstat(file)
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular(), "the link that led nowhere is gone")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o644))
	require.NoError(t, mountpoint(file, true))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
}

func TestTheToolsTreeHasNamespacesOfItsOwn(t *testing.T) {
	m := &mkosi{b: &bench{self: "/proc/self/exe"}, tree: "/tree", dir: "/folder"}
	cmd := m.command(t.Context(), "mkosi", "--version")
	require.Equal(t, []string{"/proc/self/exe", insideCommand, "/tree", "/folder", "mkosi", "--version"}, cmd.Args)
	require.EqualValues(t, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID, cmd.SysProcAttr.Cloneflags)
}
