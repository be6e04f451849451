package tree

import (
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

type told struct{ Content }

func (told) SHA256() [sha256.Size]byte { return [sha256.Size]byte{1, 2, 3} }

func (told) Open() (io.ReadCloser, error) { return nil, errors.New("it is not to be read") }

func TestAHashIsTakenFromWhoKnowsIt(t *testing.T) {
	sum, err := SHA256(told{})
	require.NoError(t, err)
	require.Equal(t, [sha256.Size]byte{1, 2, 3}, sum)

	_, known := KnownSHA256(Bytes("abc"))
	require.False(t, known)
	sum, err = SHA256(Bytes("abc"))
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256([]byte("abc")), sum)
}
