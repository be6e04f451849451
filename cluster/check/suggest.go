package check

import "spore/cluster/spelling"

// Suggest returns `; did you mean "x"?` with the known word that is nearest to a wrong one, or nothing.
func Suggest(wrong string, known []string) string { return DidYouMean(spelling.Nearest(wrong, known)) }

// DidYouMean asks for a word, or says nothing where there is none.
func DidYouMean(word string) string {
	if word == "" {
		return ""
	}
	return `; did you mean "` + word + `"?`
}
