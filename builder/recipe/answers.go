package recipe

import (
	"fmt"
	"maps"
)

// answer is what debconf is told in the place of the default of a package, unless image.yaml has another: with the
// default, a script would make something of the node in the image.
type answer struct{ pkg, question, value, why string }

var answers = []answer{
	{"postfix", "postfix/main_mailer_type", "No configuration", "it would take the names of the machine that builds; " +
		"the overlay gives /etc/postfix/main.cf"},
	{"slapd", "slapd/no_configuration", "true", "it would make a directory with a password; " +
		"the overlay gives /etc/ldap/slapd.d or slapd.conf"},
}

// debconfAnswers are those of the configuration before ours.
func (b *build) debconfAnswers() map[string]map[string]string {
	out := map[string]map[string]string{}
	for pkg, given := range b.opts.Debconf {
		out[pkg] = maps.Clone(given)
	}
	for _, a := range answers {
		if _, ok := out[a.pkg][a.question]; ok || b.present[a.pkg] == nil {
			continue
		}
		if out[a.pkg] == nil {
			out[a.pkg] = map[string]string{}
		}
		out[a.pkg][a.question] = a.value
		b.note("note", "", fmt.Sprintf("debconf: %s: {%s: %q}: %s", a.pkg, a.question, a.value, a.why))
	}
	return out
}
