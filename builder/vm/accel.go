package vm

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// probeSector is a boot sector that enters 64-bit mode, uses SSE and ends QEMU (probe/probe.S).
//
//go:embed probe/probe.bin
var probeSector []byte

const (
	// probeExit is what QEMU's isa-debug-exit makes of the probe's 0.
	probeExit = 1
	// probeLimit is how long the probe may take; it needs a tenth of a second.
	probeLimit = 5 * time.Second
)

// Accel is how QEMU runs the guest's code.
type Accel struct {
	// Name is kvm or tcg.
	Name string
	// CPU is the CPU model.
	CPU string
	// KernelArguments are words of the kernel command line that this way needs.
	KernelArguments []string
	// OneCPU tells that a machine of several processors may not survive its boot.
	OneCPU bool
}

// Emulates tells whether QEMU translates the guest's code, which is then some 16 times slower.
func (a Accel) Emulates() bool { return a.Name == "tcg" }

// args are the options of QEMU.
func (a Accel) args() []string {
	accel := a.Name
	if accel == "tcg" {
		accel = "tcg,thread=multi"
	}
	return []string{"-accel", accel, "-cpu", a.CPU}
}

// DetectAccel chooses KVM when it runs the probe, else TCG. /dev/kvm can exist and still fail or hang at the first
// instruction that matters, so that nothing but running code proves it. SPORE_ACCEL=tcg skips the probe.
func DetectAccel(ctx context.Context) (Accel, error) {
	tcg, err := emulation(ctx)
	if err != nil || os.Getenv("SPORE_ACCEL") == "tcg" {
		return tcg, err
	}
	kvm := Accel{Name: "kvm", CPU: "host"}
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
		f.Close()
		if probe(ctx, kvm) == nil {
			return kvm, nil
		}
	}
	return tcg, nil
}

// emulation is TCG with all that it can do. QEMU before 10 panics Debian 13's kernel with cmpxchg16b, so the kernel is told
// that there is none; programs such as haproxy do not ask before they use it, since every real processor has it.
func emulation(ctx context.Context) (Accel, error) {
	out, err := command(ctx, "--version").Output()
	if err != nil {
		return Accel{}, fmt.Errorf("%s: %w; run make deps", hostQEMU, err)
	}
	// The kernel tests the timer against its own speed and panics ("IO-APIC + timer doesn't work") when the host is too busy
	// to emulate both evenly. Under KVM it leaves the test out by itself. An emulated processor has SVM, for which the kernel would
	// load KVM: a second of each boot, and "-svm" is no way out, with it QEMU 7.2 has mount(2) fail with EBUSY. Each timer that ends
	// between two ticks wakes threads of QEMU besides the guest's own, and the scheduler of a busy Go program sets one every 20
	// microseconds: with ticks alone, a Kubernetes API server starts in two thirds of the time. Repeated string instructions are
	// emulated byte by byte: who is not told that they are fast (erms, fsrm, rep_good) clears and copies by plain stores.
	a := Accel{Name: "tcg", CPU: "max,-erms,-fsrm", KernelArguments: []string{"no_timer_check", "highres=off", "modprobe.blacklist=kvm_amd"}}
	words := slowStrings
	if v, ok := qemuVersion(string(out)); ok {
		if v.before(10, 0) {
			words = noCX16
		}
		// One processor translates code that another one is patching, and the kernel panics on a breakpoint that is gone ("int3").
		// QEMU 8.1.0 mended it (deba78709a, "accel/tcg: Always lock pages before translation"); a distribution may have it earlier.
		a.OneCPU = v.before(8, 1)
	}
	a.KernelArguments = append(a.KernelArguments, words)
	return a, nil
}

// What the kernel is told that the processor has not. Of several such words it takes the last.
const (
	slowStrings = "clearcpuid=rep_good"
	// noCX16 is without cmpxchg16b, too.
	noCX16 = "clearcpuid=rep_good,cx16"
)

// withoutArguments is for machines whose kernel gets no further words: cmpxchg16b is gone for programs, too.
func (a Accel) withoutArguments() Accel {
	if slices.Contains(a.KernelArguments, noCX16) {
		a.CPU += ",-cx16"
	}
	a.KernelArguments = nil
	return a
}

type version struct{ major, minor int }

func (v version) before(major, minor int) bool {
	return v.major < major || v.major == major && v.minor < minor
}

var versionLine = regexp.MustCompile(`version (\d+)\.(\d+)`)

func qemuVersion(s string) (v version, ok bool) {
	_, err := fmt.Sscanf(versionLine.FindString(s), "version %d.%d", &v.major, &v.minor)
	return v, err == nil
}

// probe boots the probe's sector.
func probe(ctx context.Context, a Accel) error {
	dir, err := os.MkdirTemp("", "spore-probe-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	disk := filepath.Join(dir, "probe.img")
	if err := os.WriteFile(disk, probeSector, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	args := append(a.args(), "-m", "16", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-drive", "file="+disk+",format=raw,if=ide", "-debugcon", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=1")
	out, err := command(ctx, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == probeExit && string(out) == "K" {
		return nil
	}
	return fmt.Errorf("%s does not run a boot sector (%q, %w)", a.Name, out, err)
}
