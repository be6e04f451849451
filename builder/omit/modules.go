package omit

import (
	"fmt"
	"path"
	"strings"

	"spore/builder/kmod"
)

// Kernel is what an image leaves out of a kernel's modules. It is plain data: keep it as gob.
type Kernel struct {
	// Left are the modules that rules leave out, in the kernel's own order.
	Left []Omission
	// Keep is what was put back.
	Keep Keep
	// KeptFirmware and LeftFirmware have the groups of firmware (see group) that modules ask for, those which stay and
	// those which are left out. A group of LeftFirmware has the class of the first module that asks.
	KeptFirmware map[string]bool
	LeftFirmware map[string]string
}

// Select applies the rules to the modules of a kernel, and returns those that stay, of which alone the indexes are to be made. The modules in needed stay whatever the rules say, and so does what
// any module that stays needs. A name in needed that the kernel does not know is an error.
func Select(m *kmod.Modules, keep Keep, needed []string) (kept *kmod.Modules, k *Kernel, err error) {
	dir := path.Join(kmod.Dir, m.Version)
	rules := make([]*hardware, len(m.Loadable))
	wanted := append([]string(nil), needed...)
	for i := range m.Loadable {
		mod := &m.Loadable[i]
		if r := ruleOf(mod.Path); r != nil && !keep.Class(Modules) && !keep.Class(r.class) && !keep.Path(path.Join(dir, mod.Path)) && !keep.Path(path.Join(dir, plain(mod.Path))) {
			rules[i] = r
			continue
		}
		wanted = append(wanted, mod.Name)
	}
	closure, err := m.Closure(wanted, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("choose the kernel's modules: %w", err)
	}
	kept = m.Restrict(closure)
	k = &Kernel{Keep: keep, KeptFirmware: map[string]bool{}, LeftFirmware: map[string]string{}}
	stays := make(map[string]bool, len(kept.Loadable))
	for _, mod := range kept.Loadable {
		stays[mod.Name] = true
		for _, f := range mod.Firmware {
			k.KeptFirmware[group(f)] = true
		}
	}
	for i, r := range rules {
		mod := &m.Loadable[i]
		if r == nil || stays[mod.Name] {
			continue
		}
		k.Left = append(k.Left, Omission{Path: path.Join(dir, mod.Path), Class: r.class, Why: r.why})
		for _, f := range mod.Firmware {
			if g := group(f); k.LeftFirmware[g] == "" {
				k.LeftFirmware[g] = r.class
			}
		}
	}
	return kept, k, nil
}

// ruleOf finds the rule for a module's path, or nil.
func ruleOf(p string) *hardware {
	rest, ok := strings.CutPrefix(p, "kernel/")
	if !ok {
		return nil // what somebody adds to a kernel is meant to be there
	}
	rest = plain(rest)
	for i := range hardwareRules {
		for _, pattern := range hardwareRules[i].paths {
			if within(pattern, rest) {
				return &hardwareRules[i]
			}
		}
	}
	return nil
}

// plain takes the suffixes off a module's path: .ko and that of its compression.
func plain(p string) string {
	dir, base := path.Split(p)
	name, _, _ := strings.Cut(base, ".ko")
	return dir + name
}
