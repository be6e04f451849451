package netnstest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASkipInTheNamespaceIsOneOutside(t *testing.T) {
	var inner *testing.T
	t.Run("inner", func(t *testing.T) {
		inner = t
		Run(t, func(t *testing.T) { t.Skip("elsewhere: this is the skip that the test is about") })
	})
	require.True(t, inner.Skipped())
}

func TestTheReasonIsWhatWasLoggedLast(t *testing.T) {
	out := "=== RUN   TestA\n    a_test.go:3: first\n    a_test.go:4: the kernel has no IPv6\n" +
		"--- SKIP: TestA (0.00s)\nPASS\n"
	require.Equal(t, "the kernel has no IPv6", reason(out))
	require.Equal(t, "it is skipped in a network namespace of its own", reason("--- SKIP: TestA (0.00s)\n"))
}
