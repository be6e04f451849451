package accounts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"spore/cluster/check"
)

// LockedFile is the name of the file with the ids of a configuration folder.
const LockedFile = "accounts.yaml"

// Bounds of the file.
const (
	// MaxLockedSize is its size in bytes.
	MaxLockedSize = 1 << 20
	// maxLocked is how many users, and how many groups, it holds.
	maxLocked = 2000
)

// lockedHead is at the top of each file.
const lockedHead = "# Ids of users and groups that packages make and Spore does not know; written by `spore lock`. " +
	"Keep it:\n# files on state partitions carry these numbers.\n"

// Locked holds the ids, by name, of users and groups that are not in the fixed table.
type Locked struct {
	Users  map[string]uint32 `json:"users"`
	Groups map[string]uint32 `json:"groups"`
}

// Empty reports whether there is no id. A nil one is empty.
func (l *Locked) Empty() bool { return l == nil || len(l.Users)+len(l.Groups) == 0 }

// Encode writes the file: sorted YAML with one line for each id.
func (l *Locked) Encode() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, list := range []struct {
		key string
		ids map[string]uint32
	}{{"users", l.Users}, {"groups", l.Groups}} {
		ids := &yaml.Node{Kind: yaml.MappingNode}
		if len(list.ids) == 0 {
			ids.Style = yaml.FlowStyle // {}
		}
		for _, name := range slices.Sorted(maps.Keys(list.ids)) {
			ids.Content = append(ids.Content, textNode(name),
				&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatUint(uint64(list.ids[name]), 10)})
		}
		root.Content = append(root.Content, textNode(list.key), ids)
	}
	var b bytes.Buffer
	b.WriteString(lockedHead)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(root), e.Close()); err != nil {
		return nil, fmt.Errorf("encode %s: %w", LockedFile, err)
	}
	return b.Bytes(), nil
}

func textNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// lockedReader collects everything that is wrong with a file.
type lockedReader struct {
	fixed  *Table
	report check.Report
}

// ParseLocked reads the file of a configuration folder. The report names all that is wrong with it, with places; the
// ids are nil if there is an error.
func ParseLocked(data []byte, fixed *Table) (*Locked, check.Report) {
	r := &lockedReader{fixed: fixed}
	l := r.file(data)
	if r.report.Failed() {
		return nil, r.report.Sorted()
	}
	return l, nil
}

func (r *lockedReader) fail(line, column int, format string, args ...any) {
	r.report = append(r.report, check.Problem{
		Severity: check.Error, File: LockedFile, Line: max(line, 1), Column: max(column, 1),
		Message: fmt.Sprintf(format, args...),
	})
}

// yamlLine takes the line out of the parser's message.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (r *lockedReader) file(data []byte) *Locked {
	l := &Locked{Users: map[string]uint32{}, Groups: map[string]uint32{}}
	if len(data) > MaxLockedSize {
		r.fail(1, 1, "it has more than %d bytes; restore it", MaxLockedSize)
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		r.fail(1, 1, "it is empty; restore it: files on state partitions carry the numbers that it had")
		return nil
	} else if err != nil {
		r.syntax(err)
		return nil
	}
	if err := d.Decode(&second); err == nil {
		r.fail(second.Line, second.Column, "a second YAML document begins here; a file holds one: remove the --- line")
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
	}
	r.top(doc.Content[0], l)
	return l
}

func (r *lockedReader) syntax(err error) {
	line := 1
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits only
	}
	r.fail(line, 1, "not valid YAML: %s", strings.TrimPrefix(yamlLine.ReplaceAllString(err.Error(), ""), "yaml: "))
}

func (r *lockedReader) top(n *yaml.Node, l *Locked) {
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, n.Column, "the file is not a mapping; write users: and groups: with lines of the form NAME: ID")
		return
	}
	r.each(n, func(k, v *yaml.Node) {
		switch k.Value {
		case "users":
			r.ids("user", v, r.fixed.uid, r.fixed.userOf, r.fixed.gid, l.Users)
		case "groups":
			r.ids("group", v, r.fixed.gid, r.fixed.groupOf, r.fixed.uid, l.Groups)
		default:
			r.fail(k.Line, k.Column, "unknown key %q%s; known keys: groups, users",
				check.Clip(k.Value), check.Suggest(k.Value, []string{"groups", "users"}))
		}
	})
}

// each calls fn for the keys of a mapping that are texts and there for the first time.
func (r *lockedReader) each(n *yaml.Node, fn func(k, v *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode || k.Anchor != "" || k.ShortTag() != "!!str":
			r.fail(k.Line, k.Column, "this key is not a plain text; put a name such as true into quotes")
		case first[k.Value] != 0:
			r.fail(k.Line, k.Column, "the key %q is here twice, first in line %d; keep one of them",
				check.Clip(k.Value), first[k.Value])
		default:
			first[k.Value] = k.Line
			fn(k, v)
		}
	}
}

// ids reads users or groups. fixed and names are what the fixed table has of this kind, twins the ids of the other
// kind.
func (r *lockedReader) ids(kind string, n *yaml.Node, fixed map[string]uint32, names map[uint32]string,
	twins, into map[string]uint32) {
	if n.Kind != yaml.MappingNode || n.Anchor != "" {
		r.fail(n.Line, n.Column, "%ss is not a mapping; write lines of the form NAME: ID below it, or {}", kind)
		return
	}
	if len(n.Content)/2 > maxLocked {
		r.fail(n.Line, n.Column, "%ss has %d entries; at most %d are read", kind, len(n.Content)/2, maxLocked)
		return
	}
	names = maps.Clone(names)
	r.each(n, func(k, v *yaml.Node) {
		if err := checkName(k.Value); err != nil {
			r.fail(k.Line, k.Column, "%v", err)
			return
		}
		id, err := strconv.ParseUint(v.Value, 10, 32)
		if v.Kind != yaml.ScalarNode || v.Anchor != "" || v.ShortTag() != "!!int" || err != nil ||
			v.Value != strconv.FormatUint(id, 10) {
			r.fail(v.Line, v.Column, "the id of %s %s is not a whole number in decimal digits; write one such as 512",
				kind, k.Value)
			return
		}
		have, known := fixed[k.Value]
		twin, hasTwin := twins[k.Value]
		other, taken := names[uint32(id)]
		switch {
		case known && uint64(have) != id:
			r.fail(v.Line, v.Column, "%s %s has the id %d in each image; remove this line, and give files on state "+
				"partitions that carry %d to %d", kind, k.Value, have, id, have)
		case known: // the same
		case !Given(uint32(id)) && !(hasTwin && uint64(twin) == id):
			r.fail(v.Line, v.Column, "the id %d of %s %s is not one that a build gives: %s", id, kind, k.Value, givenText)
		case taken:
			r.fail(v.Line, v.Column, "the id %d of %s %s is that of %s; restore the number that it had",
				id, kind, k.Value, other)
		default:
			names[uint32(id)], into[k.Value] = k.Value, uint32(id)
		}
	})
}
