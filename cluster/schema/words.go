package schema

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// commented is a Go field, or a type, with its doc comment.
type commented struct {
	goName, key, text string
	// values are those that the key may have, where they are a closed list.
	values []string
	// keys are the YAML keys of the fields beside it, by their Go names.
	keys map[string]string
}

// description says the doc comment in the words of the YAML file: "ByID is a name under …" becomes "A name under …", and the Go
// name of another field becomes its key.
func (c commented) description() string {
	text := fieldName.ReplaceAllStringFunc(c.text, func(found string) string {
		before, name, _ := strings.Cut(found, " ")
		key, ok := c.keys[name]
		// An acronym (VLAN, MAC) is meant as itself, and so is the field's own name behind its first word (Kubernetes). A sentence
		// that begins with a capital letter says nothing about a field.
		if !ok || name == c.goName || name == strings.ToUpper(name) || before == "." {
			return found
		}
		return before + " `" + key + "`"
	})
	first, rest, _ := strings.Cut(text, " ")
	if first != c.goName {
		return text
	}
	verb, object, _ := strings.Cut(rest, " ")
	switch {
	case verb == "is" || verb == "are" || verb == "holds":
		return c.capitalised(object)
	case strings.HasSuffix(verb, "s"):
		return c.capitalised(rest)
	}
	return "`" + c.key + "` " + rest
}

// fieldName is a word that begins with a capital letter, with the character that ends the word before it.
var fieldName = regexp.MustCompile(`[^ ] [A-Z][A-Za-z]*\b`)

// capitalised begins a sentence with the text, unless it begins with a value or a path, which are case-sensitive.
func (c commented) capitalised(text string) string {
	first, _, _ := strings.Cut(text, " ")
	first = strings.TrimRight(first, ",;:.")
	if slices.Contains(c.values, first) || strings.Contains(first, "/") {
		return text
	}
	r, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[size:]
}
