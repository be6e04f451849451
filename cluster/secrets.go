package cluster

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
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
	{regexp.MustCompile(`(?i)[A-Za-z0-9_.-]*(?:password|passwd|passphrase|apikey|api_key|private_?key|secret|token)\s*[:=]\s*["']?[^\s"'{}\[\],#&]+["']?\s*(?:#.*|[,}\]].*|["'].*)?$`), "a literal secret"},
}

// secretWords prefilter the lines, so that large files stay cheap.
var secretWords = [][]byte{[]byte("-----begin"), []byte("age-secret"), []byte("://"), []byte("$"), []byte("pass"), []byte("key"), []byte("secret"), []byte("token")}

// literalSecrets finds what must not be in a file that everybody with the image can read.
func literalSecrets(data []byte) []fault {
	var out []fault
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
			if m == nil || strings.Contains(strings.ToLower(string(line[m[0]:m[1]])), "secretref") {
				continue
			}
			column := 1 + len([]rune(string(line[:m[0]])))
			out = append(out, fault{i + 1, column, fmt.Sprintf("this line holds %s; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef", l.what)})
			break
		}
	}
	return out
}
