// Package locate is the verb locate: the machine shows where it stands. It blinks what lamps the kernel knows
// (/sys/class/leds) and those of its network cards (ethtool), lights the locate lamps of its shelves
// (/sys/class/enclosure), and says its name on its consoles.
// When the time is over, all is as it was.
package locate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/paths"
	"spore/agent/screen"
	"spore/agent/screen/console"
	"spore/agent/status"
	"spore/agent/verbs"
	"spore/storage/atomicfile"
)

const (
	// defaultFor is how long it lasts.
	defaultFor = "1m"
	// half is half the period of a lamp: slow enough to be seen from across a hall.
	half = 500 * time.Millisecond
	// again is how often the banner is written, for whoever looks at a screen on which something else was written.
	again = 5 * time.Second
	// writeBound is how long a console may take: a serial line whose other end stands still takes nothing.
	writeBound = 2 * time.Second
	// maxLamps bounds how many lamps are blinked, and maxValue how much is read of one, in bytes.
	maxLamps = 256
	maxValue = 16 << 10
)

// Shown is the result: where the machine can be seen.
type Shown struct {
	Lamps []string `json:"lamps"`
	// Cards are network cards whose lamps blink; before anything was done, those that would be tried.
	Cards    []string `json:"cards"`
	Consoles []string `json:"consoles"`
}

// Locate shows where the machine stands.
func Locate(ctx context.Context, r *verbs.Run) (string, error) {
	return locate(ctx, r, OfMachine(r.Machine.Root))
}

func locate(ctx context.Context, r *verbs.Run, cards Cards) (string, error) {
	span, err := time.ParseDuration(r.Argument("for", defaultFor))
	if err != nil {
		return "", fmt.Errorf("internal error: %w", err)
	}
	blinking, still := lamps(r.Machine.Root)
	tty := consoles(r.Machine.Root)
	shown := Shown{Lamps: []string{}, Cards: []string{}, Consoles: tty}
	for _, l := range slices.Concat(blinking, still) {
		shown.Lamps = append(shown.Lamps, l.name)
	}
	names, err := cards.names()
	var problems []error
	if err != nil {
		problems = append(problems, err)
	}
	if r.Order.DryRun {
		shown.Cards = append(shown.Cards, names...)
		what := fmt.Sprintf("would use %d lamps and %d consoles for %s, and would try the lamps of %d network cards",
			len(shown.Lamps), len(tty), span, len(names))
		return what + "; nothing was done", r.Result(shown)
	}
	blink, without, failed := cards.try(ctx, names)
	problems = append(problems, failed...)
	if len(without) > 0 {
		if err := r.Say("network cards whose driver has no lamp to blink: %s", strings.Join(without, ", ")); err != nil {
			return "", err
		}
	}
	shown.Cards = append(shown.Cards, blink...)
	if err := r.Result(shown); err != nil {
		return "", err
	}
	what := fmt.Sprintf("%d lamps, %d network cards and %d consoles for %s", len(shown.Lamps), len(blink), len(tty), span)
	if err := r.Say("uses %s", what); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	text := banner(r.Node.Name, r.Cluster.Name, r.Caller)
	unlit := make(chan []error, 1)
	go func() { unlit <- cards.blink(ctx, blink) }()
	problems = append(problems, show(ctx, r.Machine.Root, blinking, still, tty, text)...)
	problems = append(problems, <-unlit...)
	restore(r.Machine.Root)
	done := "used " + what
	if err := errors.Join(problems...); err != nil {
		done += "; not all did: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return done, nil
}

// show blinks and writes until the context ends, and returns what could not be used.
func show(ctx context.Context, root paths.Root, blinking, still []lamp, consoles []string, text string) (problems []error) {
	for i := range still {
		problems = append(problems, still[i].set(true))
		defer func() { _ = still[i].restore() }()
	}
	for i := range blinking {
		defer func() { _ = blinking[i].restore() }()
	}
	dark := map[int]bool{} // lamps that cannot be set are told of once
	tick := time.NewTicker(half)
	defer tick.Stop()
	var written time.Time
	for on := true; ; on = !on {
		for i := range blinking {
			if dark[i] {
				continue
			}
			if err := blinking[i].set(on); err != nil {
				dark[i] = true
				problems = append(problems, err)
			}
		}
		if first := written.IsZero(); first || time.Since(written) >= again {
			written = time.Now()
			for _, name := range consoles {
				// A serial console is a log as well: it gets the banner once.
				if first || name == console.Monitor {
					if err := write(root.At(name), text); err != nil && first {
						problems = append(problems, err)
					}
				}
			}
		}
		select {
		case <-ctx.Done():
			return problems
		case <-tick.C:
		}
	}
}

// lamp is a file of sysfs that lights a lamp.
type lamp struct {
	name string
	// file is written to; on and off are what.
	file, on, off string
	// before is what it had, and trigger what the kernel let it show, with the file of that.
	before, trigger, triggerFile string
}

func (l lamp) set(on bool) error {
	value := l.off
	if on {
		value = l.on
	}
	return put(l.file, value)
}

// restore gives the lamp back. The kernel takes the trigger away from a lamp that somebody has set to zero (Linux,
// Documentation/leds/leds-class.rst).
func (l lamp) restore() error {
	err := put(l.file, l.before)
	if l.trigger != "" && l.trigger != "none" {
		err = errors.Join(err, put(l.triggerFile, l.trigger))
	}
	return err
}

// put writes a value into a file of sysfs, which is there.
func put(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// lamps lists the lamps that are blinked, and those that are lit: a shelf blinks its own.
func lamps(root paths.Root) (blinking, still []lamp) {
	leds, _ := filepath.Glob(root.At("/sys/class/leds/*")) // The pattern is good.
	for _, dir := range leds {
		name := filepath.Base(dir)
		most := value(filepath.Join(dir, "max_brightness"))
		if most == "" || most == "0" || len(blinking) == maxLamps {
			continue
		}
		blinking = append(blinking, lamp{
			name: "leds/" + name, file: filepath.Join(dir, "brightness"), on: most, off: "0",
			before: value(filepath.Join(dir, "brightness")), trigger: chosen(value(filepath.Join(dir, "trigger"))),
			triggerFile: filepath.Join(dir, "trigger"),
		})
	}
	slots, _ := filepath.Glob(root.At("/sys/class/enclosure/*/*/locate"))
	for _, file := range slots {
		if before := value(file); before != "" && len(still) < maxLamps {
			dir := filepath.Dir(file)
			name := "enclosure/" + filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
			still = append(still, lamp{name: name, file: file, on: "1", off: "0", before: before})
		}
	}
	return blinking, still
}

// value reads a file of sysfs; empty where there is none.
func value(file string) string {
	data, err := atomicfile.ReadLimited(file, maxValue)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// chosen is the trigger that is in use: the one in brackets.
func chosen(triggers string) string {
	_, rest, _ := strings.Cut(triggers, "[")
	name, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return name
}

// consoles lists the screen, and the other consoles that the kernel writes to (Linux,
// Documentation/ABI/testing/sysfs-tty).
func consoles(root paths.Root) []string {
	out := []string{}
	if _, err := os.Stat(root.At(console.Monitor)); err == nil {
		out = append(out, console.Monitor)
	}
	for _, name := range strings.Fields(value(root.At("/sys/class/tty/console/active"))) {
		device := "/dev/" + name
		if name == filepath.Base(name) && name != "tty0" && !slices.Contains(out, device) {
			out = append(out, device)
		}
	}
	return out
}

// write writes to a terminal; one that does not take it within a moment is left.
func write(device, text string) error {
	f, err := os.OpenFile(device, os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.SetWriteDeadline(time.Now().Add(writeBound)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return err
	}
	_, err = f.WriteString(text)
	return err
}

// restore shows on the screen what was there before. What has taken it draws again by itself.
func restore(root paths.Root) {
	if console.Taken(root, console.Monitor) {
		return
	}
	var line status.Line
	if atomicfile.ReadJSON(root.At(paths.Status), &line) == nil {
		_ = write(root.At(console.Monitor), screen.Text(line))
	}
}

// banner is what the consoles show. All three words were checked where they came from: names of the configuration and
// of a certificate.
func banner(node, cluster, caller string) string {
	const rule = "********************************************************************************"
	return fmt.Sprintf("\r\n%s\r\n\r\n    HERE IS %.64q of cluster %.64q\r\n    %.64q looks for this machine.\r\n\r\n%[1]s\r\n",
		rule, node, cluster, caller)
}
