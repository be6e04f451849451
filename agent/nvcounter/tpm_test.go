//go:build integration

package nvcounter

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
	"github.com/stretchr/testify/require"
)

// emulated is a TPM of swtpm, with a seed of its own.
func emulated(t *testing.T) transport.TPM {
	t.Helper()
	// The name of a socket has at most 107 characters (unix(7)), and that of the test is in t.TempDir.
	dir, err := os.MkdirTemp("", "tpm")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir,
		"--server", "type=unixio,path="+socket, "--flags", "not-need-init,startup-clear")
	require.NoError(t, cmd.Start(), "run make deps")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// The socket is there before anybody listens.
	require.Eventually(t, func() bool {
		tpm, err := linuxudstpm.Open(socket)
		if err == nil {
			_, err = tpm2.GetRandom{BytesRequested: 8}.Execute(tpm)
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	tpm, err := linuxudstpm.Open(socket)
	require.NoError(t, err)
	return tpm
}

func open(t *testing.T, tpm transport.TPM) *NV {
	t.Helper()
	n, err := Open(tpm)
	require.NoError(t, err)
	return n
}

func count(t *testing.T, n *NV) uint64 {
	t.Helper()
	got, err := n.Count()
	require.NoError(t, err)
	return got
}

func undefine(t *testing.T, tpm transport.TPM) {
	t.Helper()
	public, err := tpm2.NVReadPublic{NVIndex: tpm2.TPMHandle(Index)}.Execute(tpm)
	require.NoError(t, err)
	_, err = tpm2.NVUndefineSpace{
		AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
		NVIndex:    tpm2.NamedHandle{Handle: tpm2.TPMHandle(Index), Name: public.NVName},
	}.Execute(tpm)
	require.NoError(t, err)
}

func TestATPMCountsAndNeverGoesBack(t *testing.T) {
	tpm := emulated(t)
	n := open(t, tpm)
	b, err := Bind(n, nil, 5)
	require.NoError(t, err)
	next, err := Bind(n, &b, 9)
	require.NoError(t, err)
	require.NoError(t, Reach(n, next, 9))
	n = open(t, tpm)
	got, err := Floor(n, &b)
	require.NoError(t, err)
	require.EqualValues(t, 9, got)

	for name, lower := range map[string]func(){
		"removed and made again": func() { undefine(t, tpm) },
		"cleared": func() {
			_, err := tpm2.Clear{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHLockout, Auth: tpm2.PasswordAuth(nil)}}.Execute(tpm)
			require.NoError(t, err)
		},
	} {
		before, id := count(t, n), n.ID()
		lower()
		n = open(t, tpm)
		require.Greater(t, count(t, n), before, name)
		require.Equal(t, id, n.ID(), name)
		got, err := Floor(n, &b)
		require.NoError(t, err)
		require.Greater(t, got, uint64(9), name)
	}
	require.NotEqual(t, n.ID(), open(t, emulated(t)).ID(), "another TPM")
}

func TestAnIndexOfAnotherProgramIsLeftAlone(t *testing.T) {
	tpm := emulated(t)
	_, err := tpm2.NVDefineSpace{
		AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
		PublicInfo: tpm2.New2B(tpm2.TPMSNVPublic{
			NVIndex: tpm2.TPMHandle(Index), NameAlg: tpm2.TPMAlgSHA256, DataSize: 8,
			Attributes: tpm2.TPMANV{NT: tpm2.TPMNTOrdinary, AuthWrite: true, AuthRead: true, NoDA: true},
		}),
	}.Execute(tpm)
	require.NoError(t, err)
	_, err = Open(tpm)
	require.ErrorContains(t, err, "is not a counter: another program made it")
}

// An owner's password that came later does not stop the counter; one that was there before says so.
func TestAnOwnersPassword(t *testing.T) {
	secure := func(tpm transport.TPM) {
		_, err := tpm2.HierarchyChangeAuth{
			AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
			NewAuth:    tpm2.TPM2BAuth{Buffer: []byte("secret")},
		}.Execute(tpm)
		require.NoError(t, err)
	}
	tpm := emulated(t)
	before := count(t, open(t, tpm))
	secure(tpm)
	n := open(t, tpm)
	require.NoError(t, n.Increment())
	require.Equal(t, before+1, count(t, n))

	other := emulated(t)
	secure(other)
	_, err := Open(other)
	require.ErrorContains(t, err, "have the TPM make a counter")
}
