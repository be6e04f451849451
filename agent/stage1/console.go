package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Levels of kernel messages (syslog(2)).
const (
	failure = 3
	warning = 4
	notice  = 5
)

// maxLine is what fits in one record of /dev/kmsg besides our prefix, in bytes.
const maxLine = 900

// say prints lines to the kernel's log, from where they reach every console and later the journal; to standard error as
// long as there is no /dev.
func (b *boot) say(level int, format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " \n")
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		for len(line) > maxLine {
			b.sayLine(level, line[:maxLine])
			line = line[maxLine:]
		}
		b.sayLine(level, line)
	}
}

func (b *boot) sayLine(level int, line string) {
	text := fmt.Sprintf("<%d>spore stage1: [%7.3f] %s\n", level, sinceBoot().Seconds(), line)
	if b.kmsg != nil {
		if _, err := b.kmsg.WriteString(text); err == nil {
			return
		}
	}
	fmt.Fprint(os.Stderr, text[3:])
}

// Write makes say a writer for the log package, by which u-root's mount tells what it does. It says every step; only
// warnings are kept.
func (b *boot) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "warn") {
		b.say(warning, "%s", p)
	}
	return len(p), nil
}

// rebootAfter is how long a failure stays on the screen.
const rebootAfter = 10 * time.Second

// giveUp says what failed and what was seen, waits, and starts the machine again. It never returns.
func (b *boot) giveUp(err error) {
	b.guard.Alive() // And never again: a machine that cannot restart itself is left to its watchdog.
	b.say(failure, "FAILED: %v", err)
	b.say(failure, "command line: %s", b.commandLine)
	if b.loader != nil {
		b.say(failure, "modules loaded: %s", strings.Join(b.loader.Loaded(), " "))
	}
	if b.scanned && len(b.seen) == 0 {
		b.say(failure, "disks seen: none; is the driver of the disk controller in the initramfs?")
	}
	for _, s := range b.seen {
		b.say(failure, "disk seen: %s", s.Disk)
		if s.Problem != "" {
			b.say(failure, "  %s", s.Problem)
		}
		for _, p := range s.Table.Partitions {
			b.say(failure, "  partition %d: %s, type %s, %d MiB", p.Number, p.GUID, p.Type, p.Size>>20)
		}
	}
	b.startAnother()
	b.say(failure, "starting the machine again in %d seconds", int(rebootAfter.Seconds()))
	time.Sleep(rebootAfter)
	for {
		err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
		b.say(failure, "cannot restart: %v", err)
		time.Sleep(rebootAfter)
	}
}
