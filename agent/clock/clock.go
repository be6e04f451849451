// Package clock keeps the clock from starting in the past. Machines without a working RTC come up in 1970, and then no
// certificate is valid and no NTP answer authentic. The floor is the later of the image's build time and the last time that
// this node has seen, and nobody waits for NTP. A clock decades after it is as wrong: UEFI firmware passes on 1970 as 2070
// (EDK II, PcAtChipsetPkg, takes the two digits of the RTC for a year after its PcdMinimalValidYear).
package clock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
)

// maxFuture bounds a time: one that lies further after the build, or the last time seen, is no time that it can be but a
// damaged file or an RTC that had jumped. systemd, too, turns back a clock that is so far ahead.
const maxFuture = 20 * 365 * 24 * time.Hour

// Floor is the earliest time that it can be. stored is the content of the file with the last time seen; it may be empty.
func Floor(built time.Time, stored []byte) time.Time {
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(stored)), 10, 64)
	if err != nil {
		return built
	}
	if last := time.Unix(seconds, 0); last.After(built) && last.Before(built.Add(maxFuture)) {
		return last
	}
	return built
}

// Wrong tells whether it cannot be now, by the floor.
func Wrong(now, floor time.Time) bool { return now.Before(floor) || now.After(floor.Add(maxFuture)) }

// Raise sets a wrong clock to the floor. set is usually Set.
func Raise(now, floor time.Time, set func(time.Time) error) (raised bool, err error) {
	if !Wrong(now, floor) {
		return false, nil
	}
	return true, set(floor)
}

// Set sets the system clock.
func Set(t time.Time) error {
	tv := unix.NsecToTimeval(t.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return fmt.Errorf("set the clock to %s: %w", t.UTC().Format(time.RFC3339), err)
	}
	return nil
}

// Read reads the file with the last time seen; it is empty when there is none.
func Read(path string) []byte {
	data, err := atomicfile.ReadLimited(path, 64)
	if err != nil {
		return nil
	}
	return data
}

// Remember writes the last time seen. A time that a time server has set is written as it is; any other never before the one
// that is stored, and as believed at most (see Believed).
func Remember(path string, now, believed time.Time, synchronized bool) error {
	if !synchronized {
		if now.After(believed) {
			now = believed
		}
		old, err := strconv.ParseInt(strings.TrimSpace(string(Read(path))), 10, 64)
		if err == nil && old > now.Unix() {
			return nil
		}
	}
	return atomicfile.WriteDurable(path, []byte(strconv.FormatInt(now.Unix(), 10)+"\n"), 0o644)
}
