// Program bootcost says where the instructions of a boot go: it starts edge-01 of an image of examples/edge in QEMU,
// which counts instructions (-icount), and prints what systemd accounts to each unit until the roles run. A busy host
// does not change these numbers. With -plain it boots the images in turn as they are rehearsed, and prints the CPU
// seconds of QEMU from the kernel's first line until the roles are active, as `make bench` measures them.
//
//	go run ./test/bootcost KEYS OUT...
//	go run ./test/bootcost -plain 3 KEYS OUT...
//
// KEYS is the folder of `spore pki init examples/edge --plain`, each OUT one of `spore build examples/edge --pki KEYS`.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/builder/vm"
	"spore/test/edge"
)

const (
	configs = "examples/edge"
	// limit bounds one boot; one that counts beside other work is slow.
	limit = 20 * time.Minute
	// counting has one instruction take a nanosecond of the guest's time, and time jump where the guest waits.
	counting = "#!/bin/sh\nfor a; do shift; [ \"$a\" = tcg,thread=multi ] && a=tcg,thread=single; set -- \"$@\" \"$a\"; done\n" +
		"exec %s \"$@\" -icount shift=0\n"
)

func main() {
	plain := flag.Int("plain", 0, "boot each image so often, and print CPU seconds")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: bootcost [-plain N] KEYS OUT...")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Args()[1:], *plain); err != nil {
		fmt.Fprintln(os.Stderr, "bootcost:", err)
		os.Exit(1)
	}
}

func run(keys string, outs []string, plain int) error {
	dir, err := os.MkdirTemp("", "spore-bootcost-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	bundle, err := edge.Bundle(configs, keys)
	if err != nil {
		return err
	}
	accel, err := vm.DetectAccel(ctx)
	if err != nil {
		return err
	}
	b := &bench{dir: dir, bundle: bundle, accel: accel}
	if plain > 0 {
		return b.inTurn(ctx, outs, plain)
	}
	if err := b.count(); err != nil {
		return err
	}
	for _, out := range outs {
		if err := b.units(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// bench is what boots are made with.
type bench struct {
	dir    string
	bundle []byte
	accel  vm.Accel
}

// count has QEMU count instructions: SPORE_QEMU names a script that says so.
func (b *bench) count() error {
	script := filepath.Join(b.dir, "counting")
	words := "'" + strings.Join(vm.QEMU(), "' '") + "'"
	if err := os.WriteFile(script, fmt.Appendf(nil, counting, words), 0o755); err != nil {
		return err
	}
	return os.Setenv("SPORE_QEMU", script)
}

// machine is edge-01 of the image in a folder, on a disk of its own.
func (b *bench) machine(ctx context.Context, out string, arguments ...string) (vm.Config, error) {
	disk := filepath.Join(b.dir, "disk.qcow2")
	if err := os.RemoveAll(disk); err != nil {
		return vm.Config{}, err
	}
	images, err := filepath.Glob(filepath.Join(out, "*.img"))
	if err != nil || len(images) != 1 {
		return vm.Config{}, fmt.Errorf("%s holds %d disk images", out, len(images))
	}
	image, err := filepath.Abs(images[0])
	if err != nil {
		return vm.Config{}, err
	}
	if err := vm.Overlay(ctx, image, disk, edge.DiskSize); err != nil {
		return vm.Config{}, err
	}
	c := edge.Machine(edge.Node, b.dir, disk, b.accel)
	c.SMBIOS = edge.Firmware(b.bundle, arguments...)
	return c, nil
}

func (b *bench) inTurn(ctx context.Context, outs []string, times int) error {
	for range times {
		for _, out := range outs {
			c, err := b.machine(ctx, out)
			if err != nil {
				return err
			}
			used, at, err := b.boot(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", out, err)
			}
			fmt.Printf("%s: %.1f CPU-s until roles are active, %.1f s by the guest's clock\n", out, used.Seconds(), at)
		}
	}
	return nil
}

func (b *bench) boot(ctx context.Context, c vm.Config) (cpu time.Duration, at float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m, err := vm.Start(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	defer m.Kill()
	kernel, _, err := m.Console.AwaitMatch(ctx, 0, regexp.MustCompile("Linux version "))
	if err != nil {
		return 0, 0, err
	}
	s, line, _, err := m.Console.AwaitStatus(ctx, 0, "active roles", active)
	return line.CPU - kernel.CPU, s.Times["activated"], err
}

// look prints the processor time of all units, of each process of the kernel, and of all together, in the guest.
const look = `systemctl show '*.service' '*.mount' '*.socket' init.scope -p Id -p CPUUsageNSec | paste -sd' ' | sed 's/  /\n/g'; ` +
	`systemctl show mosquitto.service coredns.service spore-agent.service -p ActiveEnterTimestampMonotonic; cat /proc/uptime; grep '^cpu ' /proc/stat; grep -c . /proc/modules; udevadm info --export-db | grep -c ^P:; ` +
	"true"

func (b *bench) units(ctx context.Context, out string) error {
	c, err := b.machine(ctx, out, "spore.console")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m, err := vm.Start(ctx, c)
	if err != nil {
		return err
	}
	defer m.Kill()
	s, _, _, err := m.Console.AwaitStatus(ctx, 0, "active roles", active)
	if err != nil {
		return err
	}
	lines, err := shell(ctx, m, look)
	if err != nil {
		return err
	}
	fmt.Printf("## %s\n\n%v\n\n", out, s.Times)
	type unit struct {
		name string
		used float64
	}
	var units []unit
	var sum float64
	for _, l := range lines {
		id, rest, ok := strings.Cut(strings.TrimPrefix(l, "Id="), " CPUUsageNSec=")
		if !ok {
			id, rest, ok = cutReversed(l)
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
		if !ok || err != nil {
			if !ok {
				fmt.Println(l)
			}
			continue
		}
		units = append(units, unit{id, n / 1e6})
		sum += n / 1e6
	}
	slices.SortFunc(units, func(a, b unit) int { return cmp.Compare(b.used, a.used) })
	fmt.Printf("\n| unit | millions of instructions |\n|---|--:|\n")
	for _, u := range units {
		fmt.Printf("| %s | %.0f |\n", u.name, u.used)
	}
	fmt.Printf("| all | %.0f |\n\n", sum)
	return nil
}

// cutReversed is the same of a line whose properties come in the other order.
func cutReversed(l string) (id, used string, ok bool) {
	used, id, ok = strings.Cut(strings.TrimPrefix(l, "CPUUsageNSec="), " Id=")
	return id, used, ok
}

// shell types a command into the shell on the console, once that answers, and returns what it prints.
func shell(ctx context.Context, m *vm.Machine, command string) ([]string, error) {
	mark := m.Console.Mark()
	for {
		if err := m.Type("dmesg -n 1; echo shell $((6 * 7))\r"); err != nil {
			return nil, err
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Second)
		_, next, err := m.Console.AwaitMatch(short, mark, regexp.MustCompile("^shell 42$"))
		cancel()
		if err == nil {
			mark = next
			break
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	if err := m.Type("(" + command + ") 2>&1 | sed 's/^/>> /'; echo '>> 'end $((6 * 7))\r"); err != nil {
		return nil, err
	}
	_, end, err := m.Console.AwaitMatch(ctx, mark, regexp.MustCompile("^>> end 42$"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range m.Console.Lines(mark)[:end-mark-1] {
		if text, ok := strings.CutPrefix(l.Text, ">> "); ok {
			out = append(out, text)
		}
	}
	return out, nil
}

// active tells whether all that the node's roles need runs.
func active(s vm.Status) bool {
	for _, unit := range []string{"mosquitto.service", "coredns.service"} {
		if s.Services[unit] != "active" {
			return false
		}
	}
	return len(s.Failed) == 0
}
