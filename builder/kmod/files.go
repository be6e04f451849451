package kmod

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// Files returns the index files by their name in the module directory: those that depmod 34 makes.
func (m *Modules) Files() (map[string][]byte, error) {
	out := map[string][]byte{
		"modules.dep":     m.depText(),
		"modules.alias":   m.aliasText(),
		"modules.softdep": m.keyText("# Soft dependencies extracted from modules themselves.", "softdep", softdeps),
		"modules.weakdep": m.keyText("# Weak dependencies extracted from modules themselves.", "weakdep", weakdeps),
		"modules.symbols": m.symbolText(),
		"modules.devname": m.devnameText(),
	}
	for name, entries := range map[string][]entry{
		"modules.dep.bin":           m.depEntries(),
		"modules.alias.bin":         m.aliasEntries(),
		"modules.symbols.bin":       m.symbolEntries(),
		"modules.builtin.bin":       m.builtinEntries(),
		"modules.builtin.alias.bin": m.builtinAliasEntries(),
	} {
		data, err := encodeIndex(entries)
		if err != nil {
			return nil, fmt.Errorf("make %s of kernel %s: %w", name, m.Version, err)
		}
		out[name] = data
	}
	return out, nil
}

func softdeps(m *Module) []string { return m.Softdeps }
func weakdeps(m *Module) []string { return m.Weakdeps }

// byName maps the names of modules to their index in Loadable.
func (m *Modules) byName() map[string]int {
	out := make(map[string]int, len(m.Loadable))
	for i := range m.Loadable {
		out[m.Loadable[i].Name] = i
	}
	return out
}

// depLines are the lines of modules.dep: a path, a colon, and the paths of what it needs.
func (m *Modules) depLines() []string {
	index := m.byName()
	out := make([]string, len(m.Loadable))
	for i, mod := range m.Loadable {
		var b strings.Builder
		b.WriteString(mod.Path + ":")
		for _, d := range mod.Depends {
			if j, ok := index[d]; ok {
				b.WriteString(" " + m.Loadable[j].Path)
			}
		}
		out[i] = b.String()
	}
	return out
}

func (m *Modules) depText() []byte {
	lines := m.depLines()
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func (m *Modules) depEntries() []entry {
	var out []entry
	for i, line := range m.depLines() {
		out = append(out, entry{m.Loadable[i].Name, line, uint32(i)})
	}
	return out
}

func (m *Modules) aliasText() []byte {
	var b bytes.Buffer
	b.WriteString("# Aliases extracted from modules themselves.\n")
	for _, mod := range m.Loadable {
		for _, a := range mod.Aliases {
			fmt.Fprintf(&b, "alias %s %s\n", a, mod.Name)
		}
	}
	return b.Bytes()
}

func (m *Modules) aliasEntries() []entry {
	var out []entry
	for i, mod := range m.Loadable {
		for _, a := range mod.Aliases {
			if key, ok := normalize(a); ok {
				out = append(out, entry{key, mod.Name, uint32(i)})
			}
		}
	}
	return out
}

func (m *Modules) keyText(head, key string, values func(*Module) []string) []byte {
	var b bytes.Buffer
	b.WriteString(head + "\n")
	for i := range m.Loadable {
		for _, v := range values(&m.Loadable[i]) {
			fmt.Fprintf(&b, "%s %s %s\n", key, m.Loadable[i].Name, v)
		}
	}
	return b.Bytes()
}

// symbolEntries are sorted by symbol; of two modules that export one, the later in the order has it.
func (m *Modules) symbolEntries() []entry {
	owner := map[string]int{}
	for i, mod := range m.Loadable {
		for _, s := range mod.Exports {
			owner[s] = i
		}
	}
	out := make([]entry, 0, len(owner))
	for s, i := range owner {
		out = append(out, entry{"symbol:" + s, m.Loadable[i].Name, uint32(i)})
	}
	sort.Slice(out, func(a, b int) bool { return out[a].key < out[b].key })
	return out
}

func (m *Modules) symbolText() []byte {
	var b bytes.Buffer
	b.WriteString("# Aliases for symbols, used by symbol_request().\n")
	for _, e := range m.symbolEntries() {
		fmt.Fprintf(&b, "alias %s %s\n", e.key, e.value)
	}
	return b.Bytes()
}

func (m *Modules) builtinEntries() []entry {
	var out []entry
	for _, name := range m.Builtin {
		out = append(out, entry{key: name})
	}
	return out
}

func (m *Modules) builtinAliasEntries() []entry {
	var out []entry
	for _, a := range m.BuiltinAliases {
		if key, ok := normalize(a.Pattern); ok {
			out = append(out, entry{key: key, value: a.Name})
		}
	}
	return out
}

// devnameText lists the device nodes whose opening loads a module (systemd-tmpfiles and udev make them early).
func (m *Modules) devnameText() []byte {
	var b bytes.Buffer
	for _, mod := range m.Loadable {
		node, kind, major, minor := deviceNode(mod.Aliases)
		if node == "" || kind == 0 {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("# Device nodes to trigger on-demand module loading.\n")
		}
		fmt.Fprintf(&b, "%s %s %c%d:%d\n", mod.Name, node, kind, major, minor)
	}
	return b.Bytes()
}

// deviceNode reads the aliases devname:NODE and {char,block}-major-MAJOR-MINOR.
func deviceNode(aliases []string) (node string, kind byte, major, minor uint) {
	for _, a := range aliases {
		var maj, min uint
		if name, ok := strings.CutPrefix(a, "devname:"); ok {
			node = name
		} else if n, _ := fmt.Sscanf(a, "char-major-%d-%d", &maj, &min); n == 2 {
			kind, major, minor = 'c', maj, min
		} else if n, _ := fmt.Sscanf(a, "block-major-%d-%d", &maj, &min); n == 2 {
			kind, major, minor = 'b', maj, min
		}
		if node != "" && kind != 0 {
			return node, kind, major, minor
		}
	}
	return node, kind, major, minor
}
