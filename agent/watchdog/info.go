package watchdog

import (
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// class is where the kernel shows the watchdog of Path (Linux Documentation/ABI/testing/sysfs-class-watchdog).
const class = "sys/class/watchdog/watchdog0/"

// maxText bounds what is read of a file, in bytes.
const maxText = 128

// Info is what the kernel says of the watchdog of Path.
type Info struct {
	// Identity is how the driver calls it.
	Identity string `json:"identity"`
	// Seconds is how long it waits to be fed.
	Seconds int `json:"seconds"`
	// Held tells that somebody has it open and its timer runs: it resets a machine that hangs.
	Held bool `json:"held"`
	// HasReset tells that it was this watchdog that started the machine again.
	HasReset bool `json:"hasReset,omitempty"`
}

// Read reads it below the root of the machine; nil where there is none.
func Read(root fs.FS) *Info {
	identity, ok := text(root, "identity")
	if !ok {
		return nil
	}
	info := Info{Identity: identity}
	state, _ := text(root, "state")
	info.Held = state == "active"
	if seconds, _ := text(root, "timeout"); seconds != "" {
		if n, err := strconv.Atoi(seconds); err == nil && n > 0 {
			info.Seconds = n
		}
	}
	if status, _ := text(root, "bootstatus"); status != "" {
		n, err := strconv.ParseUint(status, 0, 32)
		info.HasReset = err == nil && n&cardReset != 0
	}
	return &info
}

// text is the first line of a file, as far as it can be printed.
func text(root fs.FS, name string) (string, bool) {
	f, err := root.Open(class + name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return "", false
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return printable([]byte(line)), true
}

// printable is the text before the first zero byte, without what a console would take for a command.
func printable(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s))
}
