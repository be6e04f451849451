package ask

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPassphraseIsTheOnlyLineOfItsFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "p")
	for text, want := range map[string]string{"five words": "five words", "five words\n": "five words", "a b\r\n": "a b", " a \n\n": " a "} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		got, err := Passphrase(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "\n", "one\ntwo\n", "\none"} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := Passphrase(name)
		require.ErrorContains(t, err, "its only line")
	}
	require.NoError(t, os.WriteFile(name, make([]byte, maxSmall+1), 0o600))
	_, err := Small(name)
	require.ErrorContains(t, err, "more than 65536 bytes")
	_, err = Passphrase(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
