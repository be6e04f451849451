// Package modules loads kernel modules with what they depend on, by name or by the modalias of a device (depmod.d(5),
// modules.dep(5)). It reads the text indexes of a /lib/modules/VERSION directory and nothing else.
//
// u-root's kmodule is not used: it has no aliases and no soft dependencies, and its decompressors (zstd, xz, gzip) are
// more than half of the size that stage1 has without them. The kernel itself decompresses what is compressed, of the
// initramfs and of the root (CONFIG_MODULE_DECOMPRESS).
package modules

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// maxIndex bounds one index file in bytes; Debian's largest has about 2 MB.
const maxIndex = 16 << 20

// Index is what depmod knows about a directory of modules.
type Index struct {
	dep     map[string]entry
	builtin map[string]bool
	pre     map[string][]string
	aliases []alias
}

type entry struct {
	file string
	deps []string
}

// alias maps modaliases to a module. prefix is the pattern's text before its first wildcard: almost all patterns are
// dismissed by it.
type alias struct {
	prefix, pattern, module string
}

// ReadIndex reads modules.dep, modules.alias, modules.softdep and modules.builtin at the root of dir. Only modules.dep
// must be there. Of modules.alias only lines are kept whose pattern begins with one of prefixes; no prefixes means all.
func ReadIndex(dir fs.FS, prefixes ...string) (*Index, error) {
	x := &Index{dep: map[string]entry{}, builtin: map[string]bool{}, pre: map[string][]string{}}
	for _, f := range []struct {
		name     string
		optional bool
		line     func(string)
	}{
		{"modules.dep", false, x.addDep},
		{"modules.builtin", true, func(l string) { x.builtin[Name(l)] = true }},
		{"modules.softdep", true, x.addSoftdep},
		{"modules.alias", true, func(l string) { x.addAlias(l, prefixes) }},
	} {
		text, err := readText(dir, f.name)
		if f.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("kernel modules: %w", err)
		}
		for text != "" {
			var line string
			line, text, _ = strings.Cut(text, "\n")
			if line != "" && line[0] != '#' {
				f.line(line)
			}
		}
	}
	return x, nil
}

func readText(dir fs.FS, name string) (string, error) {
	f, err := dir.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxIndex {
		return "", fmt.Errorf("%s has more than %d bytes", name, maxIndex)
	}
	return string(b), nil
}

// Name returns the name of the module in a file such as kernel/fs/overlayfs/overlay.ko.xz; "-" and "_" are the same.
func Name(file string) string {
	base, _, _ := strings.Cut(path.Base(strings.TrimSpace(file)), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

func (x *Index) addDep(line string) {
	file, deps, ok := strings.Cut(line, ":")
	if !ok {
		return
	}
	e := entry{file: file}
	for _, d := range strings.Fields(deps) {
		e.deps = append(e.deps, Name(d))
	}
	x.dep[Name(file)] = e
}

// addSoftdep keeps the modules that "softdep NAME pre: A B post: C" wants first.
func (x *Index) addSoftdep(line string) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "softdep" {
		return
	}
	pre := false
	for _, w := range words[2:] {
		switch {
		case strings.HasSuffix(w, ":"):
			pre = w == "pre:"
		case pre:
			x.pre[Name(words[1])] = append(x.pre[Name(words[1])], Name(w))
		}
	}
}

func (x *Index) addAlias(line string, prefixes []string) {
	rest, ok := strings.CutPrefix(line, "alias ")
	if !ok {
		return
	}
	pattern, module, ok := strings.Cut(rest, " ")
	if !ok || !hasAnyPrefix(pattern, prefixes) {
		return
	}
	prefix := pattern
	if i := strings.IndexAny(pattern, "*?[\\"); i >= 0 {
		prefix = pattern[:i]
	}
	x.aliases = append(x.aliases, alias{prefix: prefix, pattern: pattern, module: Name(module)})
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return len(prefixes) == 0
}

// Has says whether a module is there, in a file or built in.
func (x *Index) Has(name string) bool {
	name = Name(name)
	_, ok := x.dep[name]
	return ok || x.builtin[name]
}

// Match returns the names of the modules, among those with a file, that want a device with the modalias.
func (x *Index) Match(modalias string) []string {
	var out []string
	for _, a := range x.aliases {
		if !a.matches(modalias) {
			continue
		}
		if _, ok := x.dep[a.module]; ok {
			out = append(out, a.module)
		}
	}
	return out
}

func (a alias) matches(modalias string) bool {
	return strings.HasPrefix(modalias, a.prefix) && glob(a.pattern[len(a.prefix):], modalias[len(a.prefix):])
}

// glob is fnmatch(3) with * ? and [..], as depmod's aliases use it. Only the last star is ever tried again, so its time
// is bounded by the product of both lengths.
func glob(pattern, s string) bool {
	starPattern, starS, haveStar := "", "", false
	for {
		if pattern != "" && pattern[0] == '*' {
			pattern = pattern[1:]
			starPattern, starS, haveStar = pattern, s, true
			continue
		}
		if s == "" {
			return pattern == ""
		}
		if rest, ok := globOne(pattern, s[0]); ok {
			pattern, s = rest, s[1:]
			continue
		}
		if !haveStar || starS == "" {
			return false
		}
		starS = starS[1:]
		pattern, s = starPattern, starS
	}
}

// globOne matches one byte against the first element of pattern and returns the rest of pattern.
func globOne(pattern string, c byte) (string, bool) {
	if pattern == "" {
		return "", false
	}
	if pattern[0] == '?' {
		return pattern[1:], true
	}
	if pattern[0] != '[' {
		return pattern[1:], pattern[0] == c
	}
	end := strings.IndexByte(pattern, ']')
	if end < 0 {
		return "", false
	}
	set, found := pattern[1:end], false
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			found = found || set[i] <= c && c <= set[i+2]
			i += 2
			continue
		}
		found = found || set[i] == c
	}
	return pattern[end+1:], found
}
