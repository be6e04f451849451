package main

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"spore/agent/bootdisk"
	"spore/agent/spare"
	"spore/storage/gpt"
)

// countStart counts this start where another system could be started instead of this one (package spare).
func (b *boot) countStart() (string, error) {
	if !b.noted {
		return "", nil
	}
	return b.count(), nil
}

// startAnother counts a start that failed before it was counted. That is of use only where the disk that the machine
// was started from is there: a system on one that does not answer has not become worse.
func (b *boot) startAnother() {
	if !b.noted || b.counted || !onSeenDisk(b.seen, b.firmware.LoaderPartition) {
		return
	}
	if text := b.count(); text != "" {
		b.say(failure, "%s", text)
	}
}

// count counts a start, and says what has become of those before it and what the next one takes.
func (b *boot) count() string {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV
	if err := mountAt("efivarfs", efiVars, "efivarfs", "", flags); err != nil {
		return "the system before cannot be started instead: EFI variables cannot be written: " + oneLine(err)
	}
	b.counted = true
	text := nextSystem(efiVars, b.args.RootHash, b.args.ClusterHash)
	if err := unix.Unmount(efiVars, 0); err != nil {
		b.say(failure, "unmount %s: %v", efiVars, err)
	}
	return text
}

// onSeenDisk tells whether one of the disks has the partition that the boot loader was read from.
func onSeenDisk(seen []bootdisk.Seen, loader gpt.GUID) bool {
	return loader != (gpt.GUID{}) && slices.ContainsFunc(seen, func(s bootdisk.Seen) bool {
		_, ok := s.Table.ByGUID(loader)
		return ok
	})
}

// nextSystem counts a start that begins, and says what the next one takes; nothing where no start failed before.
func nextSystem(vars, root, cluster string) string {
	before, next, err := spare.Begin(vars, root, cluster)
	switch {
	case err != nil:
		return "the system before cannot be started instead: " + oneLine(err)
	case next != "":
		return fmt.Sprintf("%d starts of this system failed: unless this one succeeds, the next takes the one before, %s", before, next)
	case before > 0:
		return fmt.Sprintf("start %d of %d: the one before failed, and after the last the system before is started instead", before+1, spare.Tries)
	}
	return ""
}
