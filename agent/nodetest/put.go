package nodetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
)

// Put writes a file below the machine's root.
func Put(t *testing.T, m *node.Machine, name, content string) {
	t.Helper()
	path := m.Root.At(name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// SecureBoot is the variable of the firmware that says whether Secure Boot is on.
const SecureBoot = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
