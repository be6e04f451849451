package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/tpm"
	"spore/agent/unlock"
	"spore/cluster/facts"
	"spore/storage/fat"
)

// put writes a file below the machine's root.
func put(t *testing.T, m *node.Machine, name, content string) {
	t.Helper()
	path := m.Root.At(name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

const secureBoot = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

func TestWhatTheTPMMeasuredIsReadWithTheSwitchOfSecureBoot(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	_, err := measuredStart(m)
	require.ErrorIs(t, err, fs.ErrNotExist, "no TPM")
	put(t, m, "/sys/class/tpm/tpm0/pcr-sha256/7", strings.Repeat("07", 32)+"\n")
	_, err = measuredStart(m)
	require.ErrorIs(t, err, fs.ErrNotExist, "half of it")
	put(t, m, "/sys/class/tpm/tpm0/pcr-sha256/12", strings.Repeat("00", 32)+"\n")
	start, err := measuredStart(m)
	require.NoError(t, err)
	require.False(t, start.SecureBoot, "no UEFI")
	put(t, m, secureBoot, "\x06\x00\x00\x00\x01")
	start, err = measuredStart(m)
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
	put(t, m, paths.StateMeasured, "")
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

func TestTheFirmwareGetsNoListWhereItWouldDoHarm(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	var said []string
	m.Say = func(s string) { said = append(said, s) }
	require.NoError(t, revokeCommand(t.Context(), m), "the configuration has none")
	list := filepath.Join(bootinfo.ClusterDir, facts.RevokedFile)
	put(t, m, list, "no write")
	require.ErrorContains(t, revokeCommand(t.Context(), m), "firmware/dbx.auth of the configuration: ")

	put(t, m, list, writeOfDBX)
	require.NoError(t, revokeCommand(t.Context(), m))
	require.Contains(t, strings.Join(said, "\n"), "Secure Boot is off: the firmware gets no revoked images")
	put(t, m, secureBoot, "\x06\x00\x00\x00\x01")
	put(t, m, bootCount, "x")
	require.NoError(t, revokeCommand(t.Context(), m))
	require.Contains(t, strings.Join(said, "\n"), "the configuration is on trial")
	require.NoError(t, os.Remove(m.Root.At(bootCount)))
	require.ErrorIs(t, revokeCommand(t.Context(), m), fs.ErrNotExist, "it is not known what the state is")
	put(t, m, paths.State, `{"kind":"partition"}`)
	require.ErrorContains(t, revokeCommand(t.Context(), m), "it is not known which ESP the machine was started from")
}

// writeOfDBX is one with a hash, as spore keys revoke makes it but for the signature, which is the firmware's to check.
var writeOfDBX = strings.Repeat("\x00", 16) + "\x18\x00\x00\x00\x00\x02\xf1\x0e" + "\x9d\xd2\xaf\x4a\xdf\x68\xee\x49\x8a\xa9\x34\x7d\x37\x56\x65\xa7" +
	"\x26\x16\xc4\xc1\x4c\x50\x92\x40\xac\xa9\x41\xf9\x36\x93\x43\x28" + "\x4c\x00\x00\x00\x00\x00\x00\x00\x30\x00\x00\x00" + strings.Repeat("\x01", 48)

func TestAllProgramsOfTheESPAreHashed(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	esp := filepath.Join(t.TempDir(), "esp")
	write := func(files ...fat.File) {
		image, err := fat.New(fat.Options{Size: 64 << 20, Files: files})
		require.NoError(t, err)
		f, err := os.Create(esp)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(image.Size()))
		require.NoError(t, image.WriteAll(f, 0))
		require.NoError(t, f.Close())
	}
	file := func(name, content string) fat.File {
		return fat.File{Path: name, Size: int64(len(content)), Content: strings.NewReader(content)}
	}
	m.Boot.ESP = esp
	write(file("/loader/loader.conf", "timeout 0"))
	programs, err := espPrograms(m)
	require.NoError(t, err)
	require.Empty(t, programs)
	// What cannot be hashed could be the image that is revoked.
	write(file("/EFI/Linux/x.EFI", "MZ and no more"))
	_, err = espPrograms(m)
	require.ErrorContains(t, err, "/EFI/Linux/x.EFI: hash a program")
}
