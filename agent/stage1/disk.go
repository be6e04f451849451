package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/stage1/blockdev"
	"spore/agent/stage1/bootdisk"
	"spore/agent/stage1/gpt"
	"spore/agent/stage1/modules"
	"spore/agent/stage1/uevent"
)

// longestSearch bounds the search for the boot disk even when devices come and go all the time.
const longestSearch = 3 * time.Minute

// buses are those whose devices may lead to a disk, for the first look; later ones come by events.
var buses = []string{"pci", "virtio", "platform", "acpi", "usb", "scsi", "mmc", "sdio", "vmbus", "xen", "nvme"}

// diskAliases are the beginnings of modaliases that may lead to a disk.
var diskAliases = []string{"pci:", "virtio:", "platform:", "acpi:", "usb:", "scsi:", "mmc:", "sdio:", "vmbus:", "xen:", "nvme", "of:"}

// eventSource is uevent.Listener but in tests.
type eventSource interface {
	Next(wait time.Duration) (events []uevent.Event, lost bool, err error)
}

// loadModules loads the fixed list beside what the devices ask for.
func (b *boot) loadModules() (string, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return "", err
	}
	dir := "/lib/modules/" + unix.ByteSliceToString(uname.Release[:])
	index, err := modules.ReadIndex(os.DirFS(dir), diskAliases...)
	if err != nil {
		return "", fmt.Errorf("%w; is the initramfs that of another kernel?", err)
	}
	if b.events, err = uevent.Listen(); err != nil {
		return "", err
	}
	b.loader = modules.NewLoader(index, dir, modules.Insert)
	fixed := make(chan error, 1)
	go func() { fixed <- loadFixed(b.loader, b.config.Modules) }()
	b.coldplug()
	err = <-fixed
	b.pump(0)
	if err != nil {
		// Whether the module mattered shows in a moment: mapping or mounting says what it needs.
		b.say(warning, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return fmt.Sprintf("loaded %d modules: %s", len(b.loader.Loaded()), strings.Join(b.loader.Loaded(), " ")), nil
}

// loadFixed loads each; a panic becomes an error, as it would take the machine with it in a goroutine.
func loadFixed(l *modules.Loader, names []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	var errs []error
	for _, name := range names {
		errs = append(errs, l.Load(name))
	}
	return errors.Join(errs...)
}

// coldplug loads what the devices that are there already ask for.
func (b *boot) coldplug() {
	seen := map[string]bool{}
	for _, bus := range buses {
		devices, _ := fs.ReadDir(b.sys, path.Join("bus", bus, "devices"))
		for _, d := range devices {
			modalias := blockdev.Text(b.sys, path.Join("bus", bus, "devices", d.Name(), "modalias"))
			if modalias == "" || seen[modalias] {
				continue
			}
			seen[modalias] = true
			b.loadFor(modalias)
		}
	}
}

func (b *boot) loadFor(modalias string) {
	if err := b.loader.LoadFor(modalias); err != nil {
		b.say(warning, "device %s: %s", modalias, strings.ReplaceAll(err.Error(), "\n", "; "))
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
			b.coldplug()
			return true
		}
		if lost {
			came = true
			b.coldplug()
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
	last, said := start, ""
	for {
		d, err := b.lookAtDisks()
		if err != nil {
			return "", err
		}
		now := sinceBoot()
		if now-last >= d.Quiet || now-start > longestSearch {
			if d.Err != nil {
				return "", d.Err
			}
			missing, err := b.takeDisk(b.seen[d.Disk])
			if err != nil {
				return "", err
			}
			if missing == "" {
				b.info.ChosenBy = d.Why
				return fmt.Sprintf("boot disk %s: %s", b.disk.Disk, d.Why), nil
			}
			if now-last >= bootdisk.QuietForBetter {
				return "", fmt.Errorf("%s has partition %s in its table, but the kernel did not make a device of it", b.seen[d.Disk].Disk, missing)
			}
			d.Quiet, d.WaitFor = bootdisk.QuietForBetter, "the kernel to make partition "+missing
		}
		if d.WaitFor != said {
			said = d.WaitFor
			b.say(notice, "waiting for %s, until no device has come for %.0f s; disks so far: %s", d.WaitFor, d.Quiet.Seconds(), b.diskNames())
		}
		if b.pump(max(d.Quiet-(now-last), 0)) {
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
	for _, d := range disks {
		s := bootdisk.Seen{Disk: d, Verdict: b.firmware.Path.Match(b.sys, d)}
		if s.Table, err = readTable(d); err != nil {
			s.Problem = err.Error()
		}
		b.seen = append(b.seen, s)
	}
	usb, _ := fs.ReadDir(b.sys, "bus/usb/devices")
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

// takeDisk makes s the boot disk and finds the kernel's devices of its partitions; missing names one that is not there.
func (b *boot) takeDisk(s bootdisk.Seen) (missing string, err error) {
	b.disk, b.parts = s, map[gpt.GUID]part{}
	for _, g := range []gpt.GUID{b.wanted.Root, b.wanted.Verity, b.wanted.Cluster} {
		p, ok := s.Table.ByGUID(g)
		if !ok {
			return "", fmt.Errorf("internal error: partition %s is gone", g)
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
