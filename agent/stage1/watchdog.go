package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/stage1/modules"
	"spore/agent/watchdog"
)

// watchdogBuses are those whose devices may be, or lead to, a watchdog.
var watchdogBuses = []string{"pci", "platform"}

// bridges are drivers of the mainboard that make a device for its watchdog. They are loaded where nothing else is a
// watchdog: the board's is the weakest of several, some hypervisors show one that resets nothing, and they are three
// quarters of the modules.
var bridges = []string{"lpc_ich", "i2c_i801", "intel_pmc_bxt"}

// watchdogPatience is how long the start waits for the driver of the watchdog when all else is done. systemd looks for
// it again.
const watchdogPatience = 2 * time.Second

// watchdogDrivers are those of the initramfs.
type watchdogDrivers struct {
	match func(modalias string) []string
	load  func(name string) error
}

func newWatchdogDrivers() (watchdogDrivers, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return watchdogDrivers{}, err
	}
	dir := path.Join("/lib/modules", unix.ByteSliceToString(uname.Release[:]), "watchdog")
	index, err := modules.ReadIndex(os.DirFS(dir))
	if err != nil {
		return watchdogDrivers{}, fmt.Errorf("drivers of watchdogs: %w", err)
	}
	return watchdogDrivers{match: index.Match, load: modules.NewLoader(index, dir, modules.Insert).Load}, nil
}

// find loads drivers until there is a watchdog, those of the mainboard's bridges last.
func (d watchdogDrivers) find(sys fs.FS, there func() bool) error {
	err := d.loadFor(sys, false)
	if there() {
		return err
	}
	if bridgeErr := d.loadFor(sys, true); bridgeErr != nil {
		err = errors.Join(err, bridgeErr)
	}
	return errors.Join(err, d.loadFor(sys, false))
}

// loadFor loads what the devices ask for that are there now: drivers of bridges, or all others.
func (d watchdogDrivers) loadFor(sys fs.FS, bridge bool) error {
	var errs []error
	for _, bus := range watchdogBuses {
		dir := path.Join("bus", bus, "devices")
		devices, _ := fs.ReadDir(sys, dir)
		for _, e := range devices {
			modalias := blockdev.Text(sys, path.Join(dir, e.Name(), "modalias"))
			if modalias == "" {
				continue
			}
			for _, name := range d.match(modalias) {
				if slices.Contains(bridges, name) == bridge {
					errs = append(errs, d.load(name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// startWatchdog has the watchdog of the machine opened and fed beside all else. What becomes of it stops no boot.
func (b *boot) startWatchdog() (string, error) {
	timeout := b.args.Watchdog
	if timeout < 0 {
		return "the kernel command line leaves the hardware watchdog alone", nil
	}
	if timeout == 0 {
		timeout = watchdog.Timeout
	}
	b.watched = make(chan struct{})
	go func() {
		defer close(b.watched)
		// A panic in a goroutine would take the machine with it.
		defer func() {
			if p := recover(); p != nil {
				b.say(warning, "internal error: opening the watchdog: %v", p)
			}
		}()
		b.openWatchdog(timeout)
	}()
	return "", nil
}

func (b *boot) openWatchdog(timeout time.Duration) {
	drivers, err := newWatchdogDrivers()
	if err == nil {
		err = drivers.find(b.sys, func() bool {
			_, err := os.Stat(watchdog.Path)
			return err == nil
		})
	}
	if err != nil {
		b.say(warning, "%s", oneLine(err))
	}
	w, err := watchdog.Open(watchdog.Path)
	if errors.Is(err, fs.ErrNotExist) {
		b.say(notice, "this machine has no hardware watchdog that a driver of this initramfs knows: nothing restarts it when it hangs")
		return
	}
	if err != nil {
		b.say(warning, "%v", err)
		return
	}
	if w.HasReset() {
		b.say(warning, "the hardware watchdog has restarted this machine: it hung")
	}
	set, err := b.guard.Feed(w, timeout)
	if err != nil {
		b.say(warning, "%v", err)
		return
	}
	b.say(notice, "hardware watchdog %q: the machine restarts when it hangs for %s", w.Identity, set)
}

// handOverWatchdog leaves the watchdog to systemd, with its timer running.
func (b *boot) handOverWatchdog() (string, error) {
	if b.watched == nil {
		return "", nil
	}
	select {
	case <-b.watched:
	case <-time.After(watchdogPatience):
		return "the driver of a hardware watchdog takes its time; systemd looks for it again", nil
	}
	if err := b.guard.HandOver(); err != nil {
		b.say(warning, "%v", err)
	}
	return "", nil
}
