package cluster

import (
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/units"
	"spore/cluster/units/unitfile"
)

// units reads the units of a user's own.
func (l *loader) units() []units.File {
	r := units.Reader{FS: l.fsys, Report: func(name string, line, column int, format string, args ...any) {
		l.add(check.Error, name, line, column, format, args...)
	}}
	files := r.Read()
	for _, f := range files {
		for _, s := range keySecrets(f.Data) {
			l.add(check.Error, f.Source(), s.Line, s.Column, "%s", s.Message)
		}
		for _, s := range f.Settings {
			if what := settingSecret(s); what != "" {
				l.add(check.Error, f.Source(), s.Line, 1, "%s= holds %s; it would be readable in every image: give the "+
					"unit a file by LoadCredential=, such as a secret of its role (roles/)", s.Key, what)
			}
		}
	}
	return files
}

// settingSecret says which secret stands in a setting of a unit; empty for none.
func settingSecret(s unitfile.Setting) string {
	switch {
	case s.Value == "":
	case s.Key == "SetCredential" || s.Key == "SetCredentialEncrypted":
		return "a credential"
	case strings.HasSuffix(s.Key, "Environment"):
		if literalInText.MatchString(s.Value) || namedIn(s.Value) {
			return "a literal secret"
		}
		return urlSecret(s.Value)
	case strings.HasPrefix(s.Key, "Exec"):
		if namedIn(s.Value) || accountIn(s.Value) {
			return "a literal secret"
		}
		return urlSecret(s.Value)
	}
	return ""
}

// What follows a name or an option in a command or a list of variables. Names of files and variables, and specifiers,
// are no secrets.
const literalValue = `["']?[^\s"'{}\[\],#&$%/;|<>()][^\s"']*`

var (
	// namedSecret is a secret behind its name, anywhere in a line: --password=x, -Dtoken=x, --api-key x.
	namedSecret = regexp.MustCompile(`(?i)(?:^|[\s"'])(?:[A-Za-z0-9_.-]*(?:password|passwd|passphrase|api[_-]?key|` +
		`private[_-]?key|secret|token)\s*[:=]\s*|--?(?:[a-z0-9]+[_.-])*(?:password|passwd|passphrase|api[_-]?key|` +
		`private[_-]?key|secret|token)["']?\s+)(` + literalValue + `)`)
	// userOption and passOption are the options by which most programs take a user and a password.
	userOption = regexp.MustCompile(`(?:^|\s)(?:-[uU]\s*|--user(?:name)?[=\s])[^\s-]`)
	passOption = regexp.MustCompile(`(?:^|\s)-[pP]\s*(` + literalValue + `)`)
	urlPass    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#"'@:]*:([^\s/?#"'@]+)@`)
	ports      = regexp.MustCompile(`^["']?[0-9.:]+["']?$`)
	without    = regexp.MustCompile(`(?i)^[\s"']*--?(?:no|ask|prompt)[_.-]`)
)

// namedIn tells whether a line has a secret behind its name. What begins with - is the next option, and options such as
// --no-password take no value.
func namedIn(line string) bool {
	return slices.ContainsFunc(namedSecret.FindAllStringSubmatch(line, -1), func(m []string) bool {
		return !strings.HasPrefix(strings.Trim(m[1], `"'`), "-") && !without.MatchString(m[0])
	})
}

// accountIn tells whether a command has a user and a password as options. A number is a port, also one with an address.
func accountIn(command string) bool {
	return userOption.MatchString(command) &&
		slices.ContainsFunc(passOption.FindAllStringSubmatch(command, -1), func(m []string) bool {
			return !strings.HasPrefix(strings.Trim(m[1], `"'`), "-") && !ports.MatchString(m[1])
		})
}

// urlSecret tells whether a URL has a password; one in a variable or a specifier is known on the machine alone.
func urlSecret(line string) string {
	for _, m := range urlPass.FindAllStringSubmatch(line, -1) {
		if !strings.ContainsAny(m[1][:1], "$%") {
			return "a URL with a user and password"
		}
	}
	return ""
}
