package slot

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/atomicfile"
	"spore/storage/pieces"
)

// full is a file of a file system that has no room once.
type full struct {
	data []byte
	full bool
}

func (f *full) WriteAt(b []byte, off int64) (int, error) {
	if f.full {
		f.full = false
		return 0, errors.New("no space left on device")
	}
	return copy(f.data[off:], b), nil
}

func (f *full) Sync() error { return nil }

// The progress is kept on the way of the error, too: it says of no piece that it is there which was not written.
func TestAPieceThatCouldNotBeWrittenIsNotSaidToBeThere(t *testing.T) {
	data := make([]byte, 64<<10)
	rand.NewChaCha8([32]byte{1}).Read(data)
	x, err := pieces.Cut(bytes.NewReader(data), int64(len(data)), nil, 8<<10)
	require.NoError(t, err)
	out := &full{data: make([]byte, len(data)), full: true}
	s := &share{
		dir: t.TempDir(), name: "boot", index: x, find: pieces.NewFinder(x), progress: newProgress(len(x)), out: out,
	}
	for i := range 4 {
		require.NoError(t, s.put(i, data[i*8<<10:(i+1)*8<<10]))
	}
	require.ErrorContains(t, s.save(), "no space left")
	require.NoFileExists(t, s.file(".progress"))
	require.NoError(t, s.save(), "there is room again")
	kept, err := atomicfile.ReadLimited(s.file(".progress"), 1000)
	require.NoError(t, err)
	p, ok := parseProgress(kept, s.key, len(x))
	require.True(t, ok)
	for i := range 4 {
		require.True(t, p.has(i))
		require.Equal(t, data[i*8<<10:(i+1)*8<<10], out.data[i*8<<10:(i+1)*8<<10])
	}
}

// The working files may lose a bit after their pieces were held to their hashes. Whenever the power is cut, the ESP has
// no UKI that was not signed, and the next push brings what was lost.
func TestAUKIThatLostABitIsNeverOnTheESP(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	losesABit(t, m)
	before := disk.clone()
	_, err := both.push(t, m, 2, nil)
	require.ErrorContains(t, err, "its pieces do not make up the UKI that was signed")
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range len(disk.ops) + 1 {
		for name, content := range entriesOf(t, disk.cut(before, n, rng)) {
			require.True(t, bytes.Equal(content, oldSystem.uki) || bytes.Equal(content, both.uki), "cut at %d: %s", n, name)
		}
	}
	_, err = both.push(t, m, 2, nil)
	require.NoError(t, err)
}

// losesABit has the UKI in the working directory lose a bit, once, after its pieces were held to their hashes.
func losesABit(t *testing.T, m *Machine) {
	t.Helper()
	damaged := false
	m.Look = func(string, string, string) ([]string, []string) {
		if !damaged {
			name := filepath.Join(m.Work, "uki")
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			data[bytes.LastIndex(data, make([]byte, 1000))] ^= 1
			require.NoError(t, os.WriteFile(name, data, 0o600))
			damaged = true
		}
		return nil, nil
	}
}
