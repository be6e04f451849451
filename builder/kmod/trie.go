package kmod

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"
)

// The binary index is a trie with compressed paths; the format is described at the head of kmod's
// libkmod/libkmod-index.c. All integers are big-endian.
const (
	indexMagic     = 0xB007F457
	indexVersion   = 2<<16 | 1
	indexPrefix    = 0x80000000
	indexValues    = 0x40000000
	indexChildren  = 0x20000000
	indexOffset    = 0x0FFFFFFF
	indexHeaderLen = 12
)

// entry is one value of a key. Of several, the one with the lowest priority number is listed first.
type entry struct {
	key, value string
	priority   uint32
}

type trieNode struct {
	prefix   string
	values   []entry
	children []*trieNode // sorted by label
	labels   []byte
	size     uint32 // of this node
	total    uint32 // of this node and all below it
}

// encodeIndex writes the entries as a binary index. Of two entries with one key and priority the later is listed
// first, as depmod does. Keys and values have to be 7-bit ASCII without NUL.
func encodeIndex(entries []entry) ([]byte, error) {
	sorted := make([]entry, len(entries))
	for i, e := range entries {
		for _, s := range []string{e.key, e.value} {
			if err := checkASCII(s); err != nil {
				return nil, err
			}
		}
		sorted[len(entries)-1-i] = e
	}
	sort.SliceStable(sorted, func(a, b int) bool {
		if sorted[a].key != sorted[b].key {
			return sorted[a].key < sorted[b].key
		}
		return sorted[a].priority < sorted[b].priority
	})
	root := &trieNode{}
	root.fill(sorted, 0)
	root.measure()
	if uint64(root.total)+indexHeaderLen > indexOffset {
		return nil, fmt.Errorf("the index has %d bytes, more than the format can hold", root.total)
	}
	out := make([]byte, 0, indexHeaderLen+root.total)
	be := binary.BigEndian
	out = be.AppendUint32(out, indexMagic)
	out = be.AppendUint32(out, indexVersion)
	out = be.AppendUint32(out, indexHeaderLen|root.flags())
	return root.append(out), nil
}

func checkASCII(s string) error {
	for i := range len(s) {
		if s[i] == 0 || s[i] >= 0x80 {
			return fmt.Errorf("%q cannot be indexed: only 7-bit ASCII is supported", s)
		}
	}
	return nil
}

// fill makes the values and children of a node from the sorted entries that share its path, which ends before the
// byte at depth.
func (n *trieNode) fill(entries []entry, depth int) {
	for len(entries) > 0 && len(entries[0].key) == depth {
		n.values = append(n.values, entries[0])
		entries = entries[1:]
	}
	for len(entries) > 0 {
		label := entries[0].key[depth]
		end := sort.Search(len(entries), func(i int) bool { return entries[i].key[depth] > label })
		group := entries[:end]
		entries = entries[end:]
		common := commonLen(group[0].key, group[len(group)-1].key)
		child := &trieNode{prefix: group[0].key[depth+1 : common]}
		child.fill(group, common)
		n.children = append(n.children, child)
		n.labels = append(n.labels, label)
	}
}

func commonLen(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

func (n *trieNode) flags() uint32 {
	var f uint32
	if len(n.children) > 0 {
		f |= indexChildren
	}
	if n.prefix != "" {
		f |= indexPrefix
	}
	if len(n.values) > 0 {
		f |= indexValues
	}
	return f
}

// span is the number of slots for children: from the first label to the last.
func (n *trieNode) span() int {
	return int(n.labels[len(n.labels)-1]) - int(n.labels[0]) + 1
}

func (n *trieNode) measure() {
	if n.prefix != "" {
		n.size += uint32(len(n.prefix)) + 1
	}
	if len(n.children) > 0 {
		n.size += 2 + 4*uint32(n.span())
	}
	if len(n.values) > 0 {
		n.size += 4
		for _, v := range n.values {
			n.size += 4 + uint32(len(v.value)) + 1
		}
	}
	n.total = n.size
	for _, c := range n.children {
		c.measure()
		n.total += c.total
	}
}

// append writes the node and then what is below it, children in order.
func (n *trieNode) append(out []byte) []byte {
	be := binary.BigEndian
	next := uint32(len(out)) + n.size
	if n.prefix != "" {
		out = append(append(out, n.prefix...), 0)
	}
	if len(n.children) > 0 {
		first := n.labels[0]
		out = append(out, first, n.labels[len(n.labels)-1])
		slots := make([]byte, 4*n.span())
		for i, c := range n.children {
			be.PutUint32(slots[4*int(n.labels[i]-first):], next|c.flags())
			next += c.total
		}
		out = append(out, slots...)
	}
	if len(n.values) > 0 {
		out = be.AppendUint32(out, uint32(len(n.values)))
		for _, v := range n.values {
			out = be.AppendUint32(out, v.priority)
			out = append(append(out, v.value...), 0)
		}
	}
	for _, c := range n.children {
		out = c.append(out)
	}
	return out
}

// normalize makes the key of an alias: dashes become underscores, except between brackets. ok is false when a bracket
// has no partner; such aliases are left out of the index, as in depmod.
func normalize(alias string) (key string, ok bool) {
	var b bytes.Buffer
	in := false
	for i := range len(alias) {
		c := alias[i]
		switch {
		case c == '[' && !in:
			in = true
		case c == ']':
			if !in {
				return "", false
			}
			in = false
		case c == '-' && !in:
			c = '_'
		}
		b.WriteByte(c)
	}
	return b.String(), !in
}
