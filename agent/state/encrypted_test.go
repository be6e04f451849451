package state

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/hostkey"
	"spore/agent/luks"
	"spore/agent/unlock"
	"spore/cluster/spec"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// encrypt makes a LUKS2 volume that begins at an offset of a file, as it is when state is made.
func encrypt(t *testing.T, path string, at int64, more ...string) {
	t.Helper()
	volume := path + ".luks"
	f, err := os.Create(volume)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(20<<20))
	require.NoError(t, f.Close())
	args := append([]string{"luksFormat", "--batch-mode", "--disable-locks", "--type", "luks2", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "-", volume}, more...)
	cmd := exec.Command("cryptsetup", args...)
	cmd.Stdin = strings.NewReader("a key")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "cryptsetup (run make deps when it is missing): %s", out)
	data, err := os.ReadFile(volume)
	require.NoError(t, err)
	d, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.WriteAt(data, at)
	require.NoError(t, err)
}

// nodeOf makes the partition's device node, a file here, with what begins the partition.
func nodeOf(t *testing.T, d disk.Disk, p gpt.Partition) string {
	t.Helper()
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, min(p.Size, 20<<20))
	_, err = f.ReadAt(b, p.Start)
	require.NoError(t, err)
	node := d.Partition(p.Number)
	require.NoError(t, os.WriteFile(node, b, 0o600))
	return node
}

func TestNewStateIsEncryptedAndWhatIsThereIsNot(t *testing.T) {
	r := request(nil, imageDisk(t, 600<<20, "DATA"))
	r.Named = &spec.DiskSelector{Serial: "DATA"}
	p, err := Choose(r)
	require.NoError(t, err)
	require.Contains(t, p.Definitions["90-state.conf"], "Format=ext4\n")
	got := encrypted(p.Definitions)
	require.Equal(t, strings.Replace(p.Definitions["90-state.conf"], "=ext4", "=spore", 1), got["90-state.conf"],
		"the file system is made behind the cipher, before the table names it")
	require.NotContains(t, got["90-state.conf"], "Encrypt=", "systemd-repart would stretch the key")
}

func TestStateIsMadeWithTheRecoveryKeyOrNotAtAll(t *testing.T) {
	for name, key := range map[string]string{"a bundle came": "the recovery key", "no bundle": ""} {
		t.Run(name, func(t *testing.T) {
			d, o := imageDisk(t, 600<<20, "DATA"), options(t)
			r := request(nil, d)
			r.Named = &spec.DiskSelector{Serial: "DATA"}
			p, err := Choose(r)
			require.NoError(t, err)
			sum := checksum(t, d)
			ran := ""
			o.Exec = func(_ context.Context, env []string, name string, _ ...string) error {
				for _, e := range env {
					if path, ok := strings.CutPrefix(e, "SYSTEMD_REPART_MKFS_OPTIONS_SPORE=--key-file="); ok && name == "systemd-repart" {
						data, err := os.ReadFile(path)
						require.NoError(t, err)
						ran = string(data)
					}
				}
				return nil
			}
			o.Lock = &unlock.Options{Want: &spec.State{Encrypt: spec.EncryptPassphrase}, Dir: t.TempDir(), Delivered: func(context.Context) (string, error) {
				if key == "" {
					return "", errors.New("none came with the machine")
				}
				return key, nil
			}}
			err = makeState(context.Background(), o, p, want)
			require.Equal(t, key, ran)
			if key == "" {
				require.ErrorContains(t, err, "none came with the machine")
				require.Equal(t, sum, checksum(t, d), "not a byte was written")
				return
			}
			require.NoError(t, err)
			left, err := os.ReadDir(o.Lock.Dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// plainState is a boot disk with this node's state that is not encrypted, and the device node of that.
func plainState(t *testing.T) (d disk.Disk, node string) {
	d = bootImage(t, 1<<30, "BOOT")
	step(t, request(&d), options(t))
	p, ok := readTable(t, d).ByGUID(want)
	require.True(t, ok)
	node = nodeOf(t, d, p)
	if os.Geteuid() != 0 { // step has made no file system then.
		tool(t, "mkfs.ext4", "-q", node)
	}
	return d, node
}

func TestStateThatIsNotEncryptedIsUsedOnlyWhereNobodyAsksForEncryption(t *testing.T) {
	const refusal = "it is not encrypted, and the configuration asks for encrypted state (state.encrypt): somebody may have put it there. To delete it and make encrypted state, " +
		"give the node its bundle again, and: spore reset edge-01 --disk BOOT. To keep it, start an image whose configuration has encrypt: none for this node; it was not changed"
	d, node := plainState(t)
	o := options(t)
	for name, tc := range map[string]struct {
		want    *spec.State
		refused bool
	}{
		"nothing asked for":     {nil, false},
		"none":                  {&spec.State{Encrypt: spec.EncryptNone}, false},
		"tpm2":                  {&spec.State{Encrypt: spec.EncryptTPM}, true},
		"tpm2, else passphrase": {&spec.State{Encrypt: spec.EncryptTPM, WithoutTPM: spec.EncryptPassphrase}, true},
		"passphrase":            {&spec.State{Encrypt: spec.EncryptPassphrase}, true},
		"host-key":              {&spec.State{Encrypt: spec.EncryptHostKey}, true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Lock = &unlock.Options{Want: tc.want}
			var info Info
			err := o.open(context.Background(), Plan{Disk: d, Found: true}, want, &info)
			require.Nil(t, info.Encryption)
			if tc.refused {
				require.ErrorAs(t, err, new(Refusal))
				require.ErrorContains(t, err, refusal)
				return
			}
			require.NoError(t, err)
			require.Equal(t, node, info.Device)
			require.Empty(t, info.Warning)
		})
	}
}

// The whole way: roles are held back, and not even the partition of somebody else's making grows with its disk.
func TestAPlainFileSystemInThePlaceOfEncryptedStateIsRefusedUntouched(t *testing.T) {
	d, _ := plainState(t)
	enlarge(t, &d, 2<<30)
	sum := checksum(t, d)
	for name, data := range map[string][]byte{"the state of before": nil, "nothing at all": make([]byte, 1<<20), "something else": bytes.Repeat([]byte("text"), 1<<18)} {
		t.Run(name, func(t *testing.T) {
			d := d
			if data != nil {
				p, ok := readTable(t, d).ByGUID(want)
				require.True(t, ok)
				f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
				require.NoError(t, err)
				defer f.Close()
				_, err = f.WriteAt(data, p.Start)
				require.NoError(t, err)
				sum = checksum(t, d)
			}
			o := options(t)
			o.BootDisk = d.Name
			o.List = func() ([]disk.Disk, error) { return []disk.Disk{d}, nil }
			o.Lock = &unlock.Options{Want: &spec.State{Encrypt: spec.EncryptTPM}}
			o.Exec = func(_ context.Context, _ []string, name string, _ ...string) error {
				t.Fatalf("%s was run", name)
				return nil
			}
			info := Run(context.Background(), o)
			require.Equal(t, Tmpfs, info.Kind)
			require.True(t, info.Refused, "roles do not begin anew beside it")
			require.Contains(t, info.Warning, "it is not encrypted, and the configuration asks for encrypted state")
			require.Contains(t, info.Warning, "spore reset edge-01 --disk BOOT")
			require.Equal(t, sum, checksum(t, d), "not a byte was written")
		})
	}
}

// A header that says of another cipher, in the extreme of none, opens with the key of the real one (luks.CheckCipher).
func TestStateThatSaysOfAnotherCipherIsNotOpened(t *testing.T) {
	for name, tc := range map[string]struct {
		more []string
		want string
	}{
		"ours":           {nil, "nobody is there"},
		"another cipher": {[]string{"--cipher", "aes-cbc-essiv:sha256", "--key-size", "256"}, `the cipher "aes-cbc-essiv:sha256", not "crypt" and "aes-xts-plain64"; it was not made by spore, or was changed since; it was not changed`},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := bootImage(t, 1<<30, "BOOT"), options(t)
			addState(t, d, want.String(), "")
			p, _ := readTable(t, d).ByGUID(want)
			encrypt(t, d.Path(), p.Start, tc.more...)
			nodeOf(t, d, p)
			o.Lock = &unlock.Options{
				Want: &spec.State{Encrypt: spec.EncryptPassphrase}, Dir: t.TempDir(), Say: func(string) {},
				Host:      hostkey.Keeper{Node: "edge-01", With: func(func(string) error) error { return unlock.ErrNoKey }},
				Delivered: func(context.Context) (string, error) { return "", errors.New("none") },
				Ask:       func(context.Context, string) (string, error) { return "", errors.New("nobody is there") },
			}
			var info Info
			require.ErrorContains(t, o.open(context.Background(), Plan{Disk: d, Found: true}, want, &info), tc.want)
			require.Empty(t, info.Encryption)
		})
	}
}

func TestAPlainPartitionIsNotAdoptedWhereStateIsEncrypted(t *testing.T) {
	d, _ := plainState(t)
	o := options(t)
	o.Node, o.Lock = "edge-02", &unlock.Options{Want: &spec.State{Encrypt: spec.EncryptTPM}}
	sum := checksum(t, d)
	require.ErrorContains(t, Adopt(o, d, want.String()), "is not encrypted, and the configuration asks for encrypted state: it would be refused at the next boot; nothing was changed")
	require.Equal(t, sum, checksum(t, d))
}

func TestAnOldHeaderBehindAFileSystemIsNone(t *testing.T) {
	path := t.TempDir() + "/volume"
	require.NoError(t, os.WriteFile(path, make([]byte, 20<<20), 0o600))
	encrypt(t, path, 0)
	_, err := encryption(path)
	require.NoError(t, err)
	tool(t, "mkfs.ext4", "-q", "-F", path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	old, err := os.ReadFile(path + ".luks")
	require.NoError(t, err)
	_, err = f.WriteAt(old[16<<10:32<<10], 16<<10) // The second copy, as if mkfs had left it.
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = encryption(path)
	require.ErrorIs(t, err, luks.ErrNone)
}

func TestResetOfTheBootDiskDeletesItsStateKeySlotsFirst(t *testing.T) {
	d, o := bootImage(t, 1<<30, "BOOT"), options(t)
	o.BootDisk = d.Name
	before := readTable(t, d)
	require.ErrorContains(t, Reset(o, d, false), "has no state partition; nothing was changed")
	addState(t, d, want.String(), "")
	p, _ := readTable(t, d).ByGUID(want)
	encrypt(t, d.Path(), p.Start)
	nodeOf(t, d, p)
	volume := func() error {
		f, err := os.Open(d.Path())
		require.NoError(t, err)
		defer f.Close()
		_, err = luks.Read(io.NewSectionReader(f, p.Start, p.Size))
		return err
	}
	require.NoError(t, volume())
	require.ErrorContains(t, Adopt(o, d, want.String()), "is encrypted, and belongs to the node whose keys open it; nothing was changed")
	require.NoError(t, volume())

	require.NoError(t, Reset(o, d, false))
	require.ErrorIs(t, volume(), luks.ErrNone)
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	slots := make([]byte, 16<<20)
	_, err = f.ReadAt(slots, p.Start)
	require.NoError(t, err)
	require.True(t, bytes.Equal(make([]byte, len(slots)), slots))
	require.Contains(t, tool(t, "sgdisk", "-v", d.Path()), "No problems found")
	require.Equal(t, before.Partitions, readTable(t, d).Partitions, "the system is as it was")
	require.False(t, step(t, request(&d), options(t)).Found, "and the next boot makes new state")
}

func TestResetOfADiskDestroysItsVolumes(t *testing.T) {
	d, o := imageDisk(t, 600<<20, "DATA"), options(t)
	sfdisk(t, d, "label: gpt\nstart=2048, type=%s, uuid=%s\n", typeVar, foreign)
	encrypt(t, d.Path(), 1<<20)
	o.Named = &spec.DiskSelector{Serial: "DATA"}
	o.List = func() ([]disk.Disk, error) { return []disk.Disk{d}, nil }
	require.NoError(t, Reset(o, d, false))
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	_, err = luks.Read(io.NewSectionReader(f, 1<<20, 500<<20))
	require.ErrorIs(t, err, luks.ErrNone)
	r := request(nil, d)
	r.Named = o.Named
	require.True(t, step(t, r, o).FromScratch)
}
