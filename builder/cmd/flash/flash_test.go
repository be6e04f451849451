package flash

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/image"
	"spore/cluster/facts"
	"spore/storage/fat"
	"spore/storage/flash"
	"spore/storage/gpt"
)

const mib = 1 << 20

// someImage is a small disk image.
func someImage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := func(name string) image.Source {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte(name), 10_000), 0o600))
		return image.Source{Path: path}
	}
	name := filepath.Join(dir, "spore.img")
	_, err := image.Write(context.Background(), name, image.Options{
		Root: source("root"), Verity: source("verity"), Cluster: source("cluster"),
		RootHash: strings.Repeat("ab", 16) + strings.Repeat("ba", 16), ClusterHash: strings.Repeat("cd", 32),
		UKI: []byte("kernel"), SystemdBoot: []byte("loader"), Slots: image.Slots{ESP: 64, Root: 1, Verity: 1, Cluster: 1},
	})
	require.NoError(t, err)
	return name
}

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }

// host has a stick, one that is mounted, and a disk that is not removable.
func host() (flash.Host, error) {
	return flash.Host{Udev: fstest.MapFS{}, Mounts: []byte("30 22 8:17 / /media/x rw - vfat /dev/sdx1 rw\n"), Sys: fstest.MapFS{
		"block/sdw/size": file("31250000"), "block/sdw/dev": file("8:0"), "block/sdw/removable": file("1"), "block/sdw/device/model": file("DataTraveler"), "block/sdw/serial": file("KING1"),
		"block/sdx/size": file("31250000"), "block/sdx/dev": file("8:16"), "block/sdx/removable": file("1"), "block/sdx/device/x": file(""), "block/sdx/serial": file("KING2"),
		"block/sdx/sdx1/partition": file("1"), "block/sdx/sdx1/dev": file("8:17"),
		"block/sdy/size": file("2000000"), "block/sdy/dev": file("8:32"), "block/sdy/removable": file("0"), "block/sdy/device/x": file(""), "block/sdy/serial": file("INNER"),
	}}, nil
}

// nodes are those of every image.
func nodes(string) ([]facts.Node, *facts.Cluster, error) {
	return []facts.Node{{Name: "edge-01"}, {Name: "edge-02"}}, &facts.Cluster{Name: "plant"}, nil
}

// spore runs the command with an answer to its question.
func spore(answer string, args ...string) (stdout, stderr string, err error) {
	cmd := command(outside{now: func() time.Time { return time.Unix(1, 0) }, host: host, nodes: nodes, in: strings.NewReader(answer)})
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(context.Background())
	return out.String(), errs.String(), err
}

func diskFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, 80*mib))
	return name
}

func tableOf(t *testing.T, name string) gpt.Table {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	table, err := gpt.Read(f, info.Size(), 512)
	require.NoError(t, err)
	return table
}

func TestWithoutADeviceTheRemovableDisksAreListed(t *testing.T) {
	out, _, err := spore("", "spore.img")
	require.NoError(t, err)
	require.Contains(t, out, "/dev/sdw")
	require.Contains(t, out, "16.0 GB  DataTraveler")
	require.Contains(t, out, "KING1")
	require.Contains(t, out, "/dev/sdx1 is mounted on /media/x")
	require.NotContains(t, out, "INNER")
	require.Contains(t, out, "1 that are not removable are taken by --serial alone")

	out, _, err = spore("", "spore.img", "--json")
	require.NoError(t, err)
	var rows []row
	require.NoError(t, json.Unmarshal([]byte(out), &rows))
	require.Len(t, rows, 2)
	require.Equal(t, "KING1", rows[0].Serial)
	require.NotEmpty(t, rows[1].Refused)
}

func TestAFileIsWrittenOnceItsOwnerAgrees(t *testing.T) {
	img, disk := someImage(t), diskFile(t)
	before, err := os.ReadFile(disk)
	require.NoError(t, err)
	for _, answer := range []string{"", "\n", "n\n", "yellow\n"} {
		_, said, err := spore(answer, img, disk)
		require.ErrorContains(t, err, "nothing was written")
		require.Contains(t, said, "[y/N]")
		require.Contains(t, said, "holds nothing")
	}
	after, err := os.ReadFile(disk)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))

	out, _, err := spore("y\n", img, disk)
	require.NoError(t, err)
	require.Contains(t, out, "read back and compared")
	require.Len(t, tableOf(t, disk).Partitions, 4)

	out, said, err := spore("", img, disk, "--yes", "--json")
	require.NoError(t, err)
	require.NotContains(t, said, "[y/N]")
	var r result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Zero(t, r.Written)
	require.Equal(t, disk, r.Target)
}

func TestStateIsKeptUnlessItsDiskIsNamed(t *testing.T) {
	img, disk := someImage(t), diskFile(t)
	_, _, err := spore("", img, disk, "--yes")
	require.NoError(t, err)
	table := tableOf(t, disk)
	state := gpt.Partition{Number: 8, Type: gpt.MustParseGUID("4d21b016-b534-45c2-a9fb-5c16e091fd2d"), GUID: gpt.GUID{1}, Start: 70 * mib, Size: 4 * mib, Name: "spore-state"}
	table.Partitions = append(table.Partitions, state)
	e, err := table.Encode(80*mib, 512)
	require.NoError(t, err)
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(e.Primary, 512)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("other"), mib+300_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	out, said, err := spore("", img, disk, "--yes")
	require.NoError(t, err)
	require.Contains(t, said, "a system of Spore, and state of 4 MiB")
	require.Contains(t, out, "kept the state partition "+state.GUID.String())
	got, ok := tableOf(t, disk).ByGUID(state.GUID)
	require.True(t, ok)
	require.Equal(t, state, got)

	for _, args := range [][]string{{"--erase-state", "KING1"}, {"--erase-state", "KING1", "--keep-state=false"}} {
		_, _, err = spore("", append([]string{img, disk, "--yes"}, args...)...)
		require.ErrorContains(t, err, `has the serial number disk.img; nothing was written`)
	}
	require.Len(t, tableOf(t, disk).Partitions, 5)
	_, _, err = spore("", img, disk, "--yes", "--erase-state", "disk.img")
	require.NoError(t, err)
	require.Len(t, tableOf(t, disk).Partitions, 4)
}

func TestWhatIsRefused(t *testing.T) {
	img, disk := someImage(t), diskFile(t)
	small := filepath.Join(t.TempDir(), "small.img")
	require.NoError(t, os.WriteFile(small, make([]byte, mib), 0o600))
	for name, tc := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"the image itself":                     {[]string{img, img, "--yes"}, "is the image itself", false},
		"a file that is not an image":          {[]string{disk, img, "--yes"}, "no partition table", false},
		"a file that is too small":             {[]string{img, small, "--yes"}, "use a larger one; nothing was written", false},
		"a file that is not there":             {[]string{img, filepath.Join(t.TempDir(), "x"), "--yes"}, "truncate -s 8G", false},
		"a serial number that no disk has":     {[]string{img, "--serial", "NONE", "--yes"}, `no disk has the serial "NONE"; there are`, false},
		"a mounted stick, named by its serial": {[]string{img, "--serial", "KING2", "--yes"}, "/dev/sdx1 is mounted on /media/x: unmount it", false},
		"a file, with another disk's serial":   {[]string{img, disk, "--serial", "KING1"}, "is not the disk with the serial number KING1", false},
		"state given up without a name":        {[]string{img, disk, "--keep-state=false"}, "--erase-state SERIAL", true},
		"a bundle for no node":                 {[]string{img, disk, "--bundle", "x"}, "go with --node", true},
		"a node for no disk":                   {[]string{img, "--node", "a"}, "name the device", true},
		"no image":                             {nil, "accepts between 1 and 2", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := spore("", tc.args...)
			require.ErrorContains(t, err, tc.want)
			want := exit.Failed
			if tc.usage {
				want = exit.Misuse
			}
			require.Equal(t, want, exit.Code(err))
		})
	}
}

// answerFile writes one.
func answerFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "edge-01.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestAnAnswerFileIsPutBesideTheChoiceOfItsNode(t *testing.T) {
	img, disk, bundle := someImage(t), diskFile(t), answerFile(t, "sealed")
	const text = "# for the hall\nnode: edge-01\ndisk: {serial: S5H9NX0R}\nstate: erase\n"
	out, _, err := spore("", img, disk, "--yes", "--answers", answerFile(t, text), "--bundle", bundle)
	require.NoError(t, err)
	require.Contains(t, out, "the machine that boots from it becomes edge-01\n")
	require.Contains(t, out, "it installs itself on the disk S5H9NX0R (state: erase), and then: restart\n")
	require.Contains(t, out, "a machine with Secure Boot on refuses it")
	esp := tableOf(t, disk).Partitions[0]
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	fsys, err := fat.Open(io.NewSectionReader(f, esp.Start, esp.Size), esp.Size)
	require.NoError(t, err)
	entries, err := fsys.List("/spore")
	require.NoError(t, err)
	for name, want := range map[string]string{"node": "edge-01", "bundle": "sealed", "answers": text} {
		e, ok := fat.Find(entries, name)
		require.True(t, ok, name)
		r, err := fsys.Open(e)
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	out, _, err = spore("", img, disk, "--yes", "--json", "--answers", answerFile(t, text), "--bundle", bundle)
	require.NoError(t, err)
	var r result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "erase", r.Installs.State)
}

func TestAnAnswerFileThatDoesNotFitIsNotWritten(t *testing.T) {
	img := someImage(t)
	for name, tc := range map[string]struct {
		text string
		more []string
		want string
	}{
		"another cluster's":  {"node: mail\ndisk: {serial: S5H9NX0R}\n", nil, `cluster.yaml has no node "mail"; its nodes are edge-01, edge-02`},
		"one with two disks": {"node: edge-01\ndisk: {serial: A1, wwn: \"0x5000c500a1b2c3d4\"}\n", nil, ":2:7: error: a selector has exactly one of"},
		"another node's":     {"node: edge-01\ndisk: {serial: S5H9NX0R}\n", []string{"--node", "edge-02"}, "--node is edge-02, and "},
		"this very stick's":  {"node: edge-01\ndisk: {serial: disk.img}\n", nil, "itself: name the disk of the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := diskFile(t)
			args := append([]string{img, disk, "--yes", "--bundle", img, "--answers", answerFile(t, tc.text)}, tc.more...)
			_, said, err := spore("", args...)
			require.Error(t, err)
			require.Contains(t, said+err.Error(), tc.want)
			data, err := os.ReadFile(disk)
			require.NoError(t, err)
			require.Equal(t, make([]byte, 4096), data[:4096])
		})
	}
	_, _, err := spore("", img, "--answers", "x.yaml")
	require.ErrorContains(t, err, "name the device")
	_, _, err = spore("", img, diskFile(t), "--answers", "none.yaml")
	require.ErrorContains(t, err, "read the answer file: open none.yaml")
}
