package applyset

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
)

// holds tells whether others lie in an object of this kind, or are of it: with a namespace goes all that is in it, with
// a definition all objects of its kind.
func (m member) holds() bool { return m.order() == orderNamespace || m.order() == orderDefinition }

// in tells whether an object lies in a namespace or is of a definition.
func (m member) in(holder member, is found) bool {
	if holder.order() == orderNamespace {
		return m.namespace == holder.name
	}
	return is.defines != "" && m.groupKind() == is.defines
}

// hold says, for each namespace and each definition that the folder does not have any more, why it stays: an object
// would go with it that the folder has, or that is to stay.
func hold(there map[member]found, wanted map[member]bool) map[member]string {
	out := map[member]string{}
	for holder, is := range there {
		if !holder.holds() || wanted[holder] || is.object.stays() != "" {
			continue
		}
		lies := "lies in it"
		if holder.order() == orderDefinition {
			lies = "is of it"
		}
		const stays = "it was taken out of manifests/ and stays, since "
		if m := first(maps.Keys(wanted), func(m member) bool { return m.in(holder, is) }); m != nil {
			out[holder] = stays + m.String() + " " + lies + ", which manifests/ has; put it into manifests/ again"
			continue
		}
		why := func(m member) string { o := there[m].object; return o.stays() }
		kept := func(m member) bool { return m.in(holder, is) && why(m) != "" }
		if m := first(maps.Keys(there), kept); m != nil {
			out[holder] = stays + m.String() + " " + lies + ", which " + why(*m) +
				"; put it into manifests/ again, or delete that object"
		}
	}
	return out
}

// lies tells whether an object lies in one that is held.
func (m member) lies(there map[member]found, held map[member]string) bool {
	for holder := range held {
		if m.in(holder, there[holder]) {
			return true
		}
	}
	return false
}

// first is the first member, in the order of their names, that is such a one; nil when none is.
func first(all iter.Seq[member], such func(member) bool) *member {
	var out *member
	for m := range all {
		if such(m) && (out == nil || cmp.Less(m.String(), out.String())) {
			out = &m
		}
	}
	return out
}

// kindOf is the kind of a CustomResourceDefinition, as KEP-3659 writes it; empty when it cannot be read.
func kindOf(data []byte) string {
	var d struct {
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
		} `json:"spec"`
	}
	if json.Unmarshal(data, &d) != nil || d.Spec.Group == "" || d.Spec.Names.Kind == "" {
		return ""
	}
	return member{group: d.Spec.Group, kind: d.Spec.Names.Kind}.groupKind()
}
