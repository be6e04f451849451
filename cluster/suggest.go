package cluster

import "strings"

// suggest returns `; did you mean "x"?` with the known word that is nearest to a wrong one, or nothing.
func suggest(wrong string, known []string) string { return didYouMean(nearest(wrong, known)) }

func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return `; did you mean "` + word + `"?`
}

// nearest returns the known word that a wrong one was probably meant to be, or nothing.
func nearest(wrong string, known []string) string {
	best, least := "", max(2, len(wrong)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(wrong), strings.ToLower(k)); d < least && d < max(len(wrong), len(k)) {
			best, least = k, d
		}
	}
	return best
}

// maxWord bounds the words that distance compares.
const maxWord = 64

// distance is the number of characters to insert, delete, replace or swap with a neighbour (optimal string alignment).
func distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return maxWord
	}
	var before []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev = prev, cur
	}
	return prev[len(b)]
}
