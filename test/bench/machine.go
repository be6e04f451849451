package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"

	"spore/builder/vm"
)

// Machine is what the measurements were taken on.
type Machine struct {
	CPU                     string
	Cores                   int
	MemoryMiB               int64
	Kernel, QEMU, Go, Mkosi string
	LoadBefore, LoadAfter   string
	Accel                   string
}

var (
	modelName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)
	memTotal  = regexp.MustCompile(`(?m)^MemTotal:\s+(\d+) kB`)
	numbers   = regexp.MustCompile(`\d+(\.\d+)+`)
)

// describeMachine asks /proc and the programs.
func describeMachine(ctx context.Context) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Go: strings.TrimPrefix(runtime.Version(), "go")}
	for _, f := range []struct {
		path string
		take func(string)
	}{
		{"/proc/cpuinfo", func(s string) { m.CPU = group(modelName, s) }},
		{"/proc/meminfo", func(s string) {
			var kib int64
			if _, err := fmt.Sscan(group(memTotal, s), &kib); err == nil {
				m.MemoryMiB = kib >> 10
			}
		}},
		{"/proc/sys/kernel/osrelease", func(s string) { m.Kernel = strings.TrimSpace(s) }},
	} {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return m, err
		}
		f.take(string(text))
	}
	qemu := vm.QEMU()
	out, err := exec.CommandContext(ctx, qemu[0], append(qemu[1:], "--version")...).Output()
	if err != nil {
		return m, fmt.Errorf("%s --version: %w; run make deps", qemu[0], err)
	}
	m.QEMU = numbers.FindString(string(out))
	m.LoadBefore, err = load()
	return m, err
}

func group(re *regexp.Regexp, s string) string {
	if m := re.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

// load is the load average of the last minute.
func load() (string, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one, nil
}
