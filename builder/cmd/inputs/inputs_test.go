package inputs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
)

func TestSourceDateEpoch(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1": 1, "1700000000": 1_700_000_000, "4294967295": 4_294_967_295} {
		got, err := sourceDateEpoch(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"0", "-1", "x", "1.5", "4294967296", "99999999999999999999"} {
		_, err := sourceDateEpoch(text)
		require.Equal(t, exit.Misuse, exit.Code(err), text)
	}
}
