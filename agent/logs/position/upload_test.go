//go:build integration

package position

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs of Debian's package systemd-journal-remote; `make deps` installs it.
const (
	journalRemote = "/lib/systemd/systemd-journal-remote"
	journalUpload = "/lib/systemd/systemd-journal-upload"
)

// written is the time of the journal's entry, in µs: it is behind those that the cases have.
const written = 0x6613844c3a803 + 86_400_000_000

// begun are removed though the program begins with them: it reads no place there, or one that nobody has written.
var begun = map[string]bool{"a comment that goes on": true, "a name that is damaged": true}

// Each file that Repair removes is one that the program ends with or has no place for it, and each that stays is one
// that it begins with.
func TestSystemdsOwnProgramBeginsWithWhatIsLeft(t *testing.T) {
	journal := t.TempDir()
	remote := exec.Command(journalRemote, "--output="+filepath.Join(journal, "remote.journal"), "-")
	remote.Stdin = strings.NewReader(fmt.Sprintf("__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=1001\n_BOOT_ID=%s\nMESSAGE=hello\n\n",
		written, strings.Repeat("ab", 16)))
	out, err := remote.CombinedOutput()
	require.NoError(t, err, "run make deps\n%s", out)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store-1")
			require.NoError(t, os.WriteFile(path, []byte(tc.data), 0o600))
			if name != "far too much" { // The program has another bound.
				began, said := begins(t, journal, path)
				require.Equal(t, tc.why == "" || begun[name], began, said)
			}
			require.NoError(t, os.WriteFile(path, []byte(tc.data), 0o600))
			_, err := Repair(path)
			require.NoError(t, err)
			began, said := begins(t, journal, path)
			require.True(t, began, said)
		})
	}
}

// begins tells whether the program sends the journal's entry, or ends before.
func begins(t *testing.T, journal, path string) (began bool, said string) {
	t.Helper()
	sent := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if data, err := io.ReadAll(r.Body); err == nil && bytes.Contains(data, []byte("MESSAGE=hello")) {
			select {
			case sent <- struct{}{}:
			default:
			}
		}
	}))
	defer server.Close()
	cmd := exec.CommandContext(t.Context(), journalUpload, "--url="+server.URL+"/stores/1", "--directory="+journal, "--save-state="+path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	select {
	case <-sent:
		began = true
		_ = cmd.Process.Kill()
		<-ended
	case <-ended:
	}
	return began, out.String()
}
