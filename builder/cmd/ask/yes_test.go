package ask

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestOnlyYesIsYes(t *testing.T) {
	for text, want := range map[string]bool{
		"y\n": true, "Y\n": true, " yes \n": true, "y": true, "": false, "\n": false, "n\n": false, "no\ny\n": false, "yess\n": false,
	} {
		var out bytes.Buffer
		got, err := Yes(&out, strings.NewReader(text), "Go on?")
		require.NoError(t, err)
		require.Equal(t, want, got, text)
		require.Equal(t, "Go on? [y/N] ", out.String())
	}
	_, err := Yes(&bytes.Buffer{}, iotest.ErrReader(errors.New("gone")), "Go on?")
	require.ErrorContains(t, err, "read the answer: gone")
}
