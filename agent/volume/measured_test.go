package volume

import (
	"crypto/sha256"
	"encoding/binary"
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
	"spore/agent/quote"
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

// log is a firmware's event log in which so many images were measured.
func log(images int) string {
	le := binary.LittleEndian
	spec := append([]byte("Spec ID Event03\x00"), 0, 0, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0, 0x0b, 0, 32, 0, 0)
	b := append(make([]byte, 4), 3, 0, 0, 0)
	b = append(b, make([]byte, 20)...)
	b = append(le.AppendUint32(b, uint32(len(spec))), spec...)
	for range images {
		for _, text := range []string{".linux\x00", "a kernel", ".osrel\x00", "a system"} {
			sum := sha256.Sum256([]byte(text))
			b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, tpm.Image), 0xd), 1)
			b = append(append(b, 0x0b, 0), sum[:]...)
			b = le.AppendUint32(b, 0)
		}
	}
	return string(b)
}

func TestAStartIsSpoiledWhereAnImageThatIsCountedWasMeasuredBefore(t *testing.T) {
	const counted = "LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
	for name, tt := range map[string]struct {
		counted bool
		log     string
		want    bool
		said    string
	}{
		"two images":                         {counted: true, log: log(2), want: true},
		"four images":                        {counted: true, log: log(4), want: true},
		"one image, which is on trial":       {counted: true, log: log(1)},
		"two images that nobody counts":      {log: log(2)},
		"one image":                          {log: log(1)},
		"no log":                             {counted: true, said: "no such file"},
		"a log that cannot be read":          {counted: true, log: "x", said: "read the firmware's event log"},
		"a torn copy that was never started": {counted: true, log: log(1)},
	} {
		t.Run(name, func(t *testing.T) {
			m := node.New("spore-agent", paths.Root(t.TempDir()))
			var said []string
			m.Say = func(s string) { said = append(said, s) }
			if tt.counted {
				nodetest.Put(t, m, filepath.Join(paths.EFIVars, counted), "\x06\x00\x00\x00x\x00\x00\x00")
			}
			if tt.log != "" {
				nodetest.Put(t, m, "/"+quote.Log, tt.log)
			}
			require.Equal(t, tt.want, spoiled(m))
			require.Contains(t, strings.Join(said, "\n"), tt.said)
		})
	}
}
