package dashboard

import "strings"

// maxLines bounds the lines of both texts between their common begin and end, of which a difference is looked for line
// by line.
const maxLines = 600

// changed is a line of which one of two texts has no equal. Line is its number in its own text, from 1.
type changed struct {
	Line  int
	Added bool
	Text  string
}

// compareLines are the lines that the new text has not, and those that it adds, in the order of the text. Where too much
// is between the first and the last difference, all of that is given.
func compareLines(was, is string) []changed {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	begin := 0
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < len(a)-begin && end < len(b)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	a, b = a[begin:len(a)-end], b[begin:len(b)-end]
	// same[i][j] is how many lines a[i:] and b[j:] have in common at most.
	same := make([][]int, len(a)+1)
	whole := len(a) > maxLines || len(b) > maxLines
	for i := range same {
		if !whole {
			same[i] = make([]int, len(b)+1)
		}
	}
	for i := len(a) - 1; i >= 0 && !whole; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if same[i][j] = max(same[i+1][j], same[i][j+1]); a[i] == b[j] {
				same[i][j] = same[i+1][j+1] + 1
			}
		}
	}
	var out []changed
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case !whole && i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case i < len(a) && (whole || j == len(b) || same[i+1][j] >= same[i][j+1]):
			out = append(out, changed{Line: begin + i + 1, Text: a[i]})
			i++
		default:
			out = append(out, changed{Line: begin + j + 1, Added: true, Text: b[j]})
			j++
		}
	}
	return out
}
