package verity_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/format/verity"
)

const salt = "abababababababababababababababababababababababababababababababab"

// format runs veritysetup over blocks of data; with appended the tree follows the data in the same file. It returns the
// file with the tree and the root hash.
func format(t testing.TB, blocks int, appended bool) ([]byte, string) {
	t.Helper()
	if _, err := exec.LookPath("veritysetup"); err != nil {
		t.Fatal("veritysetup is missing: run make deps")
	}
	dir := t.TempDir()
	data, hash := filepath.Join(dir, "data"), filepath.Join(dir, "hash")
	require.NoError(t, os.WriteFile(data, make([]byte, blocks*verity.BlockSize), 0o600))
	args := []string{"format", "--salt", salt, "--uuid", "11111111-2222-3333-4444-555555555555"}
	if appended {
		hash = data
		args = append(args, "--hash-offset="+strconv.Itoa(blocks*verity.BlockSize), "--data-blocks="+strconv.Itoa(blocks))
	}
	out, err := exec.Command("veritysetup", append(args, data, hash)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	m := regexp.MustCompile(`Root hash:\s+([0-9a-f]{64})`).FindSubmatch(out)
	require.NotNil(t, m)
	b, err := os.ReadFile(hash)
	require.NoError(t, err)
	return b, string(m[1])
}

func TestVeritysetupsSuperblocksAreRead(t *testing.T) {
	// 128 and 16384 fill a level of the tree exactly.
	for _, blocks := range []int{1, 2, 127, 128, 129, 16384, 16385} {
		hash, root := format(t, blocks, false)
		v, err := verity.Separate(bytes.NewReader(hash), int64(len(hash)), int64(blocks*verity.BlockSize))
		require.NoError(t, err)
		require.Equal(t, int64(blocks), v.DataBlocks)
		require.Equal(t, int64(len(hash)/verity.BlockSize), 1+v.TreeBlocks(), "%d blocks: the tree ends where veritysetup's file ends", blocks)
		require.Equal(t, "1 254:2 254:3 4096 4096 "+strconv.Itoa(blocks)+" 1 sha256 "+root+" "+salt+" 1 panic_on_corruption", v.Target("254:2", "254:3", root))
		require.Equal(t, int64(blocks*8), v.Sectors())
	}
}

func TestATreeBehindItsDataIsRead(t *testing.T) {
	part, root := format(t, 5, true)
	v, err := verity.Appended(bytes.NewReader(part), int64(len(part)), 5*verity.BlockSize-17)
	require.NoError(t, err)
	require.Equal(t, "1 254:4 254:4 4096 4096 5 6 sha256 "+root+" "+salt+" 1 panic_on_corruption", v.Target("254:4", "254:4", root))
	require.Equal(t, "1 254:4 254:4 4096 4096 5 6 sha256 "+root+" "+salt, v.ReadTarget("254:4", "254:4", root))

	_, err = verity.Appended(bytes.NewReader(part), int64(len(part)), 4*verity.BlockSize)
	require.ErrorContains(t, err, "wrong magic")
	_, err = verity.Appended(bytes.NewReader(part), int64(len(part)), int64(len(part)))
	require.ErrorContains(t, err, "no room at block 7")
	_, err = verity.Appended(bytes.NewReader(part), 6*verity.BlockSize, 5*verity.BlockSize)
	require.ErrorContains(t, err, "the tree ends at block 7")
}

func TestBadSuperblocksAreRefused(t *testing.T) {
	good, _ := format(t, 5, false)
	set := func(at int, value any) []byte {
		b := bytes.Clone(good)
		var w bytes.Buffer
		_ = binary.Write(&w, binary.LittleEndian, value)
		copy(b[at:], w.Bytes())
		return b
	}
	for _, c := range []struct {
		name, message string
		hash          []byte
	}{
		{"magic", "wrong magic", set(0, uint8('V'))},
		{"version", "version 2", set(8, uint32(2))},
		{"hash type", "hash type 0", set(12, uint32(0))},
		{"algorithm", `hash "md5"`, set(32, []byte("md5\x00"))},
		{"algorithm without end", "hash \"", set(32, bytes.Repeat([]byte("a"), 32))},
		{"data block size", "blocks of 512 and 4096", set(64, uint32(512))},
		{"hash block size", "blocks of 4096 and 1024", set(68, uint32(1024))},
		{"no data", "0 data blocks", set(72, uint64(0))},
		{"huge data", "18446744073709551615 data blocks", set(72, ^uint64(0))},
		{"more data than the partition", "6 data blocks in a partition", set(72, uint64(6))},
		{"salt", "a salt of 257 bytes", set(80, uint16(257))},
		{"short", "reading verity superblock", good[:100]},
		{"no tree", "the tree ends at block 2", good[:4096]},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := verity.Separate(bytes.NewReader(c.hash), max(int64(len(c.hash)), 4096), 5*verity.BlockSize)
			require.ErrorContains(t, err, c.message)
		})
	}
}
