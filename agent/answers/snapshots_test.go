package answers

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestASnapshotThatIsBroughtIsTheOneThatItsNameSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snapshot")
	named := func(content string) nodeapi.SnapshotName {
		hash := sha256.New()
		hash.Write([]byte(content))
		return nodeapi.SnapshotName{Taken: time.Date(2026, 11, 22, 5, 1, 34, 0, time.UTC), Revision: 7, Node: "m", Hash: nodeapi.SnapshotHash(hash)}
	}
	first := named("first")
	require.NoError(t, bring(dir, first, strings.NewReader("first")))
	data, err := os.ReadFile(filepath.Join(dir, first.String()))
	require.NoError(t, err)
	require.Equal(t, "first", string(data))

	require.ErrorContains(t, bring(dir, named("second"), strings.NewReader("another")), "another hash")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "neither what was brought before nor what was damaged stays")
}
