package verified_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/verified"
	"spore/storage/verity"
)

func TestTheTreeOnItsOwnDeviceIsTheOneOfTheData(t *testing.T) {
	dir := t.TempDir()
	data, tree := filepath.Join(dir, "data"), filepath.Join(dir, "tree")
	content := bytes.Repeat([]byte("x"), 200*4096)
	var made bytes.Buffer
	sum, _, err := verity.Format(bytes.NewReader(content), int64(len(content)), &made, verity.Derive(nil))
	require.NoError(t, err)
	hash := hex.EncodeToString(sum[:])
	// Both are in partitions that are larger, and the index of the root lies behind its tree.
	require.NoError(t, os.WriteFile(data, append(content, make([]byte, 40<<10)...), 0o600))
	require.NoError(t, os.WriteFile(tree, append(made.Bytes(), "SPOREPX1"...), 0o600))
	target, err := verified.Separate(data, tree, hash)
	require.NoError(t, err)
	require.Equal(t, "verity", target.Type)
	require.EqualValues(t, 200*8, target.Sectors)
	require.Equal(t, "1 "+data+" "+tree+" 4096 4096 200 1 sha256 "+hash+" "+hex.EncodeToString(verity.Derive(nil).Salt), target.Params)

	for name, change := range map[string]func(){
		"no superblock":    func() { require.NoError(t, os.WriteFile(tree, make([]byte, 1<<20), 0o600)) },
		"more than it has": func() { require.NoError(t, os.Truncate(data, 4096)) },
		"no tree":          func() { require.NoError(t, os.Remove(tree)) },
		"no data":          func() { require.NoError(t, os.Remove(data)) },
	} {
		require.NoError(t, os.WriteFile(data, content, 0o600))
		require.NoError(t, os.WriteFile(tree, made.Bytes(), 0o600))
		change()
		_, err := verified.Separate(data, tree, hash)
		require.Error(t, err, name)
	}
}
