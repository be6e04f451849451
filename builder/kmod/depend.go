package kmod

import (
	"fmt"
	"sort"
	"strings"
)

// node is a module while its place in the order of dependencies is sought.
type node struct {
	object *object
	deps   []int // direct, in the order in which its symbols name them
	users  int   // modules that need this one and are not placed yet
	place  int   // in the order: users come before what they use
}

// resolve turns parsed modules into the list of Modules, with all their dependencies in depmod's order.
func resolve(paths []string, objects []*object) ([]Module, error) {
	nodes := link(objects)
	if err := place(paths, nodes); err != nil {
		return nil, err
	}
	out := make([]Module, len(nodes))
	for i, n := range nodes {
		out[i] = Module{
			Name:     nameOf(paths[i]),
			Path:     paths[i],
			Aliases:  n.object.values("alias"),
			Softdeps: n.object.values("softdep"),
			Weakdeps: n.object.values("weakdep"),
			Firmware: n.object.values("firmware"),
			Exports:  n.object.exports,
		}
		for _, d := range closure(nodes, i) {
			out[i].Depends = append(out[i].Depends, nameOf(paths[d]))
		}
	}
	return out, nil
}

// link finds who exports the symbols that each module needs. A symbol that no module exports is the kernel's own.
func link(objects []*object) []node {
	owner := map[string]int{}
	for i, o := range objects {
		for _, s := range o.exports {
			owner[s] = i // of two modules that export one symbol the later in the order wins, as in depmod
		}
	}
	nodes := make([]node, len(objects))
	for i, o := range objects {
		nodes[i].object = o
	}
	for i, o := range objects {
		seen := map[int]bool{i: true}
		for _, s := range o.needs {
			d, ok := owner[s]
			if !ok || seen[d] {
				continue
			}
			seen[d] = true
			nodes[i].deps = append(nodes[i].deps, d)
			nodes[d].users++
		}
	}
	return nodes
}

// place sorts topologically with depmod's own choice among the many right orders, so that the files compare equal.
func place(paths []string, nodes []node) error {
	var ready []int
	users := make([]int, len(nodes))
	for i, n := range nodes {
		if users[i] = n.users; n.users == 0 {
			ready = append(ready, i)
		}
	}
	placed := 0
	for ; len(ready) > 0; placed++ {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		nodes[i].place = placed
		for _, d := range nodes[i].deps {
			if users[d]--; users[d] == 0 {
				ready = append(ready, d)
			}
		}
	}
	if placed == len(nodes) {
		return nil
	}
	var stuck []string
	for i, u := range users {
		if u > 0 {
			stuck = append(stuck, nameOf(paths[i]))
		}
	}
	return fmt.Errorf("modules depend on each other in a circle, or on such modules: %s", strings.Join(stuck, ", "))
}

// closure is all that a module needs, directly or through another, in the order of place.
func closure(nodes []node, i int) []int {
	var out []int
	seen := map[int]bool{i: true}
	var visit func(int)
	visit = func(j int) {
		for _, d := range nodes[j].deps {
			if !seen[d] {
				seen[d] = true
				out = append(out, d)
				visit(d)
			}
		}
	}
	visit(i)
	sort.Slice(out, func(a, b int) bool { return nodes[out[a]].place < nodes[out[b]].place })
	return out
}
