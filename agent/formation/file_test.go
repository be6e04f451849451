package formation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The gate runs in the units of services, which have a umask of their own; who answers for the member is another user.
func TestOthersCanReadTheFileWhateverTheUmask(t *testing.T) {
	for _, before := range []string{"no directory", "one that was made too narrow"} {
		t.Run(before, func(t *testing.T) {
			dir, d := filepath.Join(t.TempDir(), "formation"), &disk{}
			if before != "no directory" {
				require.NoError(t, os.Mkdir(dir, 0o700))
			}
			defer unix.Umask(unix.Umask(0o077))
			require.Equal(t, Form, enter(t, d.options(t, dir, nil, "B")))
			for path, want := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, "s.json"): 0o644} {
				st, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, want, st.Mode().Perm(), path)
			}
		})
	}
}
