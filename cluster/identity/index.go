// Package identity decides which node of the cluster a machine is.
//
// The builder writes a sorted index of everything that identifies a node (Build); the agent opens it in the cluster part
// and looks up what it sees on the machine (Open, Match) by binary search, so that the cost does not grow with the number
// of nodes. Both bring values into the same form first (Normalize).
//
// The index is text: a header line, then one line per identifier, sorted bytewise:
//
//	#spore-identity 1
//	KIND TAB VALUE TAB NODE LF
//
// The package imports the standard library only. It reads no machine state: the agent collects Facts.
package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// header is the first line; its number changes with the format.
const header = "#spore-identity 1\n"

// maxLine bounds a line of the index: kind, value and node name with two tabs and a newline.
const maxLine = 600

// Node is what identifies one node of the cluster. Values need not be normalized.
type Node struct {
	// Name is unique in the cluster.
	Name string
	// Hostnames holds the short and the fully qualified host name.
	Hostnames []string
	MACs      []string
	IPs       []string
	Serial    string
	UUID      string
}

// Build returns the index of the nodes; the same nodes in any order give the same bytes. The error names the first value
// that identifies nothing (see Normalize); validated configurations have none.
func Build(nodes []Node) ([]byte, error) {
	var lines []string
	for _, n := range nodes {
		name, err := normalName(n.Name)
		if err != nil {
			return nil, fmt.Errorf("index node %q: its name %w", n.Name, err)
		}
		add := func(kind Kind, values ...string) error {
			for _, v := range values {
				if v == "" {
					continue
				}
				norm, err := Normalize(kind, v)
				if err != nil {
					return fmt.Errorf("index node %s: %s %q %w", name, kind, v, err)
				}
				lines = append(lines, string(kind)+"\t"+norm+"\t"+name+"\n")
			}
			return nil
		}
		if err := errors.Join(add(Name, n.Name), add(Hostname, n.Hostnames...), add(MAC, n.MACs...), add(IP, n.IPs...),
			add(Serial, n.Serial), add(UUID, n.UUID)); err != nil {
			return nil, err
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	return []byte(header + strings.Join(lines, "")), nil
}

// Index is an open identity index.
type Index struct {
	r    io.ReaderAt
	size int64
}

// Open checks the header of an index of size bytes. It reads nothing else.
func Open(r io.ReaderAt, size int64) (*Index, error) {
	head := make([]byte, len(header))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("open identity index: %w", err)
	}
	if string(head) != header || size < int64(len(header)) {
		return nil, fmt.Errorf("open identity index: it does not begin with %q; the image and its agent are of different versions", strings.TrimSpace(header))
	}
	return &Index{r: r, size: size}, nil
}

// FromBytes opens an index that is held in memory.
func FromBytes(b []byte) (*Index, error) { return Open(bytes.NewReader(b), int64(len(b))) }

// Lookup returns the names of the nodes that have this value, sorted; none when there is no such node or the value
// identifies nothing.
func (x *Index) Lookup(kind Kind, value string) ([]string, error) {
	norm, err := Normalize(kind, value)
	if err != nil {
		return nil, nil
	}
	prefix := []byte(string(kind) + "\t" + norm + "\t")
	// low is the start of a line; every line before it is less than prefix. Lines that start at high or later are not.
	low, high := int64(len(header)), x.size
	for low < high {
		mid := low + (high-low)/2
		start, line, next, err := x.lineAfter(low, mid)
		if err != nil {
			return nil, err
		}
		if start >= high {
			// No line starts between mid and high: what is left is the lines that start before mid.
			high = mid
			continue
		}
		if bytes.Compare(line, prefix) < 0 {
			low = next
		} else {
			high = mid
		}
	}
	return x.collect(low, prefix)
}

// lineAfter returns the first line that starts at or after pos, where low, the start of a line, is at most pos.
func (x *Index) lineAfter(low, pos int64) (start int64, line []byte, next int64, err error) {
	start = pos
	if pos > low {
		// A line starts at pos when the byte before it is a newline.
		_, next, err := x.lineAt(pos - 1)
		if err != nil {
			return 0, nil, 0, err
		}
		start = next
	}
	if start >= x.size {
		return start, nil, start, nil
	}
	line, next, err = x.lineAt(start)
	return start, line, next, err
}

// lineAt returns the bytes from pos to the next newline, and where the following line starts.
func (x *Index) lineAt(pos int64) (line []byte, next int64, err error) {
	buf := make([]byte, min(maxLine, x.size-pos))
	n, err := x.r.ReadAt(buf, pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read identity index at byte %d: %w", pos, err)
	}
	i := bytes.IndexByte(buf[:n], '\n')
	if i < 0 {
		return nil, 0, fmt.Errorf("read identity index at byte %d: a line does not end within %d bytes; the index is damaged", pos, maxLine)
	}
	return buf[:i], pos + int64(i) + 1, nil
}

// maxNodesPerValue bounds what one lookup returns; a valid index has one node for each value.
const maxNodesPerValue = 16

func (x *Index) collect(pos int64, prefix []byte) ([]string, error) {
	var nodes []string
	for pos < x.size && len(nodes) < maxNodesPerValue {
		line, next, err := x.lineAt(pos)
		if err != nil {
			return nil, err
		}
		name, ok := bytes.CutPrefix(line, prefix)
		if !ok {
			break
		}
		if norm, err := normalName(string(name)); err != nil || norm != string(name) {
			return nil, fmt.Errorf("read identity index at byte %d: %q is not a node name; the index is damaged", pos, name)
		}
		nodes = append(nodes, string(name))
		pos = next
	}
	return nodes, nil
}
