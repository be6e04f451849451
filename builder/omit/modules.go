package omit

import (
	"fmt"
	"path"
	"strings"

	"spore/builder/kmod"
)

// Kernel is what an image has of a kernel's modules.
type Kernel struct {
	// Kept are the modules of the image; the indexes of the module directory are made of them alone.
	Kept *kmod.Modules
	// Left are the modules that rules leave out, in the kernel's own order.
	Left []Omission

	keep Keep
	// kept and left have the groups of firmware (see group) that modules ask for; the class of a group in left is that of
	// the first module that asks.
	kept map[string]bool
	left map[string]string
}

// Select applies the rules to the modules of a kernel. The modules in needed stay whatever the rules say, and so does what
// any module that stays needs. A name in needed that the kernel does not know is an error.
func Select(m *kmod.Modules, keep Keep, needed []string) (*Kernel, error) {
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
		return nil, fmt.Errorf("choose the kernel's modules: %w", err)
	}
	k := &Kernel{Kept: m.Restrict(closure), keep: keep, kept: map[string]bool{}, left: map[string]string{}}
	stays := make(map[string]bool, len(k.Kept.Loadable))
	for _, mod := range k.Kept.Loadable {
		stays[mod.Name] = true
		for _, f := range mod.Firmware {
			k.kept[group(f)] = true
		}
	}
	for i, r := range rules {
		mod := &m.Loadable[i]
		if r == nil || stays[mod.Name] {
			continue
		}
		k.Left = append(k.Left, Omission{Path: path.Join(dir, mod.Path), Class: r.class, Why: r.why})
		for _, f := range mod.Firmware {
			if g := group(f); k.left[g] == "" {
				k.left[g] = r.class
			}
		}
	}
	return k, nil
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
