//go:build integration

package tail

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A journal that systemd's own program has written has the last entry that journalctl shows.
func TestTheLastEntryOfSystemdsOwnJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "remote.journal")
	// `make deps` installs it.
	remote := exec.Command("/lib/systemd/systemd-journal-remote", "--output="+path, "-")
	var in strings.Builder
	for i := range 7 {
		fmt.Fprintf(&in, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\nMESSAGE=hello %d\n\n",
			1_800_000_000_000_000+i, 1000+i, strings.Repeat("ab", 16), i)
	}
	remote.Stdin = strings.NewReader(in.String())
	out, err := remote.CombinedOutput()
	require.NoError(t, err, "run make deps\n%s", out)
	cursor, err := exec.Command("journalctl", "--file="+path, "-n", "1", "-o", "export", "--output-fields=MESSAGE").Output()
	require.NoError(t, err)
	require.Contains(t, string(cursor), "MESSAGE=hello 6\n")
	e, err := Read(path)
	require.NoError(t, err)
	require.Contains(t, string(cursor), fmt.Sprintf("__CURSOR=s=%s;i=%x;b=%s;", e.Series, e.Number, e.Boot))
}
