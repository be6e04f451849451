package uki

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// unreadable is content of so many bytes that has gone.
type unreadable int64

func (u unreadable) Size() int64         { return int64(u) }
func (unreadable) ReadInto([]byte) error { return errors.New("it is gone") }

func TestContentIsReadWhole(t *testing.T) {
	large := bytes.Repeat([]byte("0123456"), copyPiece/5)
	for name, c := range map[string]struct {
		content Content
		want    []byte
	}{
		"nothing":     {Bytes(nil), nil},
		"bytes":       {Bytes(large), large},
		"none joined": {Joined{}, []byte{}},
		"joined":      {Joined{Bytes("a"), Bytes(large), Bytes(nil), Joined{Bytes("b"), Bytes("c")}}, append(append([]byte("a"), large...), "bc"...)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, int64(len(c.want)), c.content.Size())
			got, err := Read(c.content)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			into := make([]byte, c.content.Size())
			require.NoError(t, c.content.ReadInto(into))
			require.True(t, bytes.Equal(c.want, into))
		})
	}
	_, err := Read(Joined{Bytes("a"), unreadable(3)})
	require.ErrorContains(t, err, "it is gone")
}
