package verity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func noise(n int64) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(n)).Read(b)
	return b
}

func options(salt int) Options {
	o := Derive([]byte("test"))
	o.Salt = o.Salt[:salt]
	return o
}

func uuidText(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func saltText(salt []byte) string {
	if len(salt) == 0 {
		return "-"
	}
	return hex.EncodeToString(salt)
}

func veritysetup(t *testing.T, args ...string) string {
	t.Helper()
	p, err := exec.LookPath("veritysetup")
	if err != nil {
		p, err = exec.LookPath("/usr/sbin/veritysetup") // not in the PATH of users
	}
	require.NoError(t, err, "run make deps")
	out, err := exec.Command(p, args...).CombinedOutput()
	require.NoError(t, err, "veritysetup %v: %s", args, out)
	return string(out)
}

var rootHash = regexp.MustCompile(`Root hash:\s+([0-9a-f]{64})`)

func TestVeritysetupMakesTheSameTree(t *testing.T) {
	for _, blocks := range []int64{1, 2, 127, 128, 129, 255, 256, 257, 128*128 - 1, 128 * 128, 128*128 + 1} {
		for _, salt := range []int{0, 1, 32} {
			if blocks > 1000 && salt != 32 {
				continue
			}
			t.Run(fmt.Sprintf("%d blocks, %d bytes of salt", blocks, salt), func(t *testing.T) {
				dir := t.TempDir()
				data, theirs, ours := filepath.Join(dir, "data"), filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
				content, o := noise(blocks*BlockSize), options(salt)
				require.NoError(t, os.WriteFile(data, content, 0o600))
				out := veritysetup(t, "format", "--salt", saltText(o.Salt), "--uuid", uuidText(o.UUID), data, theirs)
				var buf bytes.Buffer
				root, size, err := Format(bytes.NewReader(content), int64(len(content)), &buf, o)
				require.NoError(t, err)
				require.Equal(t, rootHash.FindStringSubmatch(out)[1], hex.EncodeToString(root[:]))
				require.EqualValues(t, buf.Len(), size)
				require.Equal(t, size, HashSize(int64(len(content))))
				want, err := os.ReadFile(theirs)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, buf.Bytes()), "hash areas differ")
				require.NoError(t, os.WriteFile(ours, buf.Bytes(), 0o600))
				veritysetup(t, "verify", data, ours, hex.EncodeToString(root[:]))
				require.Contains(t, veritysetup(t, "dump", ours), uuidText(o.UUID))
			})
		}
	}
}

func TestVeritysetupVerifiesATreeBehindTheData(t *testing.T) {
	for _, blocks := range []int64{1, 128, 129} {
		name := filepath.Join(t.TempDir(), "both")
		f, err := os.Create(name)
		require.NoError(t, err)
		content := noise(blocks * BlockSize)
		_, err = f.Write(content)
		require.NoError(t, err)
		root, _, err := Format(f, int64(len(content)), f, options(32))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		offset := fmt.Sprintf("--hash-offset=%d", len(content))
		veritysetup(t, "verify", offset, name, name, hex.EncodeToString(root[:]))
	}
}

// slowRoot is the definition, without levels in parallel or a size computed ahead.
func slowRoot(level []byte, salt []byte) []byte {
	for {
		var up []byte
		for i := 0; i < len(level); i += BlockSize {
			sum := sha256.Sum256(append(bytes.Clone(salt), level[i:i+BlockSize]...))
			up = append(up, sum[:]...)
		}
		if len(up) == sha256.Size {
			return up
		}
		if rest := len(up) % BlockSize; rest != 0 {
			up = append(up, make([]byte, BlockSize-rest)...)
		}
		level = up
	}
}

func TestTheRootHashIsThatOfTheDefinition(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 60 {
		blocks, salt := 1+r.Int63n(700), r.Intn(MaxSalt+1)
		content, o := noise(blocks*BlockSize), options(salt)
		o.Concurrency = 1 + r.Intn(5)
		root, _, err := Format(bytes.NewReader(content), int64(len(content)), io.Discard, o)
		require.NoError(t, err)
		require.Equal(t, slowRoot(content, o.Salt), root[:], "%d blocks, %d bytes of salt", blocks, salt)
	}
}

func TestPiecesInAnyOrderMakeTheSameTree(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 20 {
		blocks := 1 + r.Intn(700)
		content, o := noise(int64(blocks)*BlockSize), options(32)
		var want, got bytes.Buffer
		root, size, err := Format(bytes.NewReader(content), int64(len(content)), &want, o)
		require.NoError(t, err)

		h, err := NewHasher(int64(len(content)), o)
		require.NoError(t, err)
		var pieces [][2]int
		for at := 0; at < blocks; {
			n := min(1+r.Intn(40), blocks-at)
			pieces = append(pieces, [2]int{at * BlockSize, (at + n) * BlockSize})
			at += n
		}
		r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for _, p := range pieces {
			n, err := h.WriteAt(content[p[0]:p[1]], int64(p[0]))
			require.NoError(t, err)
			require.Equal(t, p[1]-p[0], n)
		}
		again, n, err := h.Finish(&got)
		require.NoError(t, err)
		require.Equal(t, root, again, "%d blocks", blocks)
		require.Equal(t, size, n)
		require.Equal(t, want.Bytes(), got.Bytes())
	}
}

func TestAHasherRefuses(t *testing.T) {
	h, err := NewHasher(3*BlockSize, Options{})
	require.NoError(t, err)
	for name, c := range map[string]struct{ off, n int64 }{
		"a part of a block": {0, 100}, "an offset in a block": {1, BlockSize}, "what is before": {-BlockSize, BlockSize},
		"what is behind": {2 * BlockSize, 2 * BlockSize}, "what is far behind": {1 << 62, BlockSize},
	} {
		_, err := h.WriteAt(make([]byte, c.n), c.off)
		require.ErrorContains(t, err, "they are not whole blocks of 12288", name)
	}
	for _, off := range []int64{0, 2 * BlockSize} {
		_, err := h.WriteAt(make([]byte, BlockSize), off)
		require.NoError(t, err)
	}
	_, _, err = h.Finish(io.Discard)
	require.ErrorContains(t, err, "block 1 of 3 was not hashed")
}

func TestDeriveFollowsTheContent(t *testing.T) {
	a, b := Derive([]byte("a")), Derive([]byte("b"))
	require.Equal(t, a, Derive([]byte("a")))
	require.NotEqual(t, a.Salt, b.Salt)
	require.NotEqual(t, a.UUID, b.UUID)
	require.Len(t, a.Salt, MaxSalt)
	require.EqualValues(t, 8, a.UUID[6]>>4, "version")
	require.EqualValues(t, 2, a.UUID[8]>>6, "variant")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestFormatRefusals(t *testing.T) {
	content := noise(3 * BlockSize)
	for name, c := range map[string]struct {
		size int64
		w    io.Writer
		salt []byte
		want string
	}{
		"no data":                    {0, io.Discard, nil, "0 bytes of data are not a positive multiple"},
		"a negative size":            {-BlockSize, io.Discard, nil, "not a positive multiple"},
		"a part of a block":          {BlockSize + 1, io.Discard, nil, "4097 bytes of data are not a positive multiple of 4096"},
		"less data than said":        {4 * BlockSize, io.Discard, nil, "read 16384 bytes at 0: unexpected EOF"},
		"a salt that is too long":    {BlockSize, io.Discard, make([]byte, MaxSalt+1), "a salt of 33 bytes"},
		"a disk that takes no bytes": {BlockSize, fullDisk{}, nil, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Format(bytes.NewReader(content), c.size, c.w, Options{Salt: c.salt})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func BenchmarkFormat(b *testing.B) {
	content := noise(256 << 20)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		_, _, err := Format(bytes.NewReader(content), int64(len(content)), io.Discard, options(32))
		require.NoError(b, err)
	}
}
