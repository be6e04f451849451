// Package drivers says which devices of the running machine would lose their driver with another system, before the
// machine is started with it: it compares what sysfs shows (Linux, Documentation/ABI) with the new kernel's
// modules.alias, modules.dep, modules.builtin and modules.builtin.modinfo (modules.dep(5)), and with the list of the
// modules in its initramfs.
//
// A disk or a card needs its own driver and that of each device above it: a virtio disk needs virtio_blk and
// virtio_pci, a stick usb_storage, sd_mod, usbcore and xhci_pci. So the way up is looked at.
//
// What is judged is what a module drives today. What is not known of is said to be lost by nobody: a driver of the
// kernel's core, which no list of modules names, is taken to stay. It does not look at firmware files, and it starts
// nothing.
package drivers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/agent/stage1/modules"
)

// ModuleDir is where the module directories of kernels are, below a root.
const ModuleDir = "usr/lib/modules"

// Kernel is what is known of the drivers of one system.
type Kernel struct {
	root *modules.Index
	// initramfs has the modules in the initramfs alone; nil where the root does not say which those are.
	initramfs *modules.Index
}

// ReadKernel reads the module directory of the kernel in a root. A root has one; with several, release (as uname -r
// says it) says which, and may be empty otherwise.
func ReadKernel(root fs.FS, release string) (Kernel, error) {
	dir, err := moduleDir(root, release)
	if err != nil {
		return Kernel{}, err
	}
	sub, err := fs.Sub(root, dir)
	if err != nil {
		return Kernel{}, fmt.Errorf("read %s: %w", dir, err)
	}
	index, err := modules.ReadIndex(sub)
	if err == nil {
		err = index.ReadBuiltinAliases(sub)
	}
	if err != nil {
		return Kernel{}, fmt.Errorf("read %s: %w", dir, err)
	}
	k := Kernel{root: index}
	names, err := modules.ReadList(sub)
	if err != nil {
		return Kernel{}, fmt.Errorf("read %s: %w", dir, err)
	}
	if names != nil {
		k.initramfs = index.Only(names)
	}
	return k, nil
}

func moduleDir(root fs.FS, release string) (string, error) {
	if release != "" {
		dir := path.Join(ModuleDir, release)
		if !fs.ValidPath(dir) || path.Dir(dir) != ModuleDir {
			return "", fmt.Errorf("%.64q is not the release of a kernel", release)
		}
		return dir, nil
	}
	entries, err := fs.ReadDir(root, ModuleDir)
	if err != nil {
		return "", fmt.Errorf("find the kernel of a root: %w", err)
	}
	var found []string
	for _, e := range entries {
		if _, err := fs.Stat(root, path.Join(ModuleDir, e.Name(), "modules.dep")); err == nil {
			found = append(found, e.Name())
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("a root has the modules of one kernel, and this one of %d (%.200q)",
			len(found), strings.Join(found, " "))
	}
	return path.Join(ModuleDir, found[0]), nil
}

// Machine says what of the running machine matters. Devices are nodes such as /dev/vda7 or /dev/mapper/state.
type Machine struct {
	// Sys is /sys.
	Sys fs.FS
	// Boot is the disk that the machine was booted from; empty when it was booted from something else.
	Boot string
	// State is the device that /var is on, empty where it is in memory; Data are those of services.
	State string
	Data  []string
	// TPM says that the node's secrets are sealed to the machine's TPM.
	TPM bool
}

// Loss is a device without a driver in the new system.
type Loss struct {
	// Device is its directory below /sys, such as devices/pci0000:00/0000:00:03.0.
	Device string
	// Driver is the module that drives it today, Modalias what modules are found by; it may be empty.
	Driver, Modalias string
	// Uses say in words what needs it, sorted; empty for a device that nothing of the node needs.
	Uses []string
	// Initramfs says that the new root has a driver, and the new initramfs, which has to find the boot disk, has none.
	Initramfs bool
	// Refuses says that the machine would not come up, or would lose data or a card that is in use.
	Refuses bool
}

// String says it in one sentence, without a full stop.
func (l Loss) String() string {
	where := "kernel"
	if l.Initramfs {
		where = "initramfs"
	}
	by := "today " + l.Driver
	if l.Modalias != "" {
		by += "; " + l.Modalias
	}
	if len(l.Uses) == 0 {
		return fmt.Sprintf("the new %s has no driver for the device %s (%s)", where, path.Base(l.Device), by)
	}
	uses := strings.Join(l.Uses, ", ")
	return fmt.Sprintf("%s: the new %s has no driver for %s (%s)", uses, where, path.Base(l.Device), by)
}

// Refusing parts what refuses a system from what is only said.
func Refusing(all []Loss) (refusing, said []Loss) {
	for _, l := range all {
		if l.Refuses {
			refusing = append(refusing, l)
		} else {
			said = append(said, l)
		}
	}
	return refusing, said
}

// Compare lists what would lose its driver: what refuses the new system first, each by its path.
func Compare(m Machine, running, fresh Kernel) ([]Loss, error) {
	if m.Sys == nil || running.root == nil || fresh.root == nil {
		return nil, errors.New("internal error: no machine or no kernel to compare")
	}
	s := survey{sys: m.Sys, devices: map[string]*needed{}}
	if err := s.lookAt(m); err != nil {
		return nil, fmt.Errorf("look for the devices of this machine: %w", err)
	}
	var out []Loss
	for dir, n := range s.devices {
		l := Loss{Device: dir, Uses: n.words(), Refuses: n.refuses}
		l.Driver, l.Modalias = s.driver(dir), s.text(dir+"/modalias")
		if l.Driver == "" {
			continue
		}
		early := n.boot && fresh.initramfs != nil && inInitramfs(running, l.Driver)
		switch {
		case lost(running.root, fresh.root, l.Driver, l.Modalias):
			out = append(out, l)
		case early && lost(running.root, fresh.initramfs, l.Driver, l.Modalias):
			l.Initramfs = true
			out = append(out, l)
		}
	}
	out = append(out, s.missingMappings(running.root, fresh.root)...)
	slices.SortFunc(out, func(a, b Loss) int {
		if a.Refuses != b.Refuses {
			if a.Refuses {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Device, b.Device)
	})
	return out, nil
}

// inInitramfs says whether the initramfs of today has, or may have, a module: a driver that it does without is not
// needed there.
func inInitramfs(k Kernel, module string) bool {
	return k.initramfs == nil || k.initramfs.Has(module)
}

// lost says whether a device that a module of the running kernel drives has no driver in another kernel.
func lost(running, fresh *modules.Index, module, modalias string) bool {
	switch {
	case !running.Has(module):
		return false // Nobody lists it: it is of the kernel's core, or somebody loaded a module of his own.
	case fresh.BuiltIn(module):
		return false // Before Linux 6.18 a kernel does not say which devices its built-in modules drive.
	case modalias != "" && takes(running, fresh, module, modalias):
		return false
	case fresh.Has(module):
		// It may be bound by its name, or by somebody who wrote to sysfs. What it was found by must not be gone.
		return modalias != "" && !running.BuiltIn(module) && running.Wants(module, modalias)
	}
	return true
}

// takes says whether a module of the new kernel takes a device: the same one, or one that did not ask for it before. Of
// others that ask for it in both kernels nobody knows: uas asks for every stick, and drives few.
func takes(running, fresh *modules.Index, module, modalias string) bool {
	for _, name := range fresh.Drivers(modalias) {
		if name == module || !running.Has(name) || !running.Wants(name, modalias) {
			return true
		}
	}
	return false
}
