package flash

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// Target is a disk or file that could be written, and what speaks against it.
type Target struct {
	disk.Disk
	// File is the path of a file; empty for a disk.
	File string
	// Model is as the hardware says.
	Model string
	// Removable says that the medium or the whole disk is made to be taken out: USB, memory cards.
	Removable bool
	// Part is the name of the partition that was named instead of a disk.
	Part string
	// Uses says what uses the disk or its partitions: mounts, swap, other devices.
	Uses []string
	// System says that the running system needs it.
	System bool
	// Named says that the user named it by something that only one disk has, not by a name that changes between boots.
	Named bool
}

// Where is the target for messages.
func (t Target) Where() string {
	if t.File != "" {
		return t.File
	}
	return fmt.Sprintf("%s (%s)", t.Path(), strings.Join(slices.DeleteFunc([]string{mib(t.Size), t.Model, "serial " + t.Serial()}, func(s string) bool { return s == "" }), ", "))
}

// Open opens it for writing.
func (t Target) Open() (*File, error) {
	if t.File != "" {
		return Open(t.File)
	}
	return Open(t.Path())
}

// refusals is what speaks against writing a target. It holds for sticks and for disks that a system is installed on.
var refusals = []struct {
	when func(Target) bool
	say  func(Target) string
}{
	{func(t Target) bool { return t.Part != "" }, func(t Target) string {
		return fmt.Sprintf("it is partition %s; name the whole disk, %s", t.Part, t.Path())
	}},
	{func(t Target) bool { return t.System }, func(t Target) string {
		return "the running system is on it (" + strings.Join(t.Uses, "; ") + "): boot another one to write this disk"
	}},
	{func(t Target) bool { return len(t.Uses) > 0 }, func(t Target) string {
		return strings.Join(t.Uses, "; ") + ": unmount it, or stop what uses it, and try again"
	}},
	{func(t Target) bool { return t.ReadOnly }, func(Target) string {
		return "it is read-only: is there a switch on its side?"
	}},
	{func(t Target) bool { return t.File == "" && !t.Removable && !t.Named }, func(t Target) string {
		return fmt.Sprintf("it is not removable, so it may be the wrong one: name it by its serial number (%s)", t.Serial())
	}},
}

// Refuse says why a target is not written; nil when nothing speaks against it.
func Refuse(t Target) error {
	for _, r := range refusals {
		if r.when(t) {
			return fmt.Errorf("%s is refused: %s; nothing was written", t.Where(), r.say(t))
		}
	}
	return nil
}

// Host is where disks are looked for.
type Host struct {
	// Sys is the content of /sys, Udev that of /run/udev.
	Sys, Udev fs.FS
	// Mounts and Swaps are the content of /proc/self/mountinfo and /proc/swaps.
	Mounts, Swaps []byte
}

// ThisHost is the running system below a root directory, usually "/".
func ThisHost(root string) (Host, error) {
	h := Host{Sys: os.DirFS(path.Join(root, "sys")), Udev: os.DirFS(path.Join(root, "run/udev"))}
	var err error
	if h.Mounts, err = os.ReadFile(path.Join(root, "proc/self/mountinfo")); err != nil {
		return h, fmt.Errorf("ask what is mounted: %w", err)
	}
	if h.Swaps, err = os.ReadFile(path.Join(root, "proc/swaps")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("ask what is used as swap: %w", err)
	}
	return h, nil
}

// Disks lists all disks of the host as targets.
func (h Host) Disks() ([]Target, error) {
	list, err := disk.List(h.Sys, h.Udev)
	if err != nil {
		return nil, err
	}
	var out []Target
	for _, d := range list {
		out = append(out, h.examine(d))
	}
	return out, nil
}

// systemMounts are where the running system is.
var systemMounts = []string{"/", "/usr", "/boot", "/boot/efi", "/efi", "/var", "/home", "/etc"}

func (h Host) examine(d disk.Disk) Target {
	dir := "block/" + d.Name
	t := Target{Disk: d, Model: strings.TrimSpace(disk.Text(h.Sys, dir+"/device/vendor") + " " + disk.Text(h.Sys, dir+"/device/model")), Removable: h.removable(d.Name)}
	if strings.HasPrefix(t.Model, "0x") { // A virtio disk has a number there, and no model.
		t.Model = ""
	}
	names := []string{dir}
	entries, _ := fs.ReadDir(h.Sys, dir)
	for _, e := range entries {
		if _, err := fs.Stat(h.Sys, dir+"/"+e.Name()+"/partition"); err == nil {
			names = append(names, dir+"/"+e.Name())
		}
	}
	for _, n := range names {
		h.uses(&t, n, 0)
	}
	return t
}

// maxHolders is how deep devices lie on devices: partition, RAID, encryption, volume.
const maxHolders = 6

// uses adds what uses a block device, and what uses that: a volume of LVM is mounted, and not the disk.
func (h Host) uses(t *Target, dir string, depth int) {
	node := "/dev/" + path.Base(dir)
	for _, at := range mountsOf(h.Mounts, disk.Text(h.Sys, dir+"/dev"), node) {
		t.Uses = append(t.Uses, node+" is mounted on "+at)
		t.System = t.System || slices.Contains(systemMounts, at)
	}
	for line := range bytes.Lines(h.Swaps) {
		if f := bytes.Fields(line); len(f) > 0 && string(f[0]) == node {
			t.Uses = append(t.Uses, node+" is used as swap")
		}
	}
	holders, _ := fs.ReadDir(h.Sys, dir+"/holders")
	for _, e := range holders {
		t.Uses = append(t.Uses, fmt.Sprintf("%s is used by /dev/%s", node, e.Name()))
		if depth < maxHolders {
			h.uses(t, dir+"/holders/"+e.Name(), depth+1)
		}
	}
}

// removable tells of the medium, of what is behind USB, and of memory cards, whose readers do not say so.
func (h Host) removable(name string) bool {
	dir := "block/" + name
	if disk.Text(h.Sys, dir+"/removable") == "1" || disk.Text(h.Sys, dir+"/device/type") == "SD" {
		return true
	}
	link, err := fs.ReadLink(h.Sys, dir)
	return err == nil && strings.Contains(link, "/usb")
}

// mountsOf lists where a device is mounted (proc(5), mountinfo), known by its numbers or, as with Btrfs, by its name alone.
func mountsOf(mounts []byte, dev, node string) []string {
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(mounts))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 5 {
			continue
		}
		source := ""
		if i := slices.Index(f, "-"); i > 0 && len(f) > i+2 {
			source = f[i+2]
		}
		if dev != "" && f[2] == dev || source == node {
			out = append(out, unescape.Replace(f[4]))
		}
	}
	return out
}

// unescape undoes the kernel's escapes of mount points.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Find returns the target that a path names: a file, a disk, a link such as those of /dev/disk/by-id.
func (h Host) Find(name string) (Target, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(name, "/dev/"):
		return Target{}, fmt.Errorf("%s does not exist: to write a file, make one of the size that the disk shall have (truncate -s 8G %s)", name, name)
	case err != nil:
		return Target{}, err
	case info.Mode().IsRegular():
		return Target{File: name, Disk: disk.Disk{Name: path.Base(name), Size: info.Size(), SectorSize: 512, Serials: []string{path.Base(name)}}}, nil
	case info.Mode()&os.ModeDevice == 0 || info.Mode()&os.ModeCharDevice != 0:
		return Target{}, fmt.Errorf("%s is neither a disk nor a file", name)
	}
	real, err := resolve(name)
	if err != nil {
		return Target{}, err
	}
	targets, err := h.Disks()
	if err != nil {
		return Target{}, err
	}
	base := path.Base(real)
	for _, t := range targets {
		if t.Name == base {
			t.Named = strings.HasPrefix(path.Clean(name), "/dev/disk/by-id/")
			return t, nil
		}
		if _, err := fs.Stat(h.Sys, "block/"+t.Name+"/"+base+"/partition"); err == nil {
			t.Part = real
			return t, nil
		}
	}
	return Target{}, fmt.Errorf("%s is not a disk: it has no hardware behind it", name)
}

func resolve(name string) (string, error) {
	for range 8 {
		link, err := os.Readlink(name)
		if err != nil {
			return name, nil
		}
		if !path.IsAbs(link) {
			link = path.Join(path.Dir(name), link)
		}
		name = link
	}
	return "", fmt.Errorf("%s: too many links", name)
}

// Content says in words what is on a disk; "nothing" when it is proved empty.
func Content(r io.ReaderAt, size int64, sectorSize int) string {
	t, err := gpt.Read(r, size, sectorSize)
	if err == nil {
		return describe(t)
	}
	if !errors.Is(err, gpt.ErrNone) {
		return "a damaged partition table"
	}
	what, err := blank.Content(r, size)
	switch {
	case err != nil:
		return "it cannot be read: " + err.Error()
	case what == "":
		return "nothing"
	}
	return what
}

func describe(t gpt.Table) string {
	image, state := 0, ""
	var names []string
	for _, p := range t.Partitions {
		switch p.Type {
		case typeRoot, typeVerity, typeCluster:
			image++
		case typeState:
			state = fmt.Sprintf("state of %s", mib(p.Size))
		}
		name := p.Name
		if name == "" {
			name = fmt.Sprint("partition ", p.Number)
		}
		names = append(names, fmt.Sprintf("%q of %s", name, mib(p.Size)))
	}
	switch {
	case len(names) == 0:
		return "an empty partition table"
	case image > 0 && state != "":
		return "a system of Spore, and " + state
	case image > 0:
		return "a system of Spore"
	case state != "" && len(names) == 1:
		return state + " alone: an earlier run was cut off"
	}
	return strings.Join(names, ", ")
}
