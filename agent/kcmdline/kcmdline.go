// Package kcmdline reads what stage1 needs from the kernel command line (Linux Documentation/admin-guide/
// kernel-parameters.rst): words apart by blanks, double quotes around a value or a word.
//
// u-root's pkg/cmdline reads /proc/cmdline alone, takes single quotes for quotes, and keeps the last of several
// values; here two root hashes are refused.
package kcmdline

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/cluster/spec"
	"spore/storage/gpt"
)

// Args are the arguments of stage1.
type Args struct {
	// RootHash and ClusterHash are verity root hashes of 64 hex digits, lower case.
	RootHash, ClusterHash string
	// URL is the folder, or a file in it, that has the image when it comes from the network; empty when nobody says.
	URL string
	// Loader is the PARTUUID of the ESP of the medium that a BIOS started; zero when nobody says. Under UEFI the firmware
	// does.
	Loader gpt.GUID
	// Outside are the words behind those of the image: somebody else gave them.
	Outside []string
	// Slow is by how much the machine is slower than others (spore.slow=, 1 to spec.MaxSlow); 0 when nobody says. A
	// rehearsal in emulation says it to all of its machines.
	Slow int
	// Watchdog is how long the hardware watchdog waits (systemd.watchdog_sec= of systemd, in whole seconds, 1 to
	// 3600); 0 when nobody says, or with a form that only systemd knows. It is negative when the watchdog is to be left
	// alone: off or 0, and where systemd is told to take another one (systemd.watchdog_device=).
	Watchdog time.Duration
}

// maxWatchdog bounds Args.Watchdog, in seconds.
const maxWatchdog = 3600

// Parse reads Args. Both hashes must be there; one that is given twice must say the same.
func Parse(line string) (Args, error) {
	var a Args
	for _, p := range []struct {
		key string
		to  *string
	}{{"roothash", &a.RootHash}, {"spore.clusterhash", &a.ClusterHash}} {
		for _, word := range words(line) {
			key, value, _ := strings.Cut(word, "=")
			if key != p.key {
				continue
			}
			value = strings.ToLower(value)
			if raw, err := hex.DecodeString(value); err != nil || len(raw) != 32 {
				return Args{}, fmt.Errorf("kernel command line: %s must be 64 hex digits, not %q", p.key, value)
			}
			if *p.to != "" && *p.to != value {
				return Args{}, fmt.Errorf("kernel command line: two values of %s", p.key)
			}
			*p.to = value
		}
		if *p.to == "" {
			return Args{}, fmt.Errorf("kernel command line: %s= is missing; this initramfs only boots with the command line that its image was built with", p.key)
		}
	}
	for _, word := range words(line) {
		if value, ok := strings.CutPrefix(word, "spore.url="); ok {
			a.URL = value // The last: whoever starts the kernel appends.
		}
		if value, ok := strings.CutPrefix(word, "spore.loader="); ok {
			var err error
			if a.Loader, err = gpt.ParseGUID(value); err != nil {
				return Args{}, fmt.Errorf("kernel command line: spore.loader: %w", err)
			}
		}
		if value, ok := strings.CutPrefix(word, "spore.slow="); ok {
			var err error
			if a.Slow, err = strconv.Atoi(value); err != nil || a.Slow < 1 || a.Slow > spec.MaxSlow {
				return Args{}, fmt.Errorf("kernel command line: spore.slow is %q; write 1 to %d", value, spec.MaxSlow)
			}
		}
	}
	a.Watchdog = watchdogOf(words(line))
	all := words(line)
	if i := slices.Index(all, spec.EndOfWords); i >= 0 {
		a.Outside = all[i+1:]
	}
	return a, nil
}

// watchdogOf reads Args.Watchdog. The last word counts, as for systemd.
func watchdogOf(words []string) (d time.Duration) {
	other := false
	for _, word := range words {
		if device, ok := strings.CutPrefix(word, "systemd.watchdog_device="); ok {
			other = device != "" && device != "/dev/watchdog" && device != "/dev/watchdog0"
		}
		value, ok := strings.CutPrefix(word, "systemd.watchdog_sec=")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(value)
		switch {
		case value == "off" || err == nil && n == 0:
			d = -1
		case err == nil && n >= 1 && n <= maxWatchdog:
			d = time.Duration(n) * time.Second
		default:
			d = 0
		}
	}
	if other {
		return -1
	}
	return d
}

// words splits the line; quotes are taken away.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quoted, started := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, started = !quoted, true
		case !quoted && (r == ' ' || r == '\t' || r == '\n'):
			if started {
				out = append(out, word.String())
				word.Reset()
				started = false
			}
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if started {
		out = append(out, word.String())
	}
	return out
}
