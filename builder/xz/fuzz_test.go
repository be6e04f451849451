package xz

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	fallback "github.com/mikelolasagasti/xz"
	"github.com/stretchr/testify/require"
)

// FuzzReader holds this decoder against another one: what it takes, the other takes too and to the same bytes, and before
// an error it gives nothing else than that.
func FuzzReader(f *testing.F) {
	files, err := filepath.Glob("testdata/*.xz")
	require.NoError(f, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		if len(data) < 4000 {
			f.Add(data)
		}
	}
	const maxDict, maxSize = 1 << 23, 4 << 20
	f.Fuzz(func(t *testing.T, data []byte) {
		got, gotErr := limited(NewReader(bytes.NewReader(data), Options{MaxDict: maxDict}))
		want, wantErr := limited(fallback.NewReader(bytes.NewReader(data), maxDict))
		n := min(len(got), len(want), maxSize)
		require.True(t, bytes.Equal(got[:n], want[:n]), "they decode to different bytes")
		switch {
		case gotErr == nil:
			require.NoError(t, wantErr, "only this decoder takes it")
			require.Len(t, got, len(want))
		case wantErr == nil && !stricter(gotErr):
			require.NoError(t, gotErr, "only the other decoder takes it")
		}
	})
}

// stricter reports errors that only this decoder makes: it wants the first byte of a chunk to be 0, as xz does, and knows
// no filters that change within a stream.
func stricter(err error) bool {
	return errors.Is(err, errChunkStart) || errors.Is(err, ErrUnsupported)
}

func limited(r io.Reader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 4<<20))
}

// FuzzChunks puts the data behind a block header, so that it reaches the decoder of LZMA2 without a checksum in the way.
// There is no index, so that neither decoder can end well; up to there this one may give nothing that the other does not.
func FuzzChunks(f *testing.F) {
	for _, name := range []string{"level0", "lc0lp4pb4", "lc4lp0pb0", "lc1lp2pb3", "stored"} {
		// Stream header and block header have 24 bytes, check, index and footer 36.
		data := vector(f, name)
		f.Add(data[24 : len(data)-36])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := file(data)
		got, err := limited(NewReader(bytes.NewReader(whole), Options{}))
		want, _ := limited(fallback.NewReader(bytes.NewReader(whole), 0))
		require.True(t, bytes.HasPrefix(want, got), "they decode to different bytes")
		if len(got) < 4<<20 {
			require.Error(t, err)
		}
	})
}
