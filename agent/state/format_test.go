package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/unlock"
	"spore/cluster/spec"
)

// formatting is a run whose programs only say what was asked of them, and fail where their line begins with fails.
func formatting(t *testing.T, key, fails string) (Formatting, *[]string) {
	dir := t.TempDir()
	f := Formatting{Device: filepath.Join(dir, "device"), KeyFile: filepath.Join(dir, "key")}
	require.NoError(t, os.WriteFile(f.KeyFile, []byte(key), 0o600))
	require.NoError(t, os.WriteFile(f.Device, []byte("what was there"), 0o600))
	var lines []string
	f.Exec = func(_ context.Context, env []string, name string, args ...string) error {
		line := strings.Join(append(append(env, name), args...), " ")
		lines = append(lines, strings.ReplaceAll(line, dir, "DIR"))
		if fails != "" && strings.Contains(line, fails) {
			return errors.New(fails + " has failed")
		}
		return nil
	}
	return f, &lines
}

func TestFormatTakesNothingButABlockDeviceAndAKey(t *testing.T) {
	for name, tc := range map[string]struct {
		key    string
		change func(*Formatting)
		want   string
	}{
		"a file":       {"the key", func(*Formatting) {}, "it is not a block device, and systemd-repart has one where the kernel has its module loop"},
		"no key":       {"the key", func(f *Formatting) { f.KeyFile += "-of-another" }, "the key: open "},
		"an empty key": {" \n", func(*Formatting) {}, "is empty"},
		"a large key":  {strings.Repeat("k", 5000), func(*Formatting) {}, "more than 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			f, lines := formatting(t, tc.key, "")
			tc.change(&f)
			err := Format(t.Context(), f)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "make encrypted state on "+f.Device+": ")
			require.Empty(t, *lines)
			data, err := os.ReadFile(f.Device)
			require.NoError(t, err)
			require.Equal(t, "what was there", string(data))
		})
	}
}

func TestTheVolumeIsClosedWhateverWentWrong(t *testing.T) {
	const (
		attach = "systemd-cryptsetup attach spore-state-new DIR/device DIR/key luks,headless=true,tries=1"
		mkfs   = "MKE2FS_DEVICE_SECTSIZE=4096 mkfs.ext4 -L spore-state -I 256 -m 0 -E nodiscard,lazy_itable_init=1 -b 4096 -T default /dev/mapper/spore-state-new"
		detach = "systemd-cryptsetup detach spore-state-new"
	)
	for name, tc := range map[string]struct {
		fails, want string
		lines       []string
	}{
		"it does not open":      {"attach", "attach has failed", []string{attach}},
		"no file system":        {"mkfs.ext4", "mkfs.ext4 has failed", []string{attach, mkfs, detach}},
		"the mapping is gone":   {"", "/dev/mapper/spore-state-new", []string{attach, mkfs, detach}},
		"it cannot be closed":   {"detach", "/dev/mapper/spore-state-new", []string{attach, mkfs, detach}},
		"nothing works with it": {"spore-state-new", "spore-state-new has failed", []string{attach}},
	} {
		t.Run(name, func(t *testing.T) {
			f, lines := formatting(t, "the key", tc.fails)
			require.ErrorContains(t, f.open(t.Context(), 4096), tc.want)
			require.Equal(t, tc.lines, *lines)
		})
	}
}

// systemd-repart's own words are that mkfs has failed.
func TestWhyEncryptedStateCouldNotBeMadeIsSaid(t *testing.T) {
	d, o := imageDisk(t, 600<<20, "DATA"), options(t)
	r := request(nil, d)
	r.Named = &spec.DiskSelector{Serial: "DATA"}
	p, err := Choose(r)
	require.NoError(t, err)
	o.Lock = &unlock.Options{
		Want: &spec.State{Encrypt: spec.EncryptPassphrase}, Dir: t.TempDir(), Delivered: func(context.Context) (string, error) { return "the recovery key", nil },
	}
	o.Exec = func(ctx context.Context, env []string, name string, _ ...string) error {
		if name != "systemd-repart" {
			return nil
		}
		_, key, ok := strings.Cut(strings.Join(env, "\n"), "--key-file=")
		require.True(t, ok)
		require.Error(t, Format(ctx, Formatting{Device: d.Path(), KeyFile: key, Exec: o.Exec}))
		return errors.New("systemd-repart: exit status 1: (mkfs) failed with exit status 1.")
	}
	err = makeState(t.Context(), o, p, want)
	require.ErrorContains(t, err, "it is not a block device, and systemd-repart has one where the kernel has its module loop "+
		"(systemd-repart: exit status 1: (mkfs) failed with exit status 1.)")
	left, err := os.ReadDir(o.Lock.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, because(nil, filepath.Join(t.TempDir(), "none")))
}
