package reference

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCommittedPageIsWhatTheCodeGives(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	require.NoError(t, err)
	require.Equal(t, Page(), string(page), "run go generate ./agent/metrics/reference")
}
