package xz

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	ulikunitz "github.com/ulikunitz/xz"
	ulzma "github.com/ulikunitz/xz/lzma"
)

// sample returns n bytes that have literals, repeats near and far, runs and noise, the same ones each time.
func sample(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("kernel module root hash node cluster image unit the of and to in is 0123456789 \x00\x00\x00\x00 \xe8\x12\x34")
	var b []byte
	for len(b) < n {
		switch k := r.IntN(40); {
		case k < 30:
			b = append(append(b, words[r.IntN(len(words))]...), ' ')
		case k < 33 && len(b) > 0:
			from := r.IntN(len(b))
			b = append(b, b[from:min(len(b), from+r.IntN(400))]...)
		case k < 36 && len(b) > 1000:
			b = append(b, b[len(b)-1-r.IntN(900):]...)
		case k == 36:
			b = append(b, bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(300))...)
		default:
			b = binary.LittleEndian.AppendUint32(b, r.Uint32())
		}
	}
	return b[:n]
}

func decode(r io.Reader, o Options) ([]byte, error) {
	z, err := NewReader(r, o)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// vectors are files that xz (XZ Utils 5.8.1) has made; plain is what is in them.
var vectors = []struct {
	file  string
	args  []string
	plain []byte
}{
	{"empty", nil, nil},
	{"byte", nil, []byte("x")},
	{"level0", []string{"-0"}, sample(20_000)},
	{"level6", []string{"-6"}, sample(20_000)},
	{"level9e", []string{"-9e"}, sample(20_000)},
	{"lc0lp4pb4", []string{"--lzma2=lc=0,lp=4,pb=4"}, sample(20_000)},
	{"lc4lp0pb0", []string{"--lzma2=lc=4,lp=0,pb=0"}, sample(20_000)},
	{"lc1lp2pb3", []string{"--lzma2=lc=1,lp=2,pb=3,dict=4KiB"}, sample(20_000)},
	{"none", []string{"--check=none"}, sample(2000)},
	{"crc32", []string{"--check=crc32"}, sample(2000)},
	{"crc64", []string{"--check=crc64"}, sample(2000)},
	{"sha256", []string{"--check=sha256"}, sample(2000)},
	{"blocks", []string{"--block-size=3000"}, sample(20_000)},
	{"threads", []string{"-T2", "--block-size=7000"}, sample(20_000)},
	{"stored", nil, noise(3000)},
	{"x86", []string{"--x86", "--lzma2=preset=6"}, sample(20_000)},
	{"delta", []string{"--delta=dist=4", "--lzma2"}, sample(5000)},
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b)
	return b
}

func vector(t testing.TB, name string) []byte {
	packed, err := os.ReadFile(filepath.Join("testdata", name+".xz"))
	require.NoError(t, err)
	return packed
}

func TestVectorsOfXZ(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.file, func(t *testing.T) {
			for _, r := range []io.Reader{
				bytes.NewReader(vector(t, v.file)),
				iotest.OneByteReader(bytes.NewReader(vector(t, v.file))),
				iotest.DataErrReader(bytes.NewReader(vector(t, v.file))),
			} {
				got, err := decode(r, Options{})
				require.NoError(t, err)
				require.True(t, bytes.Equal(v.plain, got))
			}
		})
	}
}

func TestStreamsAndPadding(t *testing.T) {
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	a, b, x86 := vector(t, "crc32"), vector(t, "sha256"), vector(t, "x86")
	plain, long := sample(2000), sample(20_000)
	for _, c := range []struct {
		name string
		in   []byte
		want []byte
		err  error
	}{
		{"two streams", join(a, b), join(plain, plain), nil},
		{"padding between and behind", join(a, make([]byte, 8), b, make([]byte, 4)), join(plain, plain), nil},
		{"an empty stream between", join(a, vector(t, "empty"), b), join(plain, plain), nil},
		{"another filter in the second stream", join(a, x86, b), join(plain, long, plain), nil},
		{"another filter in the first stream", join(x86, make([]byte, 4), a), join(long, plain), nil},
		{"padding of three bytes", join(a, make([]byte, 3)), nil, io.ErrUnexpectedEOF},
		{"padding of five bytes and a stream", join(a, make([]byte, 5), b), nil, ErrFormat},
		{"padding before", join(make([]byte, 4), a), nil, ErrFormat},
		{"garbage behind", join(a, []byte("garbage!garbage!")), nil, ErrFormat},
		{"nothing", nil, nil, io.ErrUnexpectedEOF},
		{"something else", []byte("!<arch>\ndebian-binary"), nil, ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decode(bytes.NewReader(c.in), Options{})
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.True(t, bytes.Equal(c.want, got))
		})
	}
}

// TestLargeFiles has the window grow, and move its dictionary, with each size of that.
func TestLargeFiles(t *testing.T) {
	plain := sample(7 << 20)
	for _, c := range []struct {
		name string
		dict int
		prop ulzma.Properties
	}{
		{"4 KiB", ulzma.MinDictCap, ulzma.Properties{LC: 3, LP: 0, PB: 2}},
		{"64 KiB, positions matter", 64 << 10, ulzma.Properties{LC: 0, LP: 4, PB: 4}},
		{"1 MiB", 1 << 20, ulzma.Properties{LC: 3, LP: 1, PB: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var packed bytes.Buffer
			w, err := ulikunitz.WriterConfig{DictCap: c.dict, Properties: &c.prop, BlockSize: 5 << 20}.NewWriter(&packed)
			require.NoError(t, err)
			_, err = w.Write(plain)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			z, err := NewReader(bytes.NewReader(packed.Bytes()), Options{MaxDict: uint32(c.dict)})
			require.NoError(t, err)
			got, err := io.ReadAll(z)
			require.NoError(t, err)
			require.Equal(t, sha256.Sum256(plain), sha256.Sum256(got))
			require.LessOrEqual(t, len(z.dec.win.buf), c.dict+c.dict/2+slideMin+64)

			require.NoError(t, z.Reset(bytes.NewReader(vector(t, "lc1lp2pb3"))))
			got, err = io.ReadAll(z)
			require.NoError(t, err)
			require.True(t, bytes.Equal(sample(20_000), got))
		})
	}
}

func TestTheDictionaryIsBounded(t *testing.T) {
	for name, file := range map[string]string{"own": "level9e", "fallback": "x86"} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(bytes.NewReader(vector(t, file)), Options{MaxDict: 1 << 20})
			require.ErrorIs(t, err, ErrMemory)
		})
	}
	z, err := NewReader(bytes.NewReader(vector(t, "level9e")), Options{})
	require.NoError(t, err)
	_, err = io.ReadAll(z)
	require.NoError(t, err)
	require.LessOrEqual(t, len(z.dec.win.buf), firstWindow+overshoot, "64 MiB of dictionary for 20 kB")
}

// TestEveryTruncation cuts a file everywhere.
func TestEveryTruncation(t *testing.T) {
	for _, file := range []string{"blocks", "sha256", "threads", "stored", "empty"} {
		whole := vector(t, file)
		for n := range whole {
			_, err := decode(bytes.NewReader(whole[:n]), Options{})
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s cut to %d bytes", file, n)
		}
	}
}

// TestEveryDamagedByte changes each byte of a file: there is no byte that is not checked.
func TestEveryDamagedByte(t *testing.T) {
	for _, file := range []string{"blocks", "crc32", "sha256", "stored", "empty"} {
		whole := vector(t, file)
		for i := range whole {
			for _, bit := range []byte{0x01, 0x80} {
				bad := bytes.Clone(whole)
				bad[i] ^= bit
				_, err := decode(bytes.NewReader(bad), Options{})
				require.Error(t, err, "%s with byte %d changed", file, i)
			}
		}
	}
}

func TestErrorsOfTheReaderCome(t *testing.T) {
	want := errors.New("the disk is gone")
	whole := vector(t, "level6")
	for _, n := range []int{0, 5, 12, 100, len(whole)} {
		_, err := decode(io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(want)), Options{})
		require.ErrorIs(t, err, want, "after %d bytes", n)
	}
}

// TestDamagedChunks has what a checksum over the header would hide: chunks that are wrong in themselves.
func TestDamagedChunks(t *testing.T) {
	for name, chunks := range map[string][]byte{
		"no dictionary reset":      {0x02, 0, 0, 'x', 0},
		"no properties":            {0x01, 0, 0, 'x', 0x80, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0},
		"unknown type":             {0x03, 0, 0, 'x', 0},
		"properties too large":     {0xe0, 0, 0, 0, 5, 225, 0, 0, 0, 0, 0, 0},
		"lc + lp larger than four": {0xe0, 0, 0, 0, 5, 8 + 9*4, 0, 0, 0, 0, 0, 0},
		"range coder begins wrong": {0xe0, 0, 0, 0, 5, 93, 1, 0, 0, 0, 0, 0},
		"chunk of one byte":        {0xe0, 0, 0, 0, 0, 93, 0, 0},
		"match before the data":    {0xe0, 0, 9, 0, 5, 93, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(bytes.NewReader(file(chunks)), Options{})
			require.ErrorIs(t, err, ErrCorrupt)
		})
	}
	got, err := decode(bytes.NewReader(file([]byte{0x01, 0, 0, 'x', 0x02, 0, 1, 'y', 'z', 0x01, 0, 0, '!', 0})), Options{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "it has no index")
	require.Equal(t, "xyz!", string(got))
}

// file puts chunks into the first block of a stream without a check.
func file(chunks []byte) []byte {
	sum := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)) }
	stream := append([]byte(headerMagic), sum([]byte{0, 0})...)
	block := sum([]byte{2, 0, filterLZMA2, 1, 18, 0, 0, 0})
	b := append(append(stream, block...), chunks...)
	return append(b, make([]byte, -len(chunks)&3)...)
}
