// Package form has regular expressions that are compiled at their first use. A node starts spore-agent a dozen times
// while it boots, with all services linked in, and hardly one of these starts checks a form: compiling them all was a
// third of the time until main.
package form

import (
	"regexp"
	"sync"
)

// Form is a regular expression in the syntax of package regexp. Many goroutines may use it.
type Form struct{ compiled func() *regexp.Regexp }

// New is the form of an expression that stands in the program: one that is none panics when it is first used, which the
// tests of each form do.
func New(expression string) Form {
	return Form{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// MatchString tells whether the text has the form, as Regexp.MatchString does.
func (f Form) MatchString(text string) bool { return f.compiled().MatchString(text) }

// FindStringSubmatch has the first match and those of its groups, and is nil where there is none.
func (f Form) FindStringSubmatch(text string) []string { return f.compiled().FindStringSubmatch(text) }
