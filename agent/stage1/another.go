package main

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"spore/agent/bootdisk"
	"spore/agent/spare"
	"spore/storage/gpt"
)

// startAnother has the boot loader start the system before, where this one could not be started often enough. It is of
// use only where the disk that the machine was started from is there: a system on one that does not answer has not
// become worse.
func (b *boot) startAnother() {
	if !b.info.EFI || !onSeenDisk(b.seen, b.firmware.LoaderPartition) {
		return
	}
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV
	if err := mountAt("efivarfs", efiVars, "efivarfs", "", flags); err != nil {
		b.say(failure, "the system before cannot be started instead: EFI variables cannot be written: %s", oneLine(err))
		return
	}
	b.say(failure, "%s", nextSystem(efiVars, b.args.RootHash, b.args.ClusterHash))
	if err := unix.Unmount(efiVars, 0); err != nil {
		b.say(failure, "unmount %s: %v", efiVars, err)
	}
}

// onSeenDisk tells whether one of the disks has the partition that the boot loader was read from.
func onSeenDisk(seen []bootdisk.Seen, loader gpt.GUID) bool {
	return loader != (gpt.GUID{}) && slices.ContainsFunc(seen, func(s bootdisk.Seen) bool {
		_, ok := s.Table.ByGUID(loader)
		return ok
	})
}

// nextSystem counts a start that failed, and says what the next one takes.
func nextSystem(vars, root, cluster string) string {
	next, left, err := spare.Failed(vars, root, cluster)
	switch {
	case err != nil:
		return "the system before cannot be started instead: " + oneLine(err)
	case next != "":
		return fmt.Sprintf("this system could not be started %d times: the next start takes the one before, %s", spare.Tries, next)
	case left > 0:
		return fmt.Sprintf("start %d of %d that failed: after the last one the system before is started instead", spare.Tries-left, spare.Tries)
	}
	return "no other system is noted that could be started instead"
}
