package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"spore/builder/vm"
	"spore/test/edge"
)

// bootLimit is how long a machine may take.
const bootLimit = 10 * time.Minute

// The kernel's first line, and what getty asks when mkosi's image has reached the end of its boot.
var (
	kernelLine  = regexp.MustCompile(`Linux version `)
	loginPrompt = regexp.MustCompile(`login: ?$`)
)

// boots starts machines from images.
type boots struct {
	b     *bench
	accel vm.Accel
	dir   string
	// image is ours with the keys, bundle what the node is given of them.
	image  string
	bundle []byte
	mkosi  string
}

// given are the secrets that an operator of examples/edge brings.
var given = map[string]string{"mqtt-password-sensor": "sensor-password", "mqtt-password-operator": "operator-password"}

// newBoots makes keys, the image with their public half, and a bundle for the node.
func newBoots(ctx context.Context, b *bench, o *ours, mkosiImage string) (*boots, error) {
	s := &boots{b: b, dir: filepath.Join(b.work, "boot"), mkosi: mkosiImage}
	if err := os.RemoveAll(s.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	// KVM is fast where it works, and then boots are compared in it; without it in TCG. One way for both images.
	var err error
	if s.accel, err = vm.DetectAccel(ctx); err != nil {
		return nil, err
	}
	keys := filepath.Join(s.dir, "keys.pki")
	args := []string{"pki", "init", o.config, "--plain", "--dir", keys}
	for name, value := range given {
		file := filepath.Join(s.dir, name)
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--secret", name+"="+file)
	}
	if _, err := Run(ctx, b.log, nil, "", b.spore, args...); err != nil {
		return nil, err
	}
	out := filepath.Join(s.dir, "out")
	if _, err := o.build(ctx, o.cache, out, "--pki", keys); err != nil {
		return nil, err
	}
	s.image = filepath.Join(out, filepath.Base(o.image()))
	s.bundle, err = edge.Bundle(o.config, keys)
	return s, err
}

// ours is a machine of our image, with the node's bundle in its firmware.
func (s *boots) ours(name, disk string, arguments ...string) vm.Config {
	c := edge.Machine(name, s.dir, disk, s.accel)
	c.SMBIOS = edge.Firmware(s.bundle, arguments...)
	return c
}

// oursTwice boots our image on a new disk, and then again from what that has become.
func (s *boots) oursTwice(ctx context.Context) (first, next Usage, err error) {
	disk := filepath.Join(s.dir, "ours.qcow2")
	defer os.Remove(disk)
	if err := vm.Overlay(ctx, s.image, disk, edge.DiskSize); err != nil {
		return first, next, err
	}
	for _, u := range []*Usage{&first, &next} {
		if *u, err = s.boot(ctx, s.ours("ours", disk), rolesActive, true); err != nil {
			return first, next, err
		}
	}
	return first, next, nil
}

// theirs boots mkosi's image.
func (s *boots) theirs(ctx context.Context) (Usage, error) {
	disk := filepath.Join(s.dir, "mkosi.qcow2")
	defer os.Remove(disk)
	if err := vm.Overlay(ctx, s.mkosi, disk, edge.DiskSize); err != nil {
		return Usage{}, err
	}
	return s.boot(ctx, edge.Machine("mkosi", s.dir, disk, s.accel), loginAsked, false)
}

// reached waits for the end of a boot and returns what QEMU had used by then.
type reached func(context.Context, *vm.Machine) (cpu time.Duration, err error)

// rolesActive waits for the status line that says that every program of the node's roles is active.
func rolesActive(ctx context.Context, m *vm.Machine) (time.Duration, error) {
	_, line, _, err := m.Console.AwaitStatus(ctx, 0, "a status line with active roles", active)
	return line.CPU, err
}

// roleUnits are what the roles of edge.Node come to.
var roleUnits = []string{"coredns.service", "dns.target", "mosquitto.service", "mqtt.target"}

// active tells whether all that the node's roles need runs.
func active(s vm.Status) bool {
	for _, unit := range roleUnits {
		if s.Services[unit] != "active" {
			return false
		}
	}
	return len(s.Held) == 0 && len(s.Failed) == 0
}

// loginAsked waits for getty, which comes with the end of the boot (multi-user.target wants getty.target). The line of the
// target itself is on no console.
func loginAsked(ctx context.Context, m *vm.Machine) (time.Duration, error) {
	_, err := m.Console.AwaitQuestion(ctx, 0, loginPrompt)
	return m.CPU(), err
}

// boot runs a machine until it has reached its end, and measures QEMU from the kernel's first line on. settle waits for the
// machine to have done everything and has it shut down in order, so that it can be booted again from its disk: it restarts on
// the three keys, and QEMU ends where a machine would.
func (s *boots) boot(ctx context.Context, c vm.Config, end reached, settle bool) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	m, err := vm.Start(ctx, c)
	if err != nil {
		return Usage{}, err
	}
	defer m.Kill()
	kernel, _, err := m.Console.AwaitMatch(ctx, 0, kernelLine)
	if err != nil {
		return Usage{}, err
	}
	start := time.Now()
	cpu, err := end(ctx, m)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{CPU: cpu - kernel.CPU, Wall: time.Since(start)}
	s.b.say("%s: %.1f CPU-s, %.1f s", c.Name, u.CPU.Seconds(), u.Wall.Seconds())
	if !settle {
		return u, nil
	}
	_, _, _, err = m.Console.AwaitStatus(ctx, 0, "a status line of a settled system", func(s vm.Status) bool {
		return s.System == "running" && s.Times["running"] > 0
	})
	if err != nil {
		return u, err
	}
	if err := m.CtrlAltDel(); err != nil {
		return u, err
	}
	return u, m.Wait(ctx)
}

// chart boots our image once more on a new disk, with systemd's messages on the console, each with the kernel's time, and draws
// them.
func (s *boots) chart(ctx context.Context) (string, error) {
	disk := filepath.Join(s.dir, "chart.qcow2")
	defer os.Remove(disk)
	if err := vm.Overlay(ctx, s.image, disk, edge.DiskSize); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	m, err := vm.Start(ctx, s.ours("chart", disk, "systemd.log_target=kmsg", "systemd.show_status=0", "printk.devkmsg=on", "loglevel=7", "printk.time=1"))
	if err != nil {
		return "", err
	}
	defer m.Kill()
	if _, err := rolesActive(ctx, m); err != nil {
		return "", err
	}
	var lines []string
	for _, l := range m.Console.Lines(0) {
		lines = append(lines, l.Text)
	}
	return strings.Join(lines, "\n"), nil
}
