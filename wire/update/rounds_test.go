package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
)

func TestAnIndexMayMakeFarMoreKnownThanThereWas(t *testing.T) {
	content := make([]byte, 1<<20)
	sum := pieces.Sum(sha256.Sum256(content)).String()
	// As a node lacks two indexes of 1 MiB first, and then what is in them, a little less with each message.
	lacks := []int64{2 << 20, 1 << 20, 200 << 20}
	for left := int64(199); left > 0; left-- {
		lacks = append(lacks, left<<20)
	}
	asked := 0
	tr := Transfer{
		Object: func(context.Context, pieces.Sum) ([]byte, error) { return content, nil },
		Send: func(context.Context, io.Reader) (Answer, error) {
			if asked++; asked > len(lacks) {
				return Answer{Entry: "spore_1.efi"}, nil
			}
			return Answer{Lacks: &Lack{Objects: []string{sum}, Count: 1, Bytes: lacks[asked-1]}}, nil
		},
	}
	a, err := tr.Run(context.Background())
	require.NoError(t, err)
	require.Equal(t, "spore_1.efi", a.Entry)
}

func TestANodeThatLacksMoreAndLessForEverIsLeft(t *testing.T) {
	content := bytes.Repeat([]byte{1}, 1<<20)
	sum := pieces.Sum(sha256.Sum256(content)).String()
	asked := 0
	tr := Transfer{
		Object: func(context.Context, pieces.Sum) ([]byte, error) { return content, nil },
		Send: func(context.Context, io.Reader) (Answer, error) {
			asked++
			return Answer{Lacks: &Lack{Objects: []string{sum}, Count: 1, Bytes: 8<<20 + int64(asked%2)}}, nil
		},
	}
	_, err := tr.Run(context.Background())
	require.ErrorContains(t, err, "asks again for what it was sent")
	require.Less(t, asked, 40)
}
