package regex

import (
	"fmt"

	"spore/builder/replay/files"
)

type op uint8

const (
	opSet    op = iota // one byte of set
	opSplit            // first x, then y
	opJump             // go on at x
	opSave             // the position into slot x
	opMoved            // go on only if the position is not the one in slot x: an empty round ends a loop
	opAssert           // a place, x is the byte that names it
	opRef              // what group x matched
	opMatch
)

type inst struct {
	op   op
	x, y int
	set  *set
	many bool // of an assertion: ^ and $ match at lines
}

// compiler turns nodes into instructions.
type compiler struct {
	prog     []inst
	slots    int
	many     bool
	backrefs bool
}

func (c *compiler) emit(i inst) error {
	if len(c.prog) >= maxProgram {
		return fmt.Errorf("a regular expression of over %d steps: %w", maxProgram, files.ErrBound)
	}
	c.prog = append(c.prog, i)
	return nil
}

func (c *compiler) node(n *node) error {
	switch n.kind {
	case kindSet:
		return c.emit(inst{op: opSet, set: &n.set})
	case kindConcat:
		for _, sub := range n.subs {
			if err := c.node(sub); err != nil {
				return err
			}
		}
		return nil
	case kindAlt:
		return c.alternatives(n.subs)
	case kindRepeat:
		return c.repeat(n)
	case kindGroup:
		if err := c.emit(inst{op: opSave, x: 2 * n.n}); err != nil {
			return err
		}
		if err := c.node(n.subs[0]); err != nil {
			return err
		}
		return c.emit(inst{op: opSave, x: 2*n.n + 1})
	case kindRef:
		return c.emit(inst{op: opRef, x: n.n})
	case kindAssert:
		return c.emit(inst{op: opAssert, x: int(n.assert), many: c.many})
	}
	return nil
}

func (c *compiler) alternatives(subs []*node) error {
	var ends []int
	for i, sub := range subs {
		split := len(c.prog)
		if i < len(subs)-1 {
			if err := c.emit(inst{op: opSplit, x: split + 1}); err != nil {
				return err
			}
		}
		if err := c.node(sub); err != nil {
			return err
		}
		if i < len(subs)-1 {
			ends = append(ends, len(c.prog))
			if err := c.emit(inst{op: opJump}); err != nil {
				return err
			}
			c.prog[split].y = len(c.prog)
		}
	}
	for _, e := range ends {
		c.prog[e].x = len(c.prog)
	}
	return nil
}

func (c *compiler) repeat(n *node) error {
	for range n.min {
		if err := c.node(n.subs[0]); err != nil {
			return err
		}
	}
	if n.max < 0 {
		return c.loop(n.subs[0])
	}
	var splits []int
	for range n.max - n.min {
		splits = append(splits, len(c.prog))
		if err := c.emit(inst{op: opSplit, x: len(c.prog) + 1}); err != nil {
			return err
		}
		if err := c.node(n.subs[0]); err != nil {
			return err
		}
	}
	for _, s := range splits {
		c.prog[s].y = len(c.prog)
	}
	return nil
}

// loop repeats without end. Where states may be visited again, a round that may be empty has a guard against going on
// for ever.
func (c *compiler) loop(sub *node) error {
	split, slot := len(c.prog), c.slots
	guarded := c.backrefs && sub.kind != kindSet
	if err := c.emit(inst{op: opSplit, x: split + 1}); err != nil {
		return err
	}
	if guarded {
		c.slots++
		if err := c.emit(inst{op: opSave, x: slot}); err != nil {
			return err
		}
	}
	if err := c.node(sub); err != nil {
		return err
	}
	if guarded {
		if err := c.emit(inst{op: opMoved, x: slot}); err != nil {
			return err
		}
	}
	if err := c.emit(inst{op: opJump, x: split}); err != nil {
		return err
	}
	c.prog[split].y = len(c.prog)
	return nil
}

// firstBytes returns the bytes that a match can begin with, nil if a match can be empty or begin with any byte.
func firstBytes(prog []inst) *set {
	var out set
	seen := make([]bool, len(prog))
	todo := []int{0}
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch i := prog[pc]; i.op {
		case opSet:
			for k := range out {
				out[k] |= i.set[k]
			}
		case opSplit:
			todo = append(todo, i.x, i.y)
		case opJump:
			todo = append(todo, i.x)
		case opMatch, opRef:
			return nil
		default:
			todo = append(todo, pc+1)
		}
	}
	return &out
}

// frame is a way that is not followed yet, or, with pc -1, a slot to put back.
type frame struct{ pc, pos, slot, old int32 }

// machine runs the instructions on one text.
type machine struct {
	r         *Regex
	text      []byte
	caps      []int
	best      []int
	low, high int // positions whose states may be visited
	steps     int
}

// forget clears the visited states for the next match.
func (m *machine) forget() {
	n := len(m.r.prog)
	clear(m.r.visited[m.low*n/64 : min(((m.high+1)*n+63)/64, len(m.r.visited))])
}

func (m *machine) run(start int) error {
	for i := range m.caps {
		m.caps[i] = -1
	}
	m.caps[0] = start
	m.r.stack = append(m.r.stack[:0], frame{pc: 0, pos: int32(start)})
	for len(m.r.stack) > 0 {
		f := m.r.stack[len(m.r.stack)-1]
		m.r.stack = m.r.stack[:len(m.r.stack)-1]
		if f.pc < 0 {
			m.caps[f.slot] = int(f.old)
			continue
		}
		if err := m.follow(int(f.pc), int(f.pos)); err != nil {
			return err
		}
		if m.best != nil && m.best[1] == len(m.text) {
			return nil // no match is longer
		}
	}
	return nil
}

// follow goes one way until it fails or matches.
func (m *machine) follow(pc, pos int) error {
	for {
		if m.seen(pc, pos) {
			return nil
		}
		if m.steps++; m.r.backrefs && m.steps > maxSteps {
			return fmt.Errorf("match a regular expression with back-references: over %d steps: %w", maxSteps,
				files.ErrBound)
		}
		if len(m.r.stack) > maxStack {
			return fmt.Errorf("match a regular expression: over %d ways to try: %w", maxStack, files.ErrBound)
		}
		i := &m.r.prog[pc]
		pc++
		switch i.op {
		case opSet:
			if pos == len(m.text) || !i.set.has(m.text[pos]) {
				return nil
			}
			pos++
		case opSplit:
			m.r.stack = append(m.r.stack, frame{pc: int32(i.y), pos: int32(pos)})
			pc = i.x
		case opJump:
			pc = i.x
		case opSave:
			m.r.stack = append(m.r.stack, frame{pc: -1, slot: int32(i.x), old: int32(m.caps[i.x])})
			m.caps[i.x] = pos
		case opMoved:
			if m.caps[i.x] == pos {
				return nil
			}
		case opAssert:
			if !m.holds(byte(i.x), i.many, pos) {
				return nil
			}
		case opRef:
			n, ok := m.same(i.x, pos)
			if !ok {
				return nil
			}
			pos += n
		case opMatch:
			if m.best == nil || pos > m.best[1] {
				m.best = append(m.best[:0], m.caps...)
				m.best[1] = pos
			}
			return nil
		}
	}
}

func (m *machine) seen(pc, pos int) bool {
	if m.r.backrefs {
		return false
	}
	m.low, m.high = min(m.low, pos), max(m.high, pos)
	at := pos*len(m.r.prog) + pc
	if m.r.visited[at/64]&(1<<(at%64)) != 0 {
		return true
	}
	m.r.visited[at/64] |= 1 << (at % 64)
	return false
}

func (m *machine) holds(assert byte, many bool, pos int) bool {
	before := pos > 0 && isWord(m.text[pos-1])
	after := pos < len(m.text) && isWord(m.text[pos])
	switch assert {
	case '^':
		return pos == 0 || many && m.text[pos-1] == '\n'
	case '$':
		return pos == len(m.text) || many && m.text[pos] == '\n'
	case '`':
		return pos == 0
	case '\'':
		return pos == len(m.text)
	case '<':
		return !before && after
	case '>':
		return before && !after
	case 'b':
		return before != after
	}
	return before == after // \B
}

// same answers how long the text of a group is, if it stands again at a position.
func (m *machine) same(group, pos int) (int, bool) {
	lo, hi := m.caps[2*group], m.caps[2*group+1]
	if lo < 0 || hi < lo || pos+hi-lo > len(m.text) {
		return 0, false
	}
	for k := range hi - lo {
		a, b := m.text[lo+k], m.text[pos+k]
		if a != b && !(m.r.fold && a|32 == b|32 && a|32 >= 'a' && a|32 <= 'z') {
			return 0, false
		}
	}
	return hi - lo, true
}
