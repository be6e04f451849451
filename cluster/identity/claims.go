package identity

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxIndex bounds an index that is read as a whole, in bytes: 10,000 nodes with dozens of values each.
const maxIndex = 32 << 20

// Claims are what the configuration says of the hardware of a node, in the form of Normalize.
type Claims struct {
	Node string
	MACs []string
	// Serial and UUID are empty where nothing is said of them.
	Serial, UUID string
}

// Claims lists all nodes, in the order of their names. It reads the whole index.
func (x *Index) Claims() ([]Claims, error) {
	if x.size > maxIndex {
		return nil, fmt.Errorf("read identity index: it has %d bytes, more than %d", x.size, maxIndex)
	}
	from := bufio.NewReaderSize(io.NewSectionReader(x.r, int64(len(header)), x.size-int64(len(header))), 64<<10)
	of := map[string]*Claims{}
	for {
		line, err := from.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read identity index: %w", err)
		}
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 3 {
			return nil, fmt.Errorf("read identity index: the line %.64q is malformed; the index is damaged", line)
		}
		kind, value, name := Kind(parts[0]), parts[1], parts[2]
		if norm, err := normalName(name); err != nil || norm != name {
			return nil, fmt.Errorf("read identity index: %.64q is not a node name; the index is damaged", name)
		}
		c := of[name]
		if c == nil {
			c = &Claims{Node: name}
			of[name] = c
		}
		switch kind {
		case MAC:
			c.MACs = append(c.MACs, value)
		case Serial:
			c.Serial = value
		case UUID:
			c.UUID = value
		}
	}
	out := make([]Claims, 0, len(of))
	for _, c := range of {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Claims) int { return strings.Compare(a.Node, b.Node) })
	return out, nil
}

// Compare holds the claims to what a machine has: pro is what both have, contra what the claims say otherwise. What the
// machine does not know of itself, and what nothing is claimed of, speaks for neither.
func (c Claims) Compare(f Facts) (pro, contra []string) {
	var have []string
	for _, m := range f.MACs[:min(len(f.MACs), maxFacts)] {
		if norm, err := Normalize(MAC, m); err == nil {
			have = append(have, norm)
		}
	}
	found := false
	for _, m := range c.MACs {
		if slices.Contains(have, m) {
			found = true
			pro = append(pro, "card "+m)
		}
	}
	if len(c.MACs) > 0 && len(have) > 0 && !found {
		text := "card " + c.MACs[0]
		if n := len(c.MACs) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		contra = append(contra, text)
	}
	for _, one := range []struct {
		kind              Kind
		what, claim, seen string
	}{{Serial, "serial number ", c.Serial, f.Serial}, {UUID, "UUID ", c.UUID, f.UUID}} {
		seen, err := Normalize(one.kind, one.seen)
		switch {
		case one.claim == "" || err != nil:
		case seen == one.claim:
			pro = append(pro, one.what+one.claim)
		default:
			contra = append(contra, one.what+one.claim)
		}
	}
	return pro, contra
}
