package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/bootdisk"
	"spore/agent/stage1/modules"
	"spore/agent/stage1/uevent"
	"spore/storage/gpt"
)

// longestSearch bounds the search for the boot disk even when devices come and go all the time.
const longestSearch = 3 * time.Minute

// quietForKernel is how long the kernel is left alone to read a table itself.
const quietForKernel = time.Second

// buses are those whose devices may lead to a disk, for the first look; later ones come by events.
var buses = []string{"pci", "virtio", "platform", "acpi", "usb", "scsi", "mmc", "sdio", "vmbus", "xen", "nvme"}

// diskAliases are the beginnings of modaliases that may lead to a disk.
var diskAliases = []string{"pci:", "virtio:", "platform:", "acpi:", "usb:", "scsi:", "mmc:", "sdio:", "vmbus:", "xen:", "nvme", "of:"}

// eventSource is uevent.Listener but in tests.
type eventSource interface {
	Next(wait time.Duration) (events []uevent.Event, lost bool, err error)
}

// readModules reads what modules there are.
func (b *boot) readModules() (string, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return "", err
	}
	dir := "/lib/modules/" + unix.ByteSliceToString(uname.Release[:])
	index, err := modules.ReadIndex(os.DirFS(dir), diskAliases...)
	if err != nil {
		return "", fmt.Errorf("%w; is the initramfs that of another kernel?", err)
	}
	b.loader = modules.NewLoader(index, dir, modules.Insert)
	b.events, err = uevent.Listen()
	return "", err
}

// loadModules loads the fixed list and, beside it, what the devices ask for that are there already: those on the way to
// the disk of the firmware's boot option, or, when it names no hardware, all. So a controller with empty ports need not
// be waited for when the disk is elsewhere: udev loads the drivers of all others, beside the start of the main system.
func (b *boot) loadModules() (string, error) {
	fixed := make(chan error, 1)
	go func() { fixed <- b.loadFixed() }()
	if b.firmware.Path.Usable() {
		b.coldplug(func(device string) bool { return b.firmware.Path.OnWay(b.sys, device) })
	} else {
		b.coldplugAll()
	}
	b.pump(0)
	if err := <-fixed; err != nil {
		// Whether the module matters shows in a moment: mapping or mounting says what it needs.
		b.say(warning, "%s", oneLine(err))
	}
	return "loaded " + strings.Join(b.loader.Loaded(), " "), nil
}

// loadFixed loads the modules of the configuration, whatever becomes of one of them. A panic becomes an error: in a
// goroutine it would take the machine with it.
func (b *boot) loadFixed() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: loading modules: %v", p)
		}
	}()
	var errs []error
	for _, name := range b.config.Modules {
		errs = append(errs, b.loader.Load(name))
	}
	return errors.Join(errs...)
}

// oneLine is the text of joined errors in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// coldplugAll loads what all devices ask for, once.
func (b *boot) coldplugAll() {
	if !b.pluggedAll {
		b.pluggedAll = true
		b.coldplug(func(string) bool { return true })
	}
}

// coldplug loads what those devices ask for that are there already and wanted by their path below /sys.
func (b *boot) coldplug(wanted func(device string) bool) {
	for _, bus := range buses {
		dir := path.Join("bus", bus, "devices")
		devices, _ := fs.ReadDir(b.sys, dir)
		for _, d := range devices {
			link := path.Join(dir, d.Name())
			target, err := fs.ReadLink(b.sys, link)
			if err != nil || !wanted(path.Join(dir, target)) {
				continue
			}
			if modalias := blockdev.Text(b.sys, link+"/modalias"); modalias != "" {
				b.loadFor(modalias)
			}
		}
	}
}

func (b *boot) loadFor(modalias string) {
	b.guard.Alive()
	if err := b.loader.LoadFor(modalias); err != nil {
		b.say(warning, "device %s: %s", modalias, oneLine(err))
	}
}

// pump handles the events that are there, waiting up to wait for the first, until there are no more, and says whether a
// device came.
func (b *boot) pump(wait time.Duration) bool {
	came := false
	for {
		events, lost, err := b.events.Next(wait)
		if err != nil {
			b.say(warning, "%v", err)
			time.Sleep(min(wait, time.Second)) // without events this is all that is left
			b.pluggedAll = false
			b.coldplugAll()
			return true
		}
		if lost {
			came = true
			b.pluggedAll = false
			b.coldplugAll()
		}
		for _, e := range events {
			if e.Action != "add" {
				continue
			}
			if e.Modalias != "" {
				b.loadFor(e.Modalias)
			}
			if e.Subsystem == "block" || e.Subsystem == "usb" || e.Subsystem == "scsi" || e.Subsystem == "pci" || e.Subsystem == "mmc" {
				came = true
			}
		}
		if len(events) == 0 && !lost {
			return came
		}
		wait = 0
	}
}

// findDisk looks at the disks each time a device comes, until it is clear which one was booted.
func (b *boot) findDisk() (string, error) {
	start := sinceBoot()
	last, said, told := start, "", false
	for {
		b.guard.Alive()
		d, err := b.lookAtDisks()
		if err != nil {
			return "", err
		}
		now := sinceBoot()
		if now-last >= d.Quiet || now-start > longestSearch {
			if d.Err != nil {
				return "", d.Err
			}
			disk := b.seen[d.Disk]
			missing, err := b.takeDisk(disk)
			if err != nil {
				return "", err
			}
			if missing == "" {
				b.info.ChosenBy = d.Why
				return fmt.Sprintf("boot disk %s: %s", disk.Disk, d.Why), nil
			}
			if now-last >= bootdisk.QuietForBetter {
				return "", fmt.Errorf("%s has partition %s in its table, but the kernel did not make a device of it", disk.Disk, missing)
			}
			d.Quiet, d.WaitFor = bootdisk.QuietForBetter, "the kernel to make partition "+missing
			if !told && now-last < quietForKernel {
				d.Quiet = quietForKernel
			} else if !told {
				told = true
				b.addPartitions(disk)
			}
		}
		if !b.pluggedAll {
			b.coldplugAll()
			b.pump(0)
			last = sinceBoot()
			continue
		}
		if d.WaitFor != said {
			said = d.WaitFor
			b.say(notice, "waiting for %s, until no device has come for %.0f s; disks so far: %s", d.WaitFor, d.Quiet.Seconds(), b.diskNames())
		}
		if b.pump(b.patience(max(d.Quiet-(now-last), 0))) {
			last = sinceBoot()
		}
	}
}

// lookAtDisks reads the tables of all disks.
func (b *boot) lookAtDisks() (bootdisk.Decision, error) {
	disks, err := blockdev.List(b.sys)
	if err != nil {
		return bootdisk.Decision{}, err
	}
	b.seen, b.scanned = b.seen[:0], true
	var drives []blockdev.Disk
	for _, d := range disks {
		b.guard.Alive()
		if d.Optical {
			drives = append(drives, d)
			continue
		}
		s := bootdisk.Seen{Disk: d, Verdict: b.firmware.Path.Match(b.sys, d)}
		if s.Table, err = readTable(d); err != nil {
			s.Problem = err.Error()
		}
		b.seen = append(b.seen, s)
	}
	usb, _ := fs.ReadDir(b.sys, "bus/usb/devices")
	d := bootdisk.Decide(b.seen, b.wanted, b.firmware, len(usb) > 0)
	if len(drives) == 0 || d.Certain() {
		return d, nil
	}
	b.lookAtDiscs(drives)
	return bootdisk.Decide(b.seen, b.wanted, b.firmware, len(usb) > 0), nil
}

func readTable(d blockdev.Disk) (gpt.Table, error) {
	if d.Size == 0 {
		return gpt.Table{}, errors.New("no medium")
	}
	f, err := os.Open("/dev/" + d.Name)
	if err != nil {
		return gpt.Table{}, err
	}
	defer f.Close()
	return gpt.Read(f, d.Size, d.SectorSize)
}

// addPartitions tells the kernel of partitions, as partx(8) does, where it found none itself: it does not use the
// backup of a damaged table. Those that it has already stay. Nothing is written.
func (b *boot) addPartitions(s bootdisk.Seen) {
	b.say(warning, "adding the partitions of /dev/%s by its table (backup: %t)", s.Disk.Name, s.Table.Backup)
	f, err := os.Open("/dev/" + s.Disk.Name)
	if err != nil {
		b.say(warning, "%v", err)
		return
	}
	defer f.Close()
	for _, p := range s.Table.Partitions {
		data := unix.BlkpgPartition{Start: p.Start, Length: p.Size, Pno: int32(p.Number)}
		arg := unix.BlkpgIoctlArg{Op: unix.BLKPG_ADD_PARTITION, Datalen: int32(unsafe.Sizeof(data)), Data: (*byte)(unsafe.Pointer(&data))}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg)))
		if errno != 0 && errno != unix.EBUSY {
			b.say(warning, "adding partition %d of /dev/%s: %v", p.Number, s.Disk.Name, errno)
		}
	}
}

// takeDisk makes s the boot disk and finds the kernel's devices of its partitions; missing names one that is not there.
func (b *boot) takeDisk(s bootdisk.Seen) (missing string, err error) {
	b.disk, b.parts = s, map[gpt.GUID]part{}
	for _, g := range []gpt.GUID{b.wanted.Root, b.wanted.Verity, b.wanted.Cluster} {
		p, ok := s.Table.ByGUID(g)
		if !ok {
			return "", fmt.Errorf("internal error: partition %s is gone", g)
		}
		if s.Disk.Optical {
			if b.parts[g], err = b.mapOnDisc(s.Disk, p); err != nil {
				return "", err
			}
			continue
		}
		name, dev, ok := blockdev.Partition(b.sys, s.Disk, p.Number)
		if !ok {
			return fmt.Sprintf("%d (%s)", p.Number, g), nil
		}
		b.parts[g] = part{Partition: p, Node: "/dev/" + name, Dev: dev}
	}
	return "", nil
}

func (b *boot) diskNames() string {
	if len(b.seen) == 0 {
		return "none"
	}
	var names []string
	for _, s := range b.seen {
		names = append(names, s.Disk.Name)
	}
	return strings.Join(names, " ")
}
