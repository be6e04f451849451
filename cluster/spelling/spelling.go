// Package spelling tells how far two words are apart, for errors that name what somebody probably meant.
package spelling

import "strings"

// Distance is the number of bytes to insert, delete, replace or swap with a neighbour that make one word of another (optimal
// string alignment distance). Where it is more than limit, it may be any number above limit.
func Distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	rows := make([]int, 3*(len(b)+1))
	before, prev, cur := rows[:len(b)+1], rows[len(b)+1:2*(len(b)+1)], rows[2*(len(b)+1):]
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
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
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
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
		if d := Distance(strings.ToLower(wrong), strings.ToLower(k), least); d < least && d < max(len(wrong), len(k)) {
			best, least = k, d
		}
	}
	return best
}
