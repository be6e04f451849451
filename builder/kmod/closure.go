package kmod

import (
	"fmt"
	"path"
	"strings"
)

// Closure returns the modules that loading the wanted ones takes, in load order: whatever a module needs comes before
// it, with its soft dependencies ("pre:") before and ("post:") after it. A wanted name is a module ("dm-verity") or an
// alias ("crypto-sha256", "pci:v00001AF4d…"), which stands for every module that answers to it. What is built into the
// kernel needs no loading and is left out. A name of required that the kernel does not know at all is an error; one of
// optional is passed over.
func (m *Modules) Closure(required, optional []string) ([]*Module, error) {
	w := &walker{modules: m, index: m.byName(), builtin: map[string]bool{}, seen: map[string]bool{}}
	for _, b := range m.Builtin {
		w.builtin[b] = true
	}
	var unknown []string
	for _, name := range required {
		if !w.add(name) {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return nil, fmt.Errorf("kernel %s has no module or alias %s, loadable or built in", m.Version, strings.Join(unknown, ", "))
	}
	for _, name := range optional {
		w.add(name)
	}
	return w.out, nil
}

// IsBuiltin reports whether a module is part of the kernel itself.
func (m *Modules) IsBuiltin(name string) bool {
	name = strings.ReplaceAll(name, "-", "_")
	for _, b := range m.Builtin {
		if b == name {
			return true
		}
	}
	return false
}

// Lookup returns the names of the modules that a name or alias stands for, loadable ones in their order, and whether
// the kernel knows it at all (it may be built in).
func (m *Modules) Lookup(name string) (loadable []string, known bool) {
	plain := strings.ReplaceAll(name, "-", "_")
	for i := range m.Loadable {
		if m.Loadable[i].Name == plain {
			return []string{plain}, true
		}
	}
	if m.IsBuiltin(name) {
		return nil, true
	}
	for i := range m.Loadable {
		for _, a := range m.Loadable[i].Aliases {
			if aliasMatches(a, name) {
				loadable = append(loadable, m.Loadable[i].Name)
				break
			}
		}
	}
	for _, a := range m.BuiltinAliases {
		known = known || aliasMatches(a.Pattern, name)
	}
	return loadable, known || loadable != nil
}

// aliasMatches is fnmatch(3) of an alias as a pattern, with dash and underscore the same.
func aliasMatches(pattern, name string) bool {
	// Nearly all of the tens of thousands of aliases differ in a letter of their first word.
	for i := range min(len(pattern), len(name), 4) {
		if strings.IndexByte("*?[-_", pattern[i]) >= 0 {
			break
		}
		if pattern[i] != name[i] {
			return false
		}
	}
	p, ok := normalize(pattern)
	if !ok {
		return false
	}
	n, ok := normalize(name)
	if !ok {
		return false
	}
	if !strings.ContainsAny(p, "*?[") {
		return p == n
	}
	// path.Match lets no * cross a slash, and has its own meaning of \; neither is in names of devices.
	match, err := path.Match(strings.ReplaceAll(p, "/", "\x01"), strings.ReplaceAll(n, "/", "\x01"))
	return err == nil && match
}

type walker struct {
	modules *Modules
	index   map[string]int
	builtin map[string]bool
	seen    map[string]bool
	out     []*Module
}

// add puts all modules of a name into the list and reports whether there are any, loadable or built in.
func (w *walker) add(name string) bool {
	plain := strings.ReplaceAll(name, "-", "_")
	if i, ok := w.index[plain]; ok {
		w.visit(i)
		return true
	}
	if w.builtin[plain] {
		return true
	}
	names, known := w.modules.Lookup(name)
	for _, n := range names {
		w.visit(w.index[n])
	}
	return known
}

func (w *walker) visit(i int) {
	mod := &w.modules.Loadable[i]
	if w.seen[mod.Name] {
		return
	}
	w.seen[mod.Name] = true
	pre, post := parseSoftdeps(mod.Softdeps)
	for _, s := range pre {
		w.add(s)
	}
	for j := len(mod.Depends) - 1; j >= 0; j-- {
		if d, ok := w.index[mod.Depends[j]]; ok {
			w.visit(d)
		}
	}
	w.out = append(w.out, mod)
	for _, s := range post {
		w.add(s)
	}
}

// parseSoftdeps reads "pre: a b post: c" (modprobe.d(5), softdep).
func parseSoftdeps(lines []string) (pre, post []string) {
	for _, line := range lines {
		var into *[]string
		for _, word := range strings.Fields(line) {
			switch {
			case word == "pre:":
				into = &pre
			case word == "post:":
				into = &post
			case into != nil:
				*into = append(*into, word)
			}
		}
	}
	return pre, post
}

// Restrict returns what is known of the given modules alone, in the kernel's own order, so that the index files of an
// initramfs name no module that is not in it. What is built in stays.
func (m *Modules) Restrict(keep []*Module) *Modules {
	kept := map[string]bool{}
	for _, k := range keep {
		kept[k.Name] = true
	}
	out := &Modules{Version: m.Version, Builtin: m.Builtin, BuiltinAliases: m.BuiltinAliases}
	for _, mod := range m.Loadable {
		if kept[mod.Name] {
			out.Loadable = append(out.Loadable, mod)
		}
	}
	return out
}
