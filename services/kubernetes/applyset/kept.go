package applyset

import (
	"encoding/json"
	"maps"
	"slices"

	"spore/cluster/facts"
	"spore/wire/update"
)

// maxStays is how many members that stay are told. Their names have some hundred bytes each.
const maxStays = 1000

// KeptOf is what is known of the objects of a configuration and of members, by their names: what the objects say
// themselves, and what the acting master has found.
func KeptOf(objects []facts.Manifest, s State) map[string]update.Kept {
	out := map[string]update.Kept{}
	for _, o := range objects {
		text, err := json.Marshal(o.Object)
		if err != nil {
			continue // It came from JSON, and has nothing that JSON has not.
		}
		var is object
		m := memberOf(o.Object)
		kept := update.Kept{Defines: kindIfDefinition(m, text)}
		if json.Unmarshal(text, &is) == nil {
			kept.Why = is.stays()
		}
		if kept != (update.Kept{}) {
			out[m.String()] = kept
		}
	}
	for name, why := range s.Stays {
		kept := out[name]
		kept.Why = why
		out[name] = kept
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// kindIfDefinition is the kind that an object is the definition of; empty for what is none.
func kindIfDefinition(m member, data []byte) string {
	if m.order() != orderDefinition {
		return ""
	}
	return kindOf(data)
}

// staying notes a member that stays when it is taken out of the folder.
func (o *outcome) staying(m member, is *object) {
	if why := is.stays(); why != "" {
		o.stays[m.String()] = why
	}
}

// firstStays are the first members that stay, by their names, and whether there are more.
func firstStays(stays map[string]string) (told map[string]string, more bool) {
	if len(stays) <= maxStays {
		return stays, false
	}
	told = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(stays))[:maxStays] {
		told[name] = stays[name]
	}
	return told, true
}
