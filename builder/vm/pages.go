package vm

import (
	"cmp"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// smallPages is held while a program starts that gets pages of 4 KiB alone: the setting is one of the whole process.
var smallPages sync.Mutex

// wantsSmallPages tells whether the host's pages of 4 KiB are cheaper for the machine than those of 2 MiB, which QEMU asks
// for.
//
// The host clears a large page as a whole when its first byte is touched, and a guest that boots touches a little of
// most: a twentieth of the processor time of an emulated boot went into that. A machine that has more memory than a boot
// needs has programs for it, whose data is all over it: a master of Kubernetes takes a ninth less with large pages. Under
// KVM they spare more than they cost.
func (c Config) wantsSmallPages() bool {
	return c.Accel.Emulates() && cmp.Or(c.Memory, defaultMemory) <= defaultMemory
}

// startWithSmallPages starts a program whose memory has pages of 4 KiB. It inherits that from this process, which has
// no large pages meanwhile (PR_SET_THP_DISABLE, prctl(2)).
func startWithSmallPages(cmd *exec.Cmd) error {
	smallPages.Lock()
	defer smallPages.Unlock()
	if had, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0); err == nil && had == 0 {
		// Errors change nothing but the speed.
		_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
		defer func() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) }()
	}
	return cmd.Start()
}
