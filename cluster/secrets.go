package cluster

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"spore/cluster/yamlfile"
	"unicode/utf8"
)

// secretName reports whether a key is one that people put secrets under.
func secretName(key string) bool {
	k := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(key))
	for _, w := range []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey", "credential"} {
		if strings.HasSuffix(k, w) || strings.HasSuffix(k, w+"s") {
			return k != "secretref"
		}
	}
	return k == "key" || k == "pass" || k == "pwd" || k == "psk"
}

// literal is one form in which a secret can stand in a text.
type literal struct {
	pattern *regexp.Regexp
	what    string
}

// literals holds the forms that are searched for in every line, comments included, since the files are laid into the
// image as they are.
var literals = []literal{
	{regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+`), "a PEM block"},
	{regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Za-z]+`), "an age identity"},
	{regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#"'@:]*:[^\s/?#"'@]+@`), "a URL with a user and password"},
	{regexp.MustCompile(`\$(?:1|2[abxy]?|5|6|7|y|gy|argon2id?|argon2i|scrypt|pbkdf2[a-z0-9-]*)\$[./A-Za-z0-9$=,+-]{8,}`), "a password hash, which can be cracked"},
	{literalInText, "a literal secret"},
}

// literalInText is a secret behind its name.
var literalInText = regexp.MustCompile(`(?i)[A-Za-z0-9_.-]*(?:password|passwd|passphrase|apikey|api_key|private_?key|secret|token)\s*[:=]\s*["']?[^\s"'{}\[\],#&]+["']?\s*(?:#.*|[,}\]].*|["'].*)?$`)

// secretWords prefilter the lines, so that large files stay cheap.
var secretWords = [][]byte{[]byte("-----begin"), []byte("age-secret"), []byte("://"), []byte("$"), []byte("pass"), []byte("key"), []byte("secret"), []byte("token")}

// bundleAdvice says what to do with a secret in a file of the folder.
const bundleAdvice = "put it into the bundle and name it by secretRef"

// literalSecrets finds what must not be in a file that everybody with the image can read, but for what harmless knows
// to be none.
func literalSecrets(data []byte, advice string, harmless func(text string) bool) []yamlfile.Fault {
	var out []yamlfile.Fault
	for i, line := range bytes.Split(data, []byte("\n")) {
		low := bytes.ToLower(line)
		suspicious := false
		for _, w := range secretWords {
			suspicious = suspicious || bytes.Contains(low, w)
		}
		if !suspicious {
			continue
		}
		for _, l := range literals {
			m := l.pattern.FindIndex(line)
			if m == nil || strings.Contains(strings.ToLower(string(line[m[0]:m[1]])), "secretref") || harmless(string(line[m[0]:m[1]])) {
				continue
			}
			column := 1 + len([]rune(string(line[:m[0]])))
			out = append(out, yamlfile.Fault{Line: i + 1, Column: column, Message: fmt.Sprintf("this line holds %s; it would be readable in every image, also in a comment: %s", l.what, advice)})
			break
		}
	}
	return out
}

// keyForms are the forms of literals that are secrets in whatever file they stand.
var keyForms = []literal{
	{regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY`), "a private key"},
	{regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Za-z]+`), "an age identity"},
	{regexp.MustCompile(`:\$(?:1|2[abxy]?|5|6|7|y|gy)\$[./A-Za-z0-9$=,+-]{20,}`), "a password hash, which can be cracked"},
}

// keySecrets finds keys and password hashes in a file that goes into the image as it is, whatever its format.
func keySecrets(data []byte) []yamlfile.Fault {
	var out []yamlfile.Fault
	for _, l := range keyForms {
		for _, m := range l.pattern.FindAllIndex(data, maxKeySecrets) {
			line := 1 + bytes.Count(data[:m[0]], []byte("\n"))
			column := 1 + utf8.RuneCount(data[bytes.LastIndexByte(data[:m[0]], '\n')+1:m[0]])
			out = append(out, yamlfile.Fault{Line: line, Column: column, Message: fmt.Sprintf("this line holds %s, and everybody with the image can read it: "+
				"take it out, and give it to the node on its state partition", l.what)})
		}
	}
	return out
}

// maxKeySecrets is how many of a form are named in a file.
const maxKeySecrets = 10
