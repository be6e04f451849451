package awk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// own is the prefix of all names that rewriting puts into a program.
const own = "spore_"

// sortedSource is the function that collects the sorted indexes of an array. The library itself walks arrays at random.
const sortedSource = `
function spore_sorted(spore_array, spore_keys, spore_key, spore_n, spore_i) {
	spore_clear()
	for (spore_key in spore_array) spore_add(spore_key)
	spore_n = spore_sort()
	for (spore_i = 1; spore_i <= spore_n; spore_i++) spore_keys[spore_i] = spore_take(spore_i)
	return spore_n
}
`

// ordered makes each for (k in a) a walk in the order of numbers and then of bytes, and tells whether there is one.
// Inside of a function the variables of the walk are its locals, for it may call itself.
func ordered(all []token) bool {
	count, depth, parameters := 0, 0, -1
	for i := range all {
		switch all[i].text {
		case "{":
			depth++
		case "}":
			if depth--; depth == 0 {
				parameters = -1
			}
		case "function", "func":
			if all[i].kind == 'w' && depth == 0 {
				parameters = endOfParameters(all, i)
			}
		case "for":
			count += walk(all, i, count+1, parameters)
		}
	}
	return count > 0
}

// endOfParameters is the index of the parenthesis that ends the parameters of a function, -1 without one.
func endOfParameters(all []token, i int) int {
	for ; i < len(all) && all[i].text != "{"; i++ {
		if all[i].text == ")" {
			return i
		}
	}
	return -1
}

// walk rewrites one for (k in a), and answers 0 for another kind of for.
func walk(all []token, i, number, parameters int) int {
	var part [5]int // ( k in a )
	at := i
	for k := range part {
		if at = after(all, at); at >= len(all) {
			return 0
		}
		part[k] = at
	}
	if all[i].kind != 'w' || all[part[0]].text != "(" || all[part[2]].text != "in" || all[part[4]].text != ")" {
		return 0
	}
	n, index, keys := fmt.Sprint(own, "n", number), fmt.Sprint(own, "i", number), fmt.Sprint(own, "k", number)
	key, array := all[part[1]].text, all[part[3]].text
	loop := fmt.Sprintf("(%[1]s = %[4]ssorted(%[5]s, %[3]s) + 0 * (%[2]s = 1); ", n, index, keys, own, array) +
		fmt.Sprintf("%[2]s <= %[1]s && ((%[4]s = %[3]s[%[2]s++]) || 1);)", n, index, keys, key)
	blank(all[part[0] : part[4]+1])
	all[part[0]].text = loop
	if parameters >= 0 {
		locals := strings.Join([]string{n, index, keys}, ", ")
		switch old := all[parameters].text; {
		case old != ")": // another walk of this function put its own there
			locals = strings.TrimSuffix(old, ")") + ", " + locals
		case previous(all, parameters) != "(":
			locals = ", " + locals
		}
		all[parameters].text = locals + ")"
	}
	return 1
}

// previous is the text of the piece before one that is not a blank.
func previous(all []token, i int) string {
	for i--; i >= 0; i-- {
		if all[i].kind != 'b' {
			return all[i].text
		}
	}
	return ""
}

// indexes holds the indexes of the array that is being walked.
type indexes struct{ keys []string }

// functions are those that sortedSource calls.
func (x *indexes) functions() map[string]any {
	return map[string]any{
		own + "clear": func() { x.keys = nil },
		own + "add":   func(key string) { x.keys = append(x.keys, key) },
		own + "sort": func() int {
			slices.SortFunc(x.keys, compareKeys)
			return len(x.keys)
		},
		own + "take": func(i int) string {
			if i < 1 || i > len(x.keys) {
				return ""
			}
			return x.keys[i-1]
		},
	}
}

// compareKeys puts whole numbers first, in their order, and then all else by its bytes.
func compareKeys(a, b string) int {
	x, xErr := strconv.ParseInt(a, 10, 64)
	y, yErr := strconv.ParseInt(b, 10, 64)
	switch {
	case xErr == nil && yErr == nil && x != y:
		if x < y {
			return -1
		}
		return 1
	case xErr == nil && yErr != nil:
		return -1
	case xErr != nil && yErr == nil:
		return 1
	}
	return strings.Compare(a, b)
}
