package logs

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"spore/wire/nodeapi"
)

const (
	// maxKept bounds what is kept of one node's answer, in bytes.
	maxKept = 64 << 20
	// maxPage bounds what is kept of all answers for a page, in bytes: a node that serves it has services on the same disk.
	maxPage = 256 << 20
)

// errSpool is the error when this machine cannot keep what nodes answer.
var errSpool = errors.New("the nodes' answers cannot be kept; set TMPDIR to a folder with more room, or ask for less")

// spool keeps what nodes answer in files, until all have answered: many nodes have more lines than a computer's memory.
type spool struct{ files []*spoolFile }

// spoolFile is what one node has answered: its lines, as they came.
type spoolFile struct {
	// node is empty where a store answers, whose lines are of several.
	node string
	f    *os.File
	w    *bufio.Writer
	// lines and size are what it has, size in bytes; most is how many lines the node was asked for.
	lines, most int
	size, room  int64
}

// newSpool has room for at most so many bytes of each answer.
func newSpool(asks []Ask, room int64) (*spool, error) {
	s := &spool{}
	for _, a := range asks {
		f, err := unnamed()
		if err != nil {
			s.close()
			return nil, fmt.Errorf("%w: %w", errSpool, err)
		}
		s.files = append(s.files, &spoolFile{node: a.node, f: f, w: bufio.NewWriter(f), most: a.Lines, room: room})
	}
	return s, nil
}

// unnamed is a file that is gone when it is closed, or when the command ends in any way: whoever reads its output may
// end it by a signal (SIGPIPE).
func unnamed() (*os.File, error) {
	f, err := os.CreateTemp("", "spore-logs-*") // Its mode is 0600.
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *spool) close() {
	for _, f := range s.files {
		f.f.Close()
	}
}

// add keeps a line. A node may say in one line more than it was asked for that there would be others.
func (f *spoolFile) add(l line) error {
	size := f.size + int64(len(l.raw)) + 1
	switch {
	case f.lines > f.most:
		return fmt.Errorf("it sends more than the %d lines that it was asked for", f.most)
	case size > f.room:
		return fmt.Errorf("its lines have more than %d MiB; ask for fewer --lines, or a shorter time", f.room>>20)
	}
	f.lines, f.size = f.lines+1, size
	_, err := f.w.Write(l.raw)
	if err == nil {
		err = f.w.WriteByte('\n')
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	return nil
}

// merge calls each for all lines in the order of time. The lines of one node stay in its order, whatever times they
// have: its clock may have been set in between.
func (s *spool) merge(each func(line) error) error {
	var heads heads
	for i, f := range s.files {
		if err := f.w.Flush(); err != nil {
			return fmt.Errorf("%w: %w", errSpool, err)
		}
		if _, err := f.f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		h := &head{rank: i, node: f.node, in: bufio.NewReaderSize(f.f, 64<<10)}
		more, err := h.next()
		if err != nil {
			return err
		}
		if more {
			heads = append(heads, h)
		}
	}
	heap.Init(&heads)
	for len(heads) > 0 {
		h := heads[0]
		if err := each(h.line); err != nil {
			return err
		}
		more, err := h.next()
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&heads, 0)
		} else {
			heap.Pop(&heads)
		}
	}
	return nil
}

// head is the next line of one node.
type head struct {
	rank int
	node string
	in   *bufio.Reader
	line line
	// at is its time, or that of the line before where it is earlier or has none.
	at time.Time
}

func (h *head) next() (bool, error) {
	raw, err := h.in.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	e, err := nodeapi.ParseEntry(raw)
	if err != nil {
		return false, err
	}
	h.line = line{h.node, e, raw}
	if h.node == "" {
		if h.line.node, err = nodeOf(raw); err != nil {
			return false, err
		}
	}
	if e.Time.After(h.at) {
		h.at = e.Time
	}
	return true, nil
}

// nodeOf is the node that a store has a line of.
func nodeOf(raw []byte) (string, error) {
	var of struct {
		Node string `json:"node"`
	}
	if err := json.Unmarshal(raw, &of); err != nil || !nodeapi.IsNodeName(of.Node) {
		return "", errors.New("it answers with a line of no node")
	}
	return of.Node, nil
}

// heads is a heap (container/heap), the earliest on top.
type heads []*head

func (h heads) Len() int { return len(h) }
func (h heads) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].rank < h[j].rank
}
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)   { *h = append(*h, x.(*head)) }
func (h *heads) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// labelled is an entry with the fields cluster and node, in the place of those that it may have itself.
func labelled(raw []byte, cluster, node string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("an entry of %s is malformed: %w", node, err)
	}
	for name, value := range map[string]string{"cluster": cluster, "node": node} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields[name] = text
	}
	return json.Marshal(fields)
}
