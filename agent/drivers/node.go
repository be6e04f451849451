package drivers

import (
	"fmt"
	"os"
	"strings"

	"spore/agent/blockdev"
	"spore/agent/datadisk"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/storage/atomicfile"
)

// OfNode says what this node uses of its machine. Where there is a TPM 2.0, the node's secrets are sealed to it
// (package sealed).
func OfNode(m *node.Machine) (Machine, error) {
	sys := os.DirFS(m.Root.At("/sys"))
	tpm := blockdev.Text(sys, "class/tpm/tpm0/tpm_version_major") == "2"
	out := Machine{Sys: sys, Boot: m.Boot.BootDisk.Path, TPM: tpm}
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		return out, fmt.Errorf("read what /var is (has spore-state.service run?): %w", err)
	}
	if info.Kind == state.Partition {
		out.State = info.Device
	}
	for _, use := range datadisk.Uses(m.Root) {
		disks, err := datadisk.Read(m.Root, use)
		if err != nil {
			return out, err
		}
		for _, d := range disks {
			if d.Problem == "" && d.Device != "" {
				out.Data = append(out.Data, d.Device)
			}
		}
	}
	return out, nil
}

// Against compares the node's machine with the root of another system, which is mounted or unpacked in dir.
func Against(m *node.Machine, dir string) ([]Loss, error) {
	of, err := OfNode(m)
	if err != nil {
		return nil, err
	}
	release, err := os.ReadFile(m.Root.At("/proc/sys/kernel/osrelease"))
	if err != nil {
		return nil, fmt.Errorf("read which kernel runs: %w", err)
	}
	running, err := ReadKernel(os.DirFS(m.Root.At("/")), strings.TrimSpace(string(release)))
	if err != nil {
		return nil, fmt.Errorf("the kernel that runs: %w", err)
	}
	fresh, err := ReadKernel(os.DirFS(dir), "")
	if err != nil {
		return nil, fmt.Errorf("the new kernel: %w", err)
	}
	return Compare(of, running, fresh)
}
