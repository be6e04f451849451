package nocloud

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/blockdev"
	"spore/storage/fat"
	"spore/storage/iso9660"
)

// MaxFile bounds a file of a volume, in bytes.
const MaxFile = 1 << 20

// maxDevices bounds the devices that are looked at. One stick has up to 255 partitions, which may not hide the volume
// behind them.
const maxDevices = 1024

// maxVolumes bounds the volumes of which files are read: one stick may have a hundred partitions, whose files take the
// memory of a small machine, or minutes to parse.
const maxVolumes = 8

// labels are those by which a volume is known.
var labels = []string{"CIDATA", "cidata"}

// Source is where volumes are looked for.
type Source struct {
	// Sys is the content of /sys.
	Sys fs.FS
	// Dev is the directory with the nodes of devices, usually /dev.
	Dev string
	// Removable leaves out all but discs, what is behind USB, and memory cards: a built-in disk that answers late or never
	// holds nobody up.
	Removable bool
}

// Volume is a volume with one of the labels, and what was read of it.
type Volume struct {
	// Device is the kernel's name of the device, such as sr0 or vdb1; Kind is iso9660 or vfat.
	Device, Kind string
	// Files holds the files that were asked for and that are there.
	Files map[string][]byte
	// Err is why the volume, or a file that is there, cannot be read; nothing of the volume is taken then.
	Err error
}

// String names the volume for people.
func (v Volume) String() string { return fmt.Sprintf("the volume /dev/%s (%s)", v.Device, v.Kind) }

// filesystem is what files are read from.
type filesystem interface {
	// ReadFile reads a file of the root directory. The error is fs.ErrNotExist where there is none.
	ReadFile(name string, limit int64) ([]byte, error)
}

// Volumes reads files of these names from every volume with the label CIDATA or cidata: on whole disks, their
// partitions, and discs. Devices that cannot be read, and drives without a disc, have none. More than maxVolumes are an
// error.
func (s Source) Volumes(names ...string) ([]Volume, error) {
	devices, err := s.devices()
	if err != nil {
		return nil, err
	}
	var out []Volume
	for _, d := range devices {
		v, ok := s.volume(d, names)
		if !ok {
			continue
		}
		if out = append(out, v); len(out) > maxVolumes {
			return nil, fmt.Errorf("there are more than %d volumes with the label CIDATA; leave one in the machine", maxVolumes)
		}
	}
	return out, nil
}

// Hidden tells whether a storage controller has no driver yet, so that a volume may be behind it. Coldplug leaves such
// controllers for later (package coldplug).
func (s Source) Hidden() bool {
	const dir = "bus/pci/devices"
	devices, _ := fs.ReadDir(s.Sys, dir)
	return slices.ContainsFunc(devices, func(d fs.DirEntry) bool {
		if !strings.HasPrefix(blockdev.Text(s.Sys, path.Join(dir, d.Name(), "class")), "0x01") {
			return false
		}
		_, err := fs.Stat(s.Sys, path.Join(dir, d.Name(), "driver"))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// devices are the names of disks, each followed by its partitions.
func (s Source) devices() ([]string, error) {
	disks, err := blockdev.List(s.Sys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // A kernel without block devices.
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range disks {
		if s.Removable && !s.removable(d) {
			continue
		}
		out = append(out, d.Name)
		dir := path.Join("class/block", d.Name)
		entries, _ := fs.ReadDir(s.Sys, dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), d.Name) && blockdev.Text(s.Sys, path.Join(dir, e.Name(), "partition")) != "" {
				out = append(out, e.Name())
			}
		}
	}
	if len(out) > maxDevices {
		return nil, fmt.Errorf("there are %d disks and partitions, more than %d, so no volume was looked for; take some out", len(out), maxDevices)
	}
	return out, nil
}

func (s Source) removable(d blockdev.Disk) bool {
	return d.Optical || strings.Contains(d.SysPath, "/usb") ||
		blockdev.Text(s.Sys, path.Join(d.SysPath, "removable")) == "1" || blockdev.Text(s.Sys, path.Join(d.SysPath, "device/type")) == "SD"
}

// volume reads a device; ok is false where it holds no volume with the label.
func (s Source) volume(device string, names []string) (v Volume, ok bool) {
	f, err := os.Open(filepath.Join(s.Dev, device))
	if err != nil {
		return v, false
	}
	defer f.Close()
	// Only opening a drive lets the kernel know how large its disc is, so sysfs is not asked.
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return v, false
	}
	v = Volume{Device: device, Files: map[string][]byte{}}
	var files filesystem
	if v.Kind, files, v.Err = open(f, size); v.Kind == "" {
		return v, false
	}
	if v.Err != nil {
		return v, true
	}
	for _, name := range names {
		data, err := files.ReadFile(name, MaxFile)
		switch {
		case err == nil:
			v.Files[name] = data
		case !errors.Is(err, fs.ErrNotExist):
			v.Err = errors.Join(v.Err, err)
		}
	}
	return v, true
}

// open opens the filesystem of a volume with one of the labels; kind is empty where there is none. A volume that has the
// label and is damaged is an error: what it said before may not be left out without a word.
func open(r io.ReaderAt, size int64) (kind string, files filesystem, err error) {
	// The files of other discs are not listed: they may be many. One that is under a FAT may be left of what was there.
	label := iso9660.Label(r, size)
	if label == "" || slices.Contains(labels, label) {
		disc, err := iso9660.Open(r, size)
		if err == nil && slices.Contains(labels, disc.Label()) || label != "" {
			return "iso9660", disc, err
		}
	}
	f, err := fat.OpenAny(r, size)
	if err != nil {
		return "", nil, nil
	}
	label, err = f.Label()
	if !slices.Contains(labels, label) {
		return "", nil, nil
	}
	if err != nil {
		return "vfat", nil, err
	}
	entries, err := f.List("")
	return "vfat", fatFiles{f, entries}, err
}

// fatFiles reads files of the root directory of a FAT, which is listed once: it may have 1 MiB.
type fatFiles struct {
	fs      *fat.FS
	entries []fat.Entry
}

// ReadFile implements filesystem.
func (f fatFiles) ReadFile(name string, limit int64) ([]byte, error) {
	e, ok := fat.Find(f.entries, name)
	switch {
	case !ok || e.Dir:
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case e.Size > limit:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, e.Size, limit)
	}
	r, err := f.fs.Open(e)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
