package check

import (
	"strings"

	"spore/cluster/spelling"
)

// Suggest returns `; did you mean "x"?` with the known word that is nearest to a wrong one, or nothing.
func Suggest(wrong string, known []string) string { return DidYouMean(Nearest(wrong, known)) }

// DidYouMean asks for a word, or says nothing where there is none.
func DidYouMean(word string) string {
	if word == "" {
		return ""
	}
	return `; did you mean "` + word + `"?`
}

// maxWord bounds what is compared, in bytes: a file can have words of any length.
const maxWord = 64

// Nearest returns the known word that a wrong one was probably meant to be, or nothing.
func Nearest(wrong string, known []string) string {
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
