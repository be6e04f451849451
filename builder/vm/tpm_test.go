package vm

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A key of the endorsement hierarchy is derived from a seed that a TPM keeps for its whole life: the same key is the
// same TPM (TPM 2.0 Library, Part 1, 14.4).
func TestTheSameFolderIsTheSameTPM(t *testing.T) {
	dir := t.TempDir()
	first := endorsementKey(t, filepath.Join(dir, "a", "tpm"))
	require.Equal(t, first, endorsementKey(t, filepath.Join(dir, "a", "tpm")))
	require.NotEqual(t, first, endorsementKey(t, filepath.Join(dir, "b, with a comma", "tpm")))
}

// endorsementKey starts the TPM of a folder as QEMU does (swtpm_ioctls(3)), asks it for a key, and ends it.
func endorsementKey(t *testing.T, dir string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "tpm")
	emulator, err := startTPM(dir, socket)
	require.NoError(t, err)
	defer emulator.stop()
	ctrl, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	defer ctrl.Close()
	require.NoError(t, ctrl.SetDeadline(time.Now().Add(time.Minute)))
	const setDataFD, initialize = 0x10, 0x02
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	data, theirs := os.NewFile(uintptr(pair[0]), "data"), os.NewFile(uintptr(pair[1]), "theirs")
	defer data.Close()
	control := func(body []byte, rights []byte) {
		_, _, err := ctrl.WriteMsgUnix(body, rights, nil)
		require.NoError(t, err)
		var result [4]byte
		_, err = io.ReadFull(ctrl, result[:])
		require.NoError(t, err)
		require.Zero(t, binary.BigEndian.Uint32(result[:]))
	}
	control(binary.BigEndian.AppendUint32(nil, setDataFD), unix.UnixRights(int(theirs.Fd())))
	theirs.Close()
	control(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, initialize), 0), nil)

	tpm2(t, data, "8001 0000000c 00000144 0000")               // TPM2_Startup(TPM_SU_CLEAR)
	answer := tpm2(t, data, "8002 00000041 00000131 4000000b"+ // TPM2_CreatePrimary(TPM_RH_ENDORSEMENT), with the empty password
		"00000009 40000009 0000 00 0000"+ // authorisation
		"0004 0000 0000"+ // nothing of our own in it
		"0018 0023 000b 00040072 0000 0010 0018 000b 0003 0010 0000 0000"+ // ECC, P-256, ECDSA with SHA-256
		"0000 00000000")
	// Header, handle, size of the parameters, then TPM2B_PUBLIC.
	size := int(binary.BigEndian.Uint16(answer[18:]))
	return hex.EncodeToString(answer[20 : 20+size])
}

// tpm2 sends one command, given in hexadecimal, and returns the answer, which must be of success.
func tpm2(t *testing.T, data *os.File, command string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(command, " ", ""))
	require.NoError(t, err)
	require.EqualValues(t, len(raw), binary.BigEndian.Uint32(raw[2:]))
	_, err = data.Write(raw)
	require.NoError(t, err)
	head := make([]byte, 10)
	_, err = io.ReadFull(data, head)
	require.NoError(t, err)
	require.Zero(t, binary.BigEndian.Uint32(head[6:]), "the TPM's answer is %x", head)
	rest := make([]byte, binary.BigEndian.Uint32(head[2:])-10)
	_, err = io.ReadFull(data, rest)
	require.NoError(t, err)
	return append(head, rest...)
}

func TestAMachineHasItsTPMAndEndsIt(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	accel, err := DetectAccel(ctx)
	require.NoError(t, err)
	c := Config{Name: "tpm", Dir: t.TempDir(), Accel: accel, Memory: 256, TPM: filepath.Join(t.TempDir(), "state")}
	for range 2 {
		m, err := Start(ctx, c)
		require.NoError(t, err)
		t.Cleanup(m.Kill)
		var found []struct {
			Model string `json:"model"`
		}
		require.NoError(t, m.Monitor("query-tpm", nil, &found))
		require.Len(t, found, 1)
		require.Equal(t, "tpm-crb", found[0].Model)
		require.FileExists(t, filepath.Join(c.TPM, "tpm2-00.permall"))
		require.NoError(t, m.Quit())
		select {
		case <-m.tpm.done:
		default:
			require.Fail(t, "the emulator outlives its machine")
		}
	}
}

func TestATPMThatCannotRunSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Start(within(t, time.Minute), Config{Name: "broken", Dir: t.TempDir(), Accel: Accel{Name: "tcg", CPU: "max"}, TPM: file})
	require.ErrorContains(t, err, "machine broken: folder for the TPM")
	state := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(state, "tpm2-00.permall"), []byte("no TPM"), 0o600))
	_, err = Start(within(t, time.Minute), Config{Name: "broken", Dir: t.TempDir(), Accel: Accel{Name: "tcg", CPU: "max"}, TPM: state})
	require.ErrorContains(t, err, "tpm")
}
