package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATerminalActsOnNothingThatTheServerSays(t *testing.T) {
	require.Equal(t, "a?[2Jb\nc???", Printable("a\x1b[2Jb\nc\x7f\u009b\r"))
}
