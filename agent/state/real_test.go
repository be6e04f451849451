//go:build disks

package state

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/hostkey"
	"spore/agent/unlock"
	"spore/cluster/spec"
	"spore/storage/disk"
)

// This needs a kernel with dm-crypt, the programs of an image with encrypted state, udev, and an empty disk of at least
// 600 MiB that it may use up, SPORE_TEST_DISK, such as vdb: those of a virtual machine. On a disk that has been
// enlarged since, it grows what is there.
func TestEncryptedStateOnADisk(t *testing.T) {
	name := os.Getenv("SPORE_TEST_DISK")
	f, err := os.Open("/dev/" + name)
	require.NoError(t, err)
	size, err := f.Seek(0, 2)
	require.NoError(t, err)
	f.Close()
	const recovery, first, second = "cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi", "the first passphrase", "the second passphrase"
	d := disk.Disk{Name: name, Size: size, SectorSize: 512, Serials: []string{"A"}}
	bundle := recovery
	var answers, said []string
	run := func(program string, args ...string) {
		t.Helper()
		out, err := exec.Command(program, args...).CombinedOutput()
		require.NoError(t, err, "%s %v: %s", program, args, out)
	}
	medium := t.TempDir()
	lock := &unlock.Options{
		Want: &spec.State{Encrypt: spec.EncryptPassphrase}, Node: "edge-01", HasTPM: func(context.Context) bool { return false }, PublicKey: "/none", Dir: filepath.Join(t.TempDir(), "keys"),
		Delivered: func(context.Context) (string, error) {
			if bundle == "" {
				return "", errors.New("none came with the machine")
			}
			return bundle, nil
		},
		Ask: func(_ context.Context, question string) (string, error) {
			t.Log(question)
			if len(answers) == 0 {
				return "", errors.New("nobody is there")
			}
			a := answers[0]
			answers = answers[1:]
			return a, nil
		},
		Host: hostkey.Keeper{Node: "edge-01", MachineID: "0123456789abcdef0123456789abcdef", With: func(fn func(string) error) error { return fn(medium) }},
	}
	execute := func(ctx context.Context, env []string, program string, args ...string) error {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		t.Logf("%s %v: %v\n%s", program, args, err, out)
		return err
	}
	say := func(s string) { t.Log(s); said = append(said, s) }
	lock.Exec, lock.Say = execute, say
	o := Options{
		ClusterID: clusterID, ClusterName: "plant", Node: "edge-01", Named: &spec.DiskSelector{Serial: "A"}, Lock: lock,
		List: func() ([]disk.Disk, error) { return []disk.Disk{d}, nil }, Definitions: filepath.Join(t.TempDir(), "repart.d"), Temp: t.TempDir(), Exec: execute, Say: say,
	}
	dir := t.TempDir()
	binding := Binding{Cluster: clusterID, Node: "edge-01", PartUUID: want.String()}
	// boot makes or opens the state, looks at what is in it, and shuts down.
	boot := func(use func()) Info {
		t.Helper()
		info := Run(context.Background(), o)
		require.Equal(t, Partition, info.Kind, "%+v", info)
		info, err := Mount(context.Background(), info, Mounting{Dir: dir, Binding: binding, Exec: execute, Say: say})
		require.NoError(t, err)
		require.Equal(t, Partition, info.Kind, "%+v", info)
		if use != nil {
			use()
		}
		require.NoError(t, unix.Unmount(dir, 0))
		run("systemd-cryptsetup", "detach", unlock.Name)
		return info
	}
	marker := filepath.Join(dir, "marker")
	kept := func() {
		data, err := os.ReadFile(marker)
		require.NoError(t, err)
		require.Equal(t, "kept", string(data))
	}
	blocks := func() uint64 {
		var st unix.Statfs_t
		require.NoError(t, unix.Statfs(dir, &st))
		return st.Blocks * uint64(st.Bsize)
	}
	if os.Getenv("SPORE_TEST_GROWN") != "" {
		bundle = ""
		lock.Want = &spec.State{Encrypt: spec.EncryptHostKey}
		answers = []string{second}
		info := boot(func() { kept(); require.Greater(t, blocks(), uint64(size)*8/10) })
		require.Equal(t, spec.EncryptPassphrase, info.Encryption.Opened)
		require.Equal(t, spec.EncryptHostKey, info.Encryption.Next)
		require.Equal(t, spec.EncryptHostKey, boot(kept).Encryption.Opened, "nobody was asked")
		require.NoError(t, Reset(o, d, false))
		info = Run(context.Background(), o)
		require.True(t, info.Refused)
		require.Contains(t, info.Warning, "none came with the machine")
		return
	}

	bundle = ""
	info := Run(context.Background(), o)
	require.True(t, info.Refused, "%+v", info)
	require.Contains(t, info.Warning, "none came with the machine")
	bundle, answers = recovery, []string{first, first}
	info = boot(func() { require.NoError(t, os.WriteFile(marker, []byte("kept"), 0o600)) })
	require.Equal(t, &unlock.Info{Opened: unlock.Recovery, Next: spec.EncryptPassphrase}, info.Encryption)
	require.Empty(t, info.Warning)

	bundle, answers = "", []string{"not that one, no", first}
	info = boot(kept)
	require.Equal(t, &unlock.Info{Opened: spec.EncryptPassphrase, Next: spec.EncryptPassphrase}, info.Encryption)
	require.Contains(t, said, "waiting for somebody who types the passphrase, or recovery key of the state of edge-01 on the console; `spore pki export --name state-recovery-key/edge-01` has the recovery key")

	answers = []string{recovery, second, second}
	require.Equal(t, unlock.Recovery, boot(kept).Encryption.Opened)
	answers = []string{first, second}
	boot(kept)
	require.Empty(t, answers, "the first passphrase opens it no more")

	answers = []string{first}
	info = Run(context.Background(), o)
	require.True(t, info.Refused, "nobody types the right one: %+v", info)
	answers = []string{second}
	require.Equal(t, spec.EncryptPassphrase, boot(kept).Encryption.Opened, "and nothing was changed")
}
