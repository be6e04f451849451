package efivars

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAVariableIsReadAsItWasWritten(t *testing.T) {
	vars := t.TempDir()
	_, err := Read(vars, "A-x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, content := range []string{"longer than the next", "short", ""} {
		require.NoError(t, Write(vars, "A-x", []byte(content)))
		data, err := os.ReadFile(filepath.Join(vars, "A-x"))
		require.NoError(t, err)
		require.Equal(t, "\x07\x00\x00\x00"+content, string(data))
		got, err := Read(vars, "A-x")
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	require.NoError(t, Remove(vars, "A-x"))
	require.NoFileExists(t, filepath.Join(vars, "A-x"))
	require.NoError(t, Remove(vars, "A-x"), "it is gone already")
}

func TestAVariableThatIsNoneIsNotRead(t *testing.T) {
	vars := t.TempDir()
	for name, data := range map[string][]byte{"cut": {7, 0}, "long": make([]byte, MaxSize+5)} {
		require.NoError(t, os.WriteFile(filepath.Join(vars, name), data, 0o600))
		_, err := Read(vars, name)
		require.ErrorContains(t, err, "EFI variable "+name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(vars, "refused"), nil, 0o600))
	_, err := Read(vars, "refused")
	require.ErrorIs(t, err, fs.ErrNotExist, "efivarfs has a file without content where the firmware did not make it")
	require.Error(t, Write(filepath.Join(vars, "none"), "A-x", nil))
}
