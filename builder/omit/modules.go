package omit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/kmod"
)

// Kernel is what an image leaves out of a kernel's modules. It is plain data: keep it as gob.
type Kernel struct {
	// Left are the modules that rules leave out, by path.
	Left []Omission
	// Keep is what was put back.
	Keep Keep
	// KeptFirmware and LeftFirmware have the groups of firmware (see group) that modules ask for, those which stay and
	// those which are left out. A group of LeftFirmware has the class of the first module that asks. Of a Part they are not known.
	KeptFirmware map[string]bool
	LeftFirmware map[string]string
}

// Part is what has to be read of a kernel's release for Select: all that no rule leaves out, and the modules of names and needed.
func Part(release string, keep Keep, names, needed []string) kmod.Part {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q", hardwareRules, keep, names, needed)
	return kmod.Part{
		ID:     hex.EncodeToString(h.Sum(nil)),
		Wanted: func(p string) bool { return leaves(path.Join(kmod.Dir, release), p, keep) == nil },
		Names:  names, Required: needed,
	}
}

// leaves is the rule that leaves a module out, by its path in the module directory dir; nil where it stays.
func leaves(dir, p string, keep Keep) *hardware {
	r := ruleOf(p)
	if r == nil || keep.Class(Modules) || keep.Class(r.class) {
		return nil
	}
	if keep.Path(path.Join(dir, p)) || keep.Path(path.Join(dir, plain(p))) {
		return nil
	}
	return r
}

// Select applies the rules to the modules of a kernel, or to a Part of them, and returns those that stay, of which alone the
// indexes are to be made. The modules in needed stay whatever the rules say, and so does what any module that stays needs. A
// name in needed that the kernel does not know is an error.
func Select(m *kmod.Modules, keep Keep, needed []string) (kept *kmod.Modules, k *Kernel, err error) {
	dir := path.Join(kmod.Dir, m.Version)
	rules := make([]*hardware, len(m.Loadable))
	wanted := append([]string(nil), needed...)
	for i := range m.Loadable {
		mod := &m.Loadable[i]
		if rules[i] = leaves(dir, mod.Path, keep); rules[i] != nil {
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
	for _, p := range m.Unread {
		if r := leaves(dir, p, keep); r != nil {
			k.Left = append(k.Left, Omission{Path: path.Join(dir, p), Class: r.class, Why: r.why})
		}
	}
	slices.SortFunc(k.Left, func(a, b Omission) int { return strings.Compare(a.Path, b.Path) })
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
