// Package console has what those agree on who write on the terminals of the machine: the agent, which logs on the
// serial line and writes a plain page on the monitor, and spore-screen, which takes a terminal for itself while a
// person looks.
package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/paths"
	"spore/storage/atomicfile"
)

// Terminals.
const (
	// Monitor is the first virtual terminal, which is in front unless somebody changes that. The kernel's own messages
	// come to it as well, those of Serial do not.
	Monitor = "/dev/tty1"
	// Serial is the console of the system: the last one on the kernel's command line, which is a serial line in images
	// that say nothing else.
	Serial = "/dev/console"
)

// MonitorText is what Monitor shows, a byte for each character without ends of lines (vcs(4)).
const MonitorText = "/dev/vcs1"

// maxText bounds it: a monitor of 7680x4320 pixels with characters of 8x8 has half of that.
const maxText = 1 << 20

// Shown reads MonitorText; nothing where that cannot be read.
func Shown(root paths.Root) []byte {
	f, err := os.Open(root.At(MonitorText))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return nil
	}
	return text
}

// Units that show pages.
const (
	MonitorUnit = "spore-screen.service"
	SerialUnit  = "spore-screen-serial.service"
)

// Questions is the directory in which a file ask.* lies while somebody is asked for a passphrase (systemd, Password
// Agents).
const Questions = "/run/systemd/ask-password"

// taken are the runtime directories of the units, which are there while those run.
var taken = map[string]string{Monitor: "/run/spore-screen", Serial: "/run/spore-screen-serial"}

// left is a file in those: the pages are closed, and the unit is about to end.
const left = "/left"

// Taken tells whether pages are shown on a terminal, so that nobody else writes on it.
func Taken(root paths.Root, device string) bool {
	dir, ok := taken[device]
	if !ok {
		return false
	}
	if _, err := os.Stat(root.At(dir)); err != nil {
		return false
	}
	_, err := os.Stat(root.At(dir + left))
	return err != nil
}

// Leave has a terminal not be taken any more from now on. systemd removes the directory a while after the program has
// ended, and what others had to say in between would be lost.
func Leave(root paths.Root, device string) error {
	f, err := os.Create(root.At(taken[device] + left))
	if err != nil {
		return fmt.Errorf("give back %s: %w", device, err)
	}
	return f.Close()
}

// maxQuestion is how much of the file of a question is read, in bytes.
const maxQuestion = 16 << 10

// Asked tells whether somebody is asked for a passphrase. Whoever asked and was killed leaves his file, and nobody
// answers that (systemd, Password Agents).
func Asked(root paths.Root) bool {
	files, _ := filepath.Glob(root.At(Questions + "/ask.*")) // The pattern is good.
	return slices.ContainsFunc(files, func(f string) bool {
		data, err := atomicfile.ReadLimited(f, maxQuestion)
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		for line := range strings.Lines(string(data)) {
			if pid, ok := strings.CutPrefix(strings.TrimSpace(line), "PID="); ok {
				n, err := strconv.Atoi(pid)
				return err != nil || n < 1 || Lives(n)
			}
		}
		return true // Nobody says who asks.
	})
}

// Lives tells whether there is a process of a number.
func Lives(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// Line tells whether Serial is a line on which a page can be opened: another terminal than the kernel's own, which are
// tty0, tty1 and so on (Linux, Documentation/ABI/testing/sysfs-tty), and without a shell of its own.
func Line(root paths.Root, commandLine string) bool {
	for _, word := range strings.Fields(commandLine) {
		if name, _, _ := strings.Cut(word, "="); name == "spore.console" { // As ConditionKernelCommandLine= takes it.
			return false
		}
	}
	data, err := os.ReadFile(root.At("/sys/class/tty/console/active"))
	names := strings.Fields(string(data))
	if err != nil || len(names) == 0 {
		return false
	}
	number, ok := strings.CutPrefix(names[len(names)-1], "tty")
	return !ok || strings.Trim(number, "0123456789") != ""
}

// Seen tells whether anybody could see what is on the monitor: the machine has a frame buffer, or its virtual terminals
// are on something else than the kernel's dummy, which shows nothing (Linux, Documentation/ABI/testing/
// sysfs-class-vtconsole). A kernel that takes a frame buffer at the first text has the dummy until then.
func Seen(root paths.Root) bool {
	buffers, _ := filepath.Glob(root.At("/sys/class/graphics/fb[0-9]*")) // The patterns are good.
	if len(buffers) > 0 {
		return true
	}
	drivers, _ := filepath.Glob(root.At("/sys/class/vtconsole/vtcon*"))
	for _, d := range drivers {
		bound, err := os.ReadFile(filepath.Join(d, "bind"))
		name, nerr := os.ReadFile(filepath.Join(d, "name"))
		if err != nil || nerr != nil || string(bytes.TrimSpace(bound)) == "1" && !bytes.Contains(name, []byte("dummy")) {
			return true
		}
	}
	return len(drivers) == 0 // The kernel does not say.
}

// AwaitSeen waits until Seen, or the context ends: a monitor may be plugged in later, and its driver may be loaded after
// the roles.
func AwaitSeen(ctx context.Context, root paths.Root, every time.Duration) {
	for ctx.Err() == nil && !Seen(root) {
		rest(ctx, every)
	}
}

// Mend makes a terminal take lines again that a program left as it needs it for keys (termios(3)): one that was killed
// leaves it so, and the next would take that for how the terminal is to be. Nobody else may use the terminal meanwhile:
// what is typed is shown again. A terminal that takes lines stays as it is.
func Mend(terminal *os.File) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return fmt.Errorf("mend a terminal: %w", err)
	}
	cerr := raw.Control(func(fd uintptr) {
		var t *unix.Termios
		if t, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err != nil || t.Lflag&unix.ICANON != 0 {
			return
		}
		t.Iflag = t.Iflag&^(unix.IGNCR|unix.INLCR) | unix.ICRNL | unix.IXON | unix.BRKINT
		t.Oflag |= unix.OPOST | unix.ONLCR
		t.Lflag |= unix.ICANON | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.ECHOCTL | unix.ECHOKE | unix.ISIG | unix.IEXTEN
		err = unix.IoctlSetTermios(int(fd), unix.TCSETS, t)
	})
	if err = errors.Join(err, cerr); err != nil {
		return fmt.Errorf("mend a terminal: %w", err)
	}
	return nil
}

// writeBound is how long a terminal may take. At 9600 baud a status line of 3 KiB takes three seconds.
const writeBound = 10 * time.Second

// Write writes to a terminal that nobody has taken. One whose other end stands still, or that a person has stopped
// with Scroll Lock, takes nothing: it is left after a while, and holds nothing up beyond that. A container has none
// that can be opened.
func Write(root paths.Root, device, text string) {
	if !Taken(root, device) {
		write(root.At(device), text, writeBound)
	}
}

func write(device, text string, bound time.Duration) {
	f, err := os.OpenFile(device, os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if err := f.SetWriteDeadline(time.Now().Add(bound)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return
	}
	_, _ = f.WriteString(text)
}

// Times of Watch.
const (
	// settle is how long input has to lie there: whoever reads the terminal takes it at once.
	settle = 300 * time.Millisecond
	// pause is how long Watch waits after a key, and before it opens a terminal again that was hung up.
	pause = 5 * time.Second
)

// mostTyped is how many bytes may be typed to open pages: a person who sees nothing presses it again. More than
// that is something else: a passphrase that comes when nobody asks any more, or a device at the other end of the line
// that sends back what is logged there.
const mostTyped = 4

// Watch calls pressed each time somebody presses Enter on a terminal while nobody reads it and nobody is asked for a
// passphrase. It reads nothing: what is typed stays for whoever asked for it. What nobody took is thrown away in the
// end, and pressed is not called for what was typed while the terminal was somebody's, such as the second half of an
// Enter that sends two bytes. It returns when the context ends, or when there is no such terminal.
func Watch(ctx context.Context, root paths.Root, device string, pressed func()) {
	for ctx.Err() == nil {
		f, err := os.OpenFile(root.At(device), os.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != nil {
			return
		}
		watch(ctx, f, func() bool { return !Taken(root, device) && !Asked(root) }, pressed)
		_ = f.Close()
		rest(ctx, pause)
	}
}

// watch returns when the terminal was hung up, as systemd does for a unit that takes it, or the context ends.
func watch(ctx context.Context, f *os.File, free func() bool, pressed func()) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })
	defer stop()
	others := false // what lies there was typed while the terminal was somebody's
	for ctx.Err() == nil {
		typed := func() (is, gone bool) {
			_ = raw.Control(func(fd uintptr) {
				p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				if _, err := unix.Poll(p, 0); err != nil && !errors.Is(err, unix.EINTR) {
					gone = true
				}
				gone = gone || p[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
				is = p[0].Revents&unix.POLLIN != 0
			})
			return is, gone
		}
		hungUp := false
		err := raw.Read(func(uintptr) bool {
			is, gone := typed()
			hungUp = gone
			return is || gone
		})
		if err != nil || hungUp {
			return
		}
		rest(ctx, settle)
		is, gone := typed()
		if gone {
			return
		}
		if !is || !free() {
			others = is
			rest(ctx, settle)
			continue
		}
		n := 0
		_ = raw.Control(func(fd uintptr) {
			n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			_ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH)
		})
		if others || n > mostTyped {
			others = false
			continue
		}
		pressed()
		rest(ctx, pause)
	}
}

// rest waits.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
