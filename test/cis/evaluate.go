package cis

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Result is what became of a check.
type Result string

// Results.
const (
	Pass          Result = "pass"
	Fail          Result = "fail"
	NotApplicable Result = "not applicable"
)

// found is what a condition is held against: words of a command line with its configuration file, or lines about the file of.
type found struct {
	words  []string
	lines  []string
	config json.RawMessage
	of     string
}

// holds tells whether the conditions of a check hold for what was found.
func (c Check) holds(f found) (bool, error) {
	if len(c.Tests.Items) == 0 {
		return false, fmt.Errorf("the list has no condition for %s", c.ID)
	}
	all := c.Tests.BinOp != "or"
	for _, i := range c.Tests.Items {
		ok, err := i.holds(f, c.Multiple)
		if err != nil {
			return false, fmt.Errorf("condition of %s: %w", c.ID, err)
		}
		if ok != all {
			return ok, nil
		}
	}
	return all, nil
}

// holds looks for the flag on the command line, and in the configuration file when it is not there.
func (i item) holds(f found, each bool) (bool, error) {
	if len(f.lines) > 0 {
		if !each {
			return i.holdsFor(findLine(strings.Join(f.lines, "\n"), i.Flag))
		}
		for _, line := range f.lines {
			if ok, err := i.holdsFor(findLine(line, i.Flag)); err != nil || !ok {
				return ok, err
			}
		}
		return true, nil
	}
	v, ok := value(f.words, i.Flag)
	if !ok && i.Path != "" && f.config != nil {
		var err error
		if v, ok, err = findPath(f.config, i.Path); err != nil {
			return false, err
		}
	}
	return i.holdsFor(v, ok)
}

func (i item) holdsFor(v string, isSet bool) (bool, error) {
	if i.Set != nil && !*i.Set {
		return !isSet, nil
	}
	if !isSet || i.Compare.Op == "" {
		return isSet, nil
	}
	return i.Compare.holds(v)
}

// findLine is what follows a word such as permissions= in a line, or the word itself.
func findLine(line, word string) (string, bool) {
	_, rest, ok := strings.Cut(line, word)
	if !ok {
		return "", false
	}
	if after, is := strings.CutPrefix(rest, "="); is {
		if fields := strings.Fields(after); len(fields) > 0 {
			return fields[0], true
		}
	}
	return word, true
}

// plainPath is {.a.b}, and listPath the list at .a with each element followed by a comma.
var (
	plainPath = regexp.MustCompile(`^\{((?:\.[A-Za-z0-9]+)+)\}$`)
	listPath  = regexp.MustCompile(`^\{range ((?:\.[A-Za-z0-9]+)+)\[:\]\}`)
)

// findPath looks up one of the two forms of JSONPath that the list has.
func findPath(config json.RawMessage, path string) (string, bool, error) {
	m := plainPath.FindStringSubmatch(path)
	if m == nil {
		m = listPath.FindStringSubmatch(path)
	}
	if m == nil {
		return "", false, fmt.Errorf("path %q has a form that is not known here", path)
	}
	var v any
	if err := json.Unmarshal(config, &v); err != nil {
		return "", false, err
	}
	for _, key := range strings.Split(m[1], ".")[1:] {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	switch v := v.(type) {
	case nil:
		return "", false, nil
	case []any:
		var words []string
		for _, e := range v {
			words = append(words, fmt.Sprint(e))
		}
		return strings.Join(words, ","), len(words) > 0, nil
	default:
		return fmt.Sprint(v), true, nil
	}
}

// holds compares as kube-bench does.
func (c compare) holds(v string) (bool, error) {
	switch c.Op {
	case "eq":
		return strings.EqualFold(v, c.Value), nil
	case "noteq":
		return !strings.EqualFold(v, c.Value), nil
	case "has":
		return strings.Contains(v, c.Value), nil
	case "nothave":
		return !strings.Contains(v, c.Value), nil
	case "gte":
		have, err := strconv.Atoi(v)
		if err != nil {
			return false, err
		}
		want, err := strconv.Atoi(c.Value)
		return have >= want, err
	case "valid_elements":
		allowed := strings.Split(c.Value, ",")
		for _, e := range strings.Split(strings.Trim(v, ","), ",") {
			if !slices.Contains(allowed, strings.TrimSpace(e)) {
				return false, nil
			}
		}
		return true, nil
	case "bitmask":
		have, err := strconv.ParseUint(v, 8, 32)
		if err != nil {
			return false, err
		}
		want, err := strconv.ParseUint(c.Value, 8, 32)
		return have&^want == 0, err
	}
	return false, fmt.Errorf("comparison %q is not known here", c.Op)
}
