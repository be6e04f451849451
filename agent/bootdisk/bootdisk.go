// Package bootdisk decides which disk the machine was booted from, among those that hold the image of the command line.
//
// Image builds are reproducible: a stick and the disk that was written from it have the same PARTUUIDs, so these alone do
// not tell. What the firmware says about its boot option does. A wrong guess would put state on the wrong disk, so what is
// not certain is an error that lists what there is.
package bootdisk

import (
	"fmt"
	"strings"
	"time"

	"spore/agent/blockdev"
	"spore/agent/efi"
	"spore/storage/gpt"
)

// Silences after which what is there is taken to be all there is: no new device came for so long. USB sticks take seconds to
// be found.
const (
	// QuietForAny is waited while no disk holds the image.
	QuietForAny = 30 * time.Second
	// QuietForBetter is waited while a disk holds the image, but is not where the firmware says that it booted from.
	QuietForBetter = 10 * time.Second
	// QuietForCopy is waited where the firmware does not say which hardware it booted from and a copy could still appear.
	QuietForCopy = 2 * time.Second
)

// Wanted are the partitions of the image.
type Wanted struct {
	Root, Verity, Cluster gpt.GUID
}

// WantedFor derives the PARTUUIDs from the two verity root hashes, hex of 64 digits: root and verity partition have the
// first and the last 128 bits of the root's (Discoverable Partitions Specification), the cluster part the first of its own.
func WantedFor(rootHash, clusterHash string) (Wanted, error) {
	var w Wanted
	for _, p := range []struct {
		to   *gpt.GUID
		hash string
		from int
	}{{&w.Root, rootHash, 0}, {&w.Verity, rootHash, 32}, {&w.Cluster, clusterHash, 0}} {
		if len(p.hash) != 64 {
			return Wanted{}, fmt.Errorf("verity root hash %q: want 64 hex digits", p.hash)
		}
		h := p.hash[p.from : p.from+32]
		g, err := gpt.ParseGUID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
		if err != nil {
			return Wanted{}, fmt.Errorf("verity root hash %q: %w", p.hash, err)
		}
		*p.to = g
	}
	return w, nil
}

// String lists the partitions for people.
func (w Wanted) String() string {
	return fmt.Sprintf("root %s, verity %s, cluster %s", w.Root, w.Verity, w.Cluster)
}

// Seen is a disk and what was read of it.
type Seen struct {
	Disk  blockdev.Disk
	Table gpt.Table
	// Problem says why Table is empty.
	Problem string
	// Verdict is how well the disk fits the firmware's boot option.
	Verdict efi.Verdict
}

func (s Seen) holds(w Wanted) bool {
	_, root := s.Table.ByGUID(w.Root)
	_, verity := s.Table.ByGUID(w.Verity)
	_, cluster := s.Table.ByGUID(w.Cluster)
	return root && verity && cluster
}

// ESP returns the partition that systemd-boot was read from, or else the first of the ESP type.
func (s Seen) ESP(loader gpt.GUID) (gpt.Partition, bool) {
	if p, ok := s.Table.ByGUID(loader); ok && loader != (gpt.GUID{}) {
		return p, true
	}
	for _, p := range s.Table.Partitions {
		if p.Type == gpt.ESP {
			return p, true
		}
	}
	return gpt.Partition{}, false
}

// Decision is what to do now.
type Decision struct {
	// Quiet is how long no new device must have come before the rest of the decision holds; 0 is now. WaitFor says what is
	// waited for.
	Quiet   time.Duration
	WaitFor string
	// Disk is the index of the chosen disk, and Why the reason, unless Err is set.
	Disk int
	Why  string
	Err  error
}

// Certain says that the decision holds whatever else there is.
func (d Decision) Certain() bool { return d.Err == nil && d.Quiet == 0 }

// Decide chooses among seen. lateDevices says that there are buses on which disks appear late (USB).
func Decide(seen []Seen, w Wanted, boot efi.Boot, lateDevices bool) Decision {
	candidates := filter(seen, all(seen), func(s Seen) bool { return s.holds(w) })
	if len(candidates) == 0 {
		return Decision{Quiet: QuietForAny, WaitFor: "a disk with " + w.String(), Err: fmt.Errorf("no disk holds the image of this kernel: %s", w)}
	}
	pool, note := candidates, ""
	if boot.LoaderPartition != (gpt.GUID{}) {
		pool = filter(seen, candidates, func(s Seen) bool { _, ok := s.Table.ByGUID(boot.LoaderPartition); return ok })
		if len(pool) == 0 {
			pool, note = candidates, fmt.Sprintf(" (the boot loader's partition %s is on none that holds the image)", boot.LoaderPartition)
		}
	}
	if boot.Path.Usable() {
		return byPath(seen, pool, boot, note)
	}
	d := only(seen, pool, "the only disk with the image"+note, "the firmware does not say which hardware it booted from")
	if len(pool) == 1 && (lateDevices || note != "") {
		d.Quiet, d.WaitFor = QuietForCopy, "a second disk with the image, as the firmware does not say which hardware it booted from"
	}
	return d
}

// byPath chooses by the hardware that the boot option names.
func byPath(seen []Seen, pool []int, boot efi.Boot, note string) Decision {
	named := fmt.Sprintf("the disk of boot option %s, %s", boot.Option, boot.Path)
	if exact := filter(seen, pool, func(s Seen) bool { return s.Verdict == efi.Exact }); len(exact) > 0 {
		return only(seen, exact, named+note, "the firmware's boot option fits each: "+boot.Path.String())
	}
	if near := filter(seen, pool, func(s Seen) bool { return s.Verdict == efi.Controller }); len(near) > 0 {
		d := only(seen, near, "the only disk with the image where boot option "+boot.Option+" is, "+boot.Path.String()+note,
			"the firmware's boot option does not tell them apart: "+boot.Path.String())
		d.Quiet, d.WaitFor = QuietForCopy, named
		return d
	}
	d := only(seen, pool, "the only disk with the image, though not "+named+note, "none is "+named)
	d.Quiet, d.WaitFor = QuietForBetter, named
	return d
}

// only takes the one disk of pool or makes an error of several.
func only(seen []Seen, pool []int, why, whyNot string) Decision {
	if len(pool) == 1 {
		return Decision{Disk: pool[0], Why: why}
	}
	var lines []string
	for _, i := range pool {
		lines = append(lines, seen[i].Disk.String())
	}
	return Decision{Err: fmt.Errorf("%d disks hold the same image and %s; unplug all but one, or boot by a firmware entry that names the disk: %s",
		len(pool), whyNot, strings.Join(lines, "; "))}
}

func all(seen []Seen) []int {
	out := make([]int, len(seen))
	for i := range out {
		out[i] = i
	}
	return out
}

func filter(seen []Seen, from []int, keep func(Seen) bool) []int {
	var out []int
	for _, i := range from {
		if keep(seen[i]) {
			out = append(out, i)
		}
	}
	return out
}
