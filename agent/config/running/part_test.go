package running

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// slotFile is a file in the form of a slot with a cluster part of two blocks, behind which is what was there before.
func slotFile(t *testing.T, change func([]byte)) string {
	t.Helper()
	le := binary.LittleEndian
	data := make([]byte, 8*4096)
	copy(data, "hsqs")
	le.PutUint32(data[12:], 131072)
	le.PutUint16(data[22:], 17)
	le.PutUint16(data[28:], 4)
	le.PutUint64(data[40:], 2*4096)
	super := data[2*4096:]
	copy(super, "verity\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00")
	copy(super[32:], "sha256")
	le.PutUint32(super[64:], 4096)
	le.PutUint32(super[68:], 4096)
	le.PutUint64(super[72:], 2)
	if change != nil {
		change(data)
	}
	path := filepath.Join(t.TempDir(), "slot")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestAConfigurationThatIsTakenAtOnceIsReadByItsHashTree(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	path := slotFile(t, nil)
	target, err := targetOf(path, hash)
	require.NoError(t, err)
	require.Equal(t, "verity", target.Type)
	require.EqualValues(t, 2*8, target.Sectors)
	want := "1 " + path + " " + path + " 4096 4096 2 3 sha256 " + hash + " -"
	require.Equal(t, want, target.Params, "a block that does not match is an error, and stops nothing")
	for name, tt := range map[string]struct {
		change func([]byte)
		want   string
	}{
		"no file system": {func(b []byte) { copy(b, "text") }, "slot: "},
		"no hash tree":   {func(b []byte) { copy(b[2*4096:], "text") }, "wrong magic"},
		"a tree of more": {func(b []byte) { binary.LittleEndian.PutUint64(b[2*4096+72:], 3) }, "3 data blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := targetOf(slotFile(t, tt.change), hash)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
