package cluster

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Options says how severe Validate is.
type Options struct {
	// Strict makes every warning an error.
	Strict bool
}

// Check loads a configuration folder and validates it: all problems of all files, sorted.
func Check(fsys fs.FS, o Options) (*Config, Report) {
	c, report := Load(fsys)
	return c, append(report, Validate(c, o)...).sorted()
}

// Validate checks what the values of a loaded configuration mean. What Load reported is not reported again.
func Validate(c *Config, o Options) Report {
	k := &checker{c: c, strict: o.Strict, byName: map[string]int{}, files: map[string]int{}}
	if c.cluster == nil {
		return nil
	}
	for i, n := range c.Cluster.Nodes {
		if _, twice := k.byName[n.Name]; !twice {
			k.byName[n.Name] = i
		}
	}
	for i, f := range c.NodeFiles {
		// Where Load found no name, or where two files claim a node, the file's own name tells whom it is about.
		base := strings.TrimSuffix(path.Base(c.nodeFiles[i].path), ".yaml")
		name := cmp.Or(f.Node, base)
		if _, twice := k.files[name]; !twice || name == base {
			k.files[name] = i
		}
	}
	if c.cluster.root != nil {
		k.checkCluster()
		k.checkNetwork()
		k.checkNodes()
		k.checkRoles()
		k.checkNodeFiles()
	}
	k.checkServices()
	k.checkPorts()
	k.checkImage()
	return k.report.sorted()
}

// checker carries one run of Validate.
type checker struct {
	c      *Config
	strict bool
	report Report

	// byName and files find the first node, and the first node file, of a name.
	byName, files map[string]int
	// Networks that were valid.
	subnets, pods, services []netip.Prefix
	// reserved holds the addresses that no node may have, and what they are.
	reserved map[netip.Addr]string
	// owners says which node has an address.
	owners map[netip.Addr]int
	// compared counts the words that suggestOf looked at.
	compared int
}

// maxCompared bounds the search for nearly right words in long lists, such as the nodes.
const maxCompared = 200_000

// suggestOf is suggest for a list that may be long.
func (k *checker) suggestOf(wrong string, known []string) string {
	if k.compared += len(known); k.compared > maxCompared {
		return ""
	}
	return suggest(wrong, known)
}

// place is where a problem is: a path of keys and indexes in a file.
type place struct {
	src  *source
	path []any
}

func in(src *source, path ...any) place { return place{src, path} }

// then is a place further down.
func (p place) then(path ...any) place { return place{p.src, append(slices.Clone(p.path), path...)} }

func (k *checker) errorf(p place, format string, args ...any)   { k.add(Error, p, format, args...) }
func (k *checker) warningf(p place, format string, args ...any) { k.add(Warning, p, format, args...) }
func (k *checker) notef(p place, format string, args ...any)    { k.add(Note, p, format, args...) }

func (k *checker) add(sev Severity, p place, format string, args ...any) {
	line, column := p.src.at(p.path...)
	if p.src.faulty(line, column) {
		return
	}
	if sev == Warning && k.strict {
		sev = Error
	}
	k.report = append(k.report, Problem{sev, p.src.path, line, column, fmt.Sprintf(format, args...)})
}

// where names a place for the message about another one.
func (p place) where() string {
	line, _ := p.src.at(p.path...)
	return fmt.Sprintf("%s:%d", p.src.path, line)
}

// dnsLabel is a label of RFC 1123, section 2.1, in lower case.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

const labelRule = "write 1 to 63 lower-case letters, digits and -, with a letter or digit at both ends"

// label checks a DNS label. It reports false after an error.
func (k *checker) label(p place, what, value string) bool {
	if dnsLabel.MatchString(value) {
		return true
	}
	k.errorf(p, "%s %q is not a DNS label; %s", what, clip(value), labelRule)
	return false
}

// isDomain reports whether s is a DNS name of labels without a final dot.
func isDomain(s string) bool {
	for _, l := range strings.Split(s, ".") {
		if !dnsLabel.MatchString(l) {
			return false
		}
	}
	return len(s) <= maxName
}

// maxName is the length of a DNS name without its final dot (RFC 1035, section 2.3.4).
const maxName = 253

// unique reports the second use of a value.
type unique struct {
	k    *checker
	seen map[string]place
}

func (k *checker) unique() unique { return unique{k, map[string]place{}} }

// add remembers a value and reports false, with an error, when it was there before.
func (u unique) add(p place, what, value, remedy string) bool {
	if first, twice := u.seen[value]; twice {
		u.k.errorf(p, "%s %q exists already, at %s; %s", what, clip(value), first.where(), remedy)
		return false
	}
	u.seen[value] = p
	return true
}

// oneOf reports a value that is not in the list.
func (k *checker) oneOf(p place, what, value string, known []string) bool {
	if slices.Contains(known, value) {
		return true
	}
	hint := suggest(value, known)
	if hint == "" {
		hint = "; write " + orWords(known)
	}
	k.errorf(p, "%s %q is unknown%s", what, clip(value), hint)
	return false
}

// orWords is "a, b or c".
func orWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// between reports a number out of its bounds.
func (k *checker) between(p place, what string, value, low, high int) bool {
	if value >= low && value <= high {
		return true
	}
	k.errorf(p, "%s %d is out of bounds; write %d to %d", what, value, low, high)
	return false
}
