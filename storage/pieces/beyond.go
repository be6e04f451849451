package pieces

// Beyond are the pieces that another index does not have, each once: what has to come from elsewhere to whoever has the
// file of the other.
func (x Index) Beyond(other Index) Index {
	have := make(map[Sum]bool, len(other))
	for _, p := range other {
		have[p.Sum] = true
	}
	var out Index
	for _, p := range x {
		if !have[p.Sum] {
			have[p.Sum] = true
			out = append(out, p)
		}
	}
	return out
}
