// Command stage1 is the /init of the initramfs: it finds the disk that the machine was booted from, or downloads the
// image where the kernel itself came from the network, maps the verified root and cluster part, makes /etc writable in
// memory and hands over to systemd. It never writes to a disk, and offers no shell. Where it cannot start a system any
// more that had stayed, it has the boot loader start the one before (package spare).
//
// What it expects in the initramfs: /etc/spore/stage1.json (type config), and /lib/modules/VERSION with uncompressed
// modules and depmod's text indexes. What it leaves to the main system: see package bootinfo.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/watchdog"
)

// step is one line of the recipe. do returns what to print when it is done; an empty text prints nothing.
type step struct {
	// name completes "cannot …".
	name string
	do   func() (string, error)
}

func main() {
	b := &boot{start: sinceBoot()}
	b.guard = watchdog.NewGuard(sinceBoot, func(s string) { b.say(warning, "%s", s) })
	defer func() {
		if p := recover(); p != nil {
			b.giveUp(fmt.Errorf("internal error: %v\n%s", p, debug.Stack()))
		}
	}()
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "stage1 is the init of Spore's initramfs and does nothing elsewhere")
		os.Exit(2)
	}
	// What is allocated here is a few megabytes once; a garbage collection only costs time.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(64 << 20)
	b.giveUp(b.run([]step{
		{"mount /proc, /sys, /dev and /run", b.mountAPI},
		{"read the configuration of stage1", b.readConfig},
		{"read the kernel command line", b.readCommandLine},
		{"look for a hardware watchdog", b.startWatchdog},
		{"set the clock", b.raiseClock},
		{"read the list of kernel modules", b.readModules},
		{"read the EFI variables", b.readFirmware},
		{"accept the kernel command line", b.refuseWords},
		{"load kernel modules", b.loadModules},
		{"find the image", b.findImage},
		{"count this start", b.countStart},
		{"map the root", b.mapRoot},
		{"map the cluster part", b.mapCluster},
		{"mount the root", b.mountRoot},
		{"mount the cluster part", b.mountCluster},
		{"lay the overlay over /etc", b.overlayEtc},
		{"mount /tmp", b.mountTmp},
		{"write the machine-id", b.writeMachineID},
		{"read what the ESP says about this machine", b.readESP},
		{"hand over the credentials of firmware and hypervisor", b.handOverCredentials},
		{"hand over the signature of PCR 11", b.handOverPCRSignature},
		{"write the boot info", b.writeBootInfo},
		{"hand over the hardware watchdog", b.handOverWatchdog},
		{"switch to the root", b.switchRoot},
	}))
}

// run does the steps in order; it only returns with an error.
func (b *boot) run(steps []step) error {
	for _, s := range steps {
		b.guard.Alive()
		text, err := s.do()
		if err != nil {
			return fmt.Errorf("cannot %s: %w", s.name, err)
		}
		if text != "" {
			b.say(notice, "%s", text)
		}
	}
	return fmt.Errorf("internal error: init of the root returned")
}

// sinceBoot is the time since the kernel started.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
