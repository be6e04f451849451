package grep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpressionsOfPerlThatExtendedOnesHaveTooAreTranslated(t *testing.T) {
	for pattern, want := range map[string]string{
		`^\d+\t`: "^[0-9]+\t", `(?:a|b)\D`: `(a|b)[^0-9]`, `a\.b\\d`: `a\.b\\d`, `[a-z]+\s*=`: `[a-z]+\s*=`,
	} {
		got, err := fromPerl(pattern)
		require.NoError(t, err, pattern)
		require.Equal(t, want, got)
	}
	for _, pattern := range []string{`a+?`, `a++`, `(?=a)`, `(?i)a`, `\Ka`, `[\d]`, `(?<n>a)`, `\p{L}`, `\x41`} {
		_, err := fromPerl(pattern)
		require.ErrorIs(t, err, errPerl, pattern)
	}
}

func TestBackReferencesCountTheGroupAroundAWholeLine(t *testing.T) {
	require.Equal(t, `\(a\)\2\\1`, shiftRefs(`\(a\)\1\\1`))
}
