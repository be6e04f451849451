package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/tpm"
	"spore/agent/unlock"
)

func TestWhatTheTPMMeasuredIsReadWithTheSwitchOfSecureBoot(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	_, err := Measured(m)
	require.ErrorIs(t, err, fs.ErrNotExist, "no TPM")
	nodetest.Put(t, m, "/sys/class/tpm/tpm0/pcr-sha256/7", strings.Repeat("07", 32)+"\n")
	_, err = Measured(m)
	require.ErrorIs(t, err, fs.ErrNotExist, "half of it")
	nodetest.Put(t, m, "/sys/class/tpm/tpm0/pcr-sha256/12", strings.Repeat("00", 32)+"\n")
	start, err := Measured(m)
	require.NoError(t, err)
	require.False(t, start.SecureBoot, "no UEFI")
	nodetest.Put(t, m, nodetest.SecureBoot, "\x06\x00\x00\x00\x01")
	start, err = Measured(m)
	require.NoError(t, err)
	require.Equal(t, unlock.Start{SecureBoot: true, Keys: tpm.Digest([]byte(strings.Repeat("\x07", 32)))}, start)
}

func TestTheTPMIsToldOnceThatTheStateIsOpen(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	require.NoError(t, endOpening(t.Context(), m), "a machine without a TPM")
	require.NoFileExists(t, m.Root.At(paths.StateMeasured))
	// A pipe gives back what was asked, which is no answer of a TPM.
	require.NoError(t, os.MkdirAll(m.Root.At("/dev"), 0o755))
	require.NoError(t, unix.Mkfifo(m.Root.At("/dev/tpmrm0"), 0o600))
	require.ErrorContains(t, endOpening(t.Context(), m), "extend PCR 11: the TPM refused with code 0x182")
	require.NoFileExists(t, m.Root.At(paths.StateMeasured), "it will be tried again")
	nodetest.Put(t, m, paths.StateMeasured, "")
	require.NoError(t, endOpening(t.Context(), m), "it was done")
}

func TestTheTPMIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tpm") // Like the device it can be polled.
	require.NoError(t, unix.Mkfifo(path, 0o600))
	f, err := openTPM(path)
	require.NoError(t, err)
	defer f.Close()
	raw, err := f.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		require.NoError(t, err)
		require.Zero(t, flags&unix.O_NONBLOCK, "the kernel would answer before the TPM does")
	}))
	_, err = openTPM(path + "x")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
