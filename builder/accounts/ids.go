package accounts

import (
	"fmt"
	"hash/fnv"
)

// The range of ids that are derived from names. The fixed table has no id of it.
const (
	firstDerived = 200
	lastDerived  = 699
)

// givenText says for messages which ids Given lets pass.
const givenText = "those are 200-699, and 1-99 and 60000-64999 of Debian"

// Global tells whether Debian assigns an id to one name for all systems (Debian policy, section 9.2.2).
func Global(id uint32) bool { return id <= 99 || id >= 60000 && id <= 64999 }

// Given tells whether a name that the fixed table does not have can have this id.
func Given(id uint32) bool {
	return id != 0 && Global(id) || id >= firstDerived && id <= lastDerived
}

// numbers are the ids of users, or of groups.
type numbers struct {
	kind string
	// fixed and locked are what table and lock give, fresh what neither has.
	fixed, locked, fresh map[string]uint32
	// names is the owner of each id of the three.
	names map[uint32]string
}

func newNumbers(kind string, fixed, locked map[string]uint32) *numbers {
	n := &numbers{kind: kind, fixed: fixed, locked: locked, fresh: map[string]uint32{}, names: map[uint32]string{}}
	for name, id := range locked {
		n.names[id] = name
	}
	for name, id := range fixed {
		n.names[id] = name
	}
	return n
}

// of is the id of a name, whether the image has the account or not.
func (n *numbers) of(name string) (uint32, bool) {
	for _, ids := range []map[string]uint32{n.fixed, n.locked, n.fresh} {
		if id, ok := ids[name]; ok {
			return id, true
		}
	}
	return 0, false
}

// free tells whether an id has no owner but this name.
func (n *numbers) free(id uint32, name string) bool {
	owner, taken := n.names[id]
	return !taken || owner == name
}

// choose gives a name its id; twins are the numbers of the other kind.
func (n *numbers) choose(name string, wish uint32, wished bool, twins *numbers) (uint32, error) {
	// A wish outside of Debian's global ids is that of one system, which is not this one.
	wished = wished && Global(wish)
	if id, ok := n.of(name); ok {
		if _, fixed := n.fixed[name]; fixed && wished && id != wish {
			return 0, fmt.Errorf("%s %s is %d in accounts/table, and the package wants %d: the id %w",
				n.kind, name, id, wish, ErrTaken)
		}
		return id, nil
	}
	id, err := n.newID(name, wish, wished, twins)
	if err != nil {
		return 0, err
	}
	n.fresh[name], n.names[id] = id, name
	return id, nil
}

func (n *numbers) newID(name string, wish uint32, wished bool, twins *numbers) (uint32, error) {
	if wished {
		if wish == 0 || !n.free(wish, name) {
			return 0, fmt.Errorf("the %s id %d that is wanted for %s %w: it is that of %s",
				n.kind, wish, name, ErrTaken, n.names[wish])
		}
		return wish, nil
	}
	if id, ok := twins.of(name); ok && n.free(id, name) {
		return id, nil
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	const size = lastDerived - firstDerived + 1
	for i, start := uint32(0), h.Sum32()%size; i < size; i++ {
		if id := firstDerived + (start+i)%size; n.free(id, name) && twins.free(id, name) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("no id is left for %s %s: all of %d-%d %w", n.kind, name, firstDerived, lastDerived, ErrTaken)
}
