package cluster

import (
	"strings"

	"spore/cluster/spelling"
)

// suggest returns `; did you mean "x"?` with the known word that is nearest to a wrong one, or nothing.
func suggest(wrong string, known []string) string { return didYouMean(nearest(wrong, known)) }

func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return `; did you mean "` + word + `"?`
}

// maxWord bounds what is compared, in bytes: a file can have words of any length.
const maxWord = 64

// nearest returns the known word that a wrong one was probably meant to be, or nothing.
func nearest(wrong string, known []string) string {
	if len(wrong) > maxWord {
		return ""
	}
	best, least := "", max(2, len(wrong)/3)+1
	for _, k := range known {
		if d := spelling.Distance(strings.ToLower(wrong), strings.ToLower(k), least); d < least && d < max(len(wrong), len(k)) {
			best, least = k, d
		}
	}
	return best
}
