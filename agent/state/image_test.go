package state

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/storage/disk"
	"spore/storage/gpt"
)

const (
	clusterID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"
	foreign   = "11111111-2222-8333-8444-555555555555"
)

var want = PartUUID(clusterID, "edge-01")

// tool runs a program that `make deps` installs.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%s is not installed: run make deps", name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// imageDisk makes a sparse file look like a disk: its "kernel name" leads from /dev to the file.
func imageDisk(t *testing.T, size int64, serial string) disk.Disk {
	path := filepath.Join(t.TempDir(), serial+".img")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	return disk.Disk{Name: ".." + path, Size: size, SectorSize: 512, Serials: []string{serial}}
}

// enlarge makes the file behind a disk larger.
func enlarge(t *testing.T, d *disk.Disk, size int64) {
	require.NoError(t, os.Truncate(d.Path(), size))
	d.Size = size
}

// bootImage lays the image's own partitions, small ones, into the first 40 MiB and then makes the disk larger, as when
// an image is written to a medium: the backup table stays where the image ended.
func bootImage(t *testing.T, size int64, serial string) disk.Disk {
	d := imageDisk(t, 40<<20, serial)
	sfdisk(t, d, "label: gpt\nsize=8MiB, type=%s, name=esp\nsize=16MiB, type=%s, name=root-a\nsize=4MiB, type=%s, name=verity-a\nsize=8MiB, type=%s, name=cluster-a\n",
		typeESP, typeRoot, typeVerity, typeCluster)
	enlarge(t, &d, size)
	return d
}

// addState appends a state partition; size may be empty for all that is left.
func addState(t *testing.T, d disk.Disk, guid, size string) {
	tool(t, "sfdisk", "--relocate", "gpt-bak-std", d.Path())
	if size != "" {
		size = "size=" + size + ", "
	}
	sfdisk(t, d, "%stype=%s, uuid=%s\n", size, typeVar, guid, "--append")
}

// sfdisk writes a partition table from a script; arguments after those of the format are options. (sgdisk would sleep
// for a second after each write.)
func sfdisk(t *testing.T, d disk.Disk, script string, args ...any) {
	t.Helper()
	n := strings.Count(script, "%s")
	options := []string{"--quiet", "--no-reread", "--no-tell-kernel"}
	for _, a := range args[n:] {
		options = append(options, a.(string))
	}
	cmd := exec.Command("sfdisk", append(options, d.Path())...)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(script, args[:n]...))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "sfdisk (run make deps when it is missing): %s", out)
}

func readTable(t *testing.T, d disk.Disk) gpt.Table {
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	tb, err := gpt.Read(f, d.Size, d.SectorSize)
	require.NoError(t, err)
	return tb
}

func writeAt(t *testing.T, d disk.Disk, data string, at int64) {
	f, err := os.OpenFile(d.Path(), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(data), at)
	require.NoError(t, err)
}

// checksum covers size and content; holes are not read.
func checksum(t *testing.T, d disk.Disk) [32]byte {
	h := sha256.New()
	block, zeros := make([]byte, 4096), make([]byte, 4096)
	extents(t, d, func(f *os.File, start, end int64) {
		for at := start / 4096 * 4096; at < end; at += 4096 {
			n, err := f.ReadAt(block, at)
			if n < len(block) {
				require.ErrorIs(t, err, io.EOF)
			}
			if !bytes.Equal(block[:n], zeros[:n]) {
				fmt.Fprintln(h, at)
				h.Write(block[:n])
			}
		}
	})
	fmt.Fprintln(h, d.Size)
	return [32]byte(h.Sum(nil))
}

// extents calls fn for the parts of the file that hold data.
func extents(t *testing.T, d disk.Disk, fn func(f *os.File, start, end int64)) {
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	for pos := int64(0); ; {
		start, err := unix.Seek(int(f.Fd()), pos, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return
		}
		require.NoError(t, err)
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		require.NoError(t, err)
		fn(f, start, end)
		pos = end
	}
}

// clone copies a disk.
func clone(t *testing.T, d disk.Disk) disk.Disk {
	c := imageDisk(t, d.Size, d.Serial())
	out, err := os.OpenFile(c.Path(), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer out.Close()
	extents(t, d, func(f *os.File, start, end int64) {
		_, err := io.Copy(io.NewOffsetWriter(out, start), io.NewSectionReader(f, start, end-start))
		require.NoError(t, err)
	})
	return c
}

// zero clears a range.
func zero(t *testing.T, d disk.Disk, start, end int64) {
	f, err := os.OpenFile(d.Path(), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, start, end-start))
}

func options(t *testing.T) Options {
	dir := t.TempDir()
	return Options{
		ClusterID: clusterID, ClusterName: "plant", Node: "edge-01", Definitions: filepath.Join(dir, "repart.d"), Temp: filepath.Join(dir, "tmp"),
		Say: func(string) {},
		Exec: func(ctx context.Context, env []string, name string, args ...string) error {
			if name == "modprobe" {
				return nil // Tests do not load modules into the machine that they run on.
			}
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
			return err
		},
	}
}

func request(boot *disk.Disk, disks ...disk.Disk) Request {
	r := Request{Want: want, Owner: "node edge-01 of cluster plant", Node: "edge-01", Disks: disks, Open: func(d disk.Disk) (Device, error) { return os.Open(d.Path()) }}
	if boot != nil {
		r.BootDisk = boot.Name
		r.Disks = append(r.Disks, *boot)
	}
	return r
}
