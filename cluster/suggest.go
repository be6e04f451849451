package cluster

import "spore/cluster/spelling"

// suggest returns `; did you mean "x"?` with the known word that is nearest to a wrong one, or nothing.
func suggest(wrong string, known []string) string { return didYouMean(spelling.Nearest(wrong, known)) }

func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return `; did you mean "` + word + `"?`
}
