package ntp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stateUnsynchronized is STA_UNSYNC of adjtimex(2).
const stateUnsynchronized = 0x40

// Kernel asks the kernel whether somebody keeps the clock, and how far off it may be. timesyncd says so at each answer that it
// gets; the bound grows by 500 ppm, and after half a day without one, at 16 seconds, the kernel takes the clock for unsynchronized
// (kernel/time/ntp.c, second_overflow).
func Kernel() (synchronized bool, maxError time.Duration, err error) {
	var t unix.Timex // no mode: nothing is set
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, 0, fmt.Errorf("ask the kernel about the clock: %w", err)
	}
	return t.Status&stateUnsynchronized == 0, time.Duration(t.Maxerror) * time.Microsecond, nil
}
