// Package mask takes secrets out of texts that leave the node for somebody else's eyes: what the node's bundle holds,
// in the forms in which programs print it, and what looks like a key or a password wherever it comes from.
package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"spore/storage/atomicfile"
)

// Bounds: of one file with secrets in bytes, of how many files are read, and of how short a value may be that is still
// taken for a secret. What is shorter would be found in innocent words.
const (
	maxSecret = 1 << 20
	maxFiles  = 10000
	least     = 6
)

// lineLeast is the same for one line of a value with several, as of a key in PEM: its other lines are words.
const lineLeast = 16

// wordLeast is below how many bytes a value is replaced only where it stands as a word: a weak password that is a part
// of a word would tell itself by what is left of the word.
const wordLeast = 12

// maxWhole is up to how many bytes a value of several lines is looked for as a whole in base64: a line has no room for
// more.
const maxWhole = 24 << 10

// maxKeyLines is after how many lines of a private key without an end it is taken for ended.
const maxKeyLines = 200

// Mask replaces secrets.
type Mask struct {
	replace *strings.Replacer
	// words are pairs of a short value and what stands for it, the longest first.
	words [][2]string
}

// New reads the secrets in directories, with those below them. A directory that is not there has none.
func New(dirs ...string) (*Mask, error) {
	values := map[string]string{}
	files := 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case e.IsDir():
				return nil
			}
			st, err := os.Stat(path) // Programs find some of them by links.
			if err != nil || !st.Mode().IsRegular() {
				return nil //nolint:nilerr // It went meanwhile, or it is no file: then it holds no secret.
			}
			if files++; files > maxFiles {
				return fmt.Errorf("there are more than %d files", maxFiles)
			}
			data, err := atomicfile.ReadLimited(path, maxSecret)
			if err != nil {
				return err
			}
			add(values, filepath.Base(path), data)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the secrets that must not be shown: %w", err)
		}
	}
	return Of(values), nil
}

// Of masks values, each of which is replaced by its name.
func Of(values map[string]string) *Mask {
	// The longest first: where one value begins another, the longer is replaced as a whole.
	keys := make([]string, 0, len(values))
	for v := range values {
		keys = append(keys, v)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	m := &Mask{}
	for _, v := range keys {
		if put := "(" + values[v] + ")"; len(v) < wordLeast {
			m.words = append(m.words, [2]string{v, put})
		} else {
			pairs = append(pairs, v, put)
		}
	}
	m.replace = strings.NewReplacer(pairs...)
	return m
}

// add takes the forms of a value.
func add(values map[string]string, name string, data []byte) {
	if public(data) {
		return
	}
	name = "secret " + name
	keep := func(value string) {
		if _, known := values[value]; !known { // A secret is in several places, and has one name.
			values[value] = name
		}
	}
	text := strings.TrimSpace(string(data))
	lines := strings.Split(text, "\n")
	if len(lines) > 1 {
		for _, line := range lines {
			line = strings.TrimSpace(line)
			if len(line) < lineLeast || strings.HasPrefix(line, "-----") || strings.HasPrefix(line, "#") {
				continue
			}
			keep(line)
			// A keyring has "key = AQ…==", of which programs print the key alone.
			words := strings.Fields(line)
			if last := strings.Trim(words[len(words)-1], `"',;`); len(last) >= lineLeast {
				keep(last)
			}
		}
		if len(data) <= maxWhole {
			keep(base64.StdEncoding.EncodeToString(data))
			keep(base64.StdEncoding.EncodeToString([]byte(text)))
		}
		return
	}
	if len(text) < least {
		return
	}
	for _, form := range []string{
		text, url.QueryEscape(text), url.PathEscape(text), quoted(text), inJSON(text),
		base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
		hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
	} {
		keep(form)
	}
}

// quoted is a text as JSON and Go write it between quotes.
func quoted(text string) string { return strings.Trim(fmt.Sprintf("%q", text), `"`) }

// inJSON is the same with <, > and & as encoding/json writes them.
func inJSON(text string) string {
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(quoted(text))
}

// public is true for what holds certificates and public keys alone: everybody may know them.
func public(data []byte) bool {
	return bytes.Contains(data, []byte("-----BEGIN CERTIFICATE-----")) && !bytes.Contains(data, []byte("PRIVATE KEY"))
}

// look is something that looks like a secret. It is looked for in lines that have one of the words, in small letters,
// and put is what stands for it.
type look struct {
	words []string
	form  *regexp.Regexp
	put   string
}

// looks are made when they are needed: each start of the agent would compile them.
var looks = sync.OnceValue(func() []look {
	return []look{
		{
			[]string{"password", "passwd", "passphrase", "secret", "token", "api", "private"},
			regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key)["']?\s*[=:]\s*["']?)[^\s"',;&{}()$]{3,}`),
			"${1}(hidden)",
		},
		{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`), "${1}(hidden)"},
		{[]string{"age-secret-key-"}, regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Z]{20,}`), "(hidden)"},
		{[]string{"://"}, regexp.MustCompile(`(://[^\s/:@]{1,64}:)[^\s/@]{1,256}@`), "${1}(hidden)@"},
		// A JSON Web Token (RFC 7519).
		{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`), "(hidden)"},
		// A key of Ceph: type, time, length and 16 bytes, of which the first two are 1 in little endian.
		{[]string{"=="}, regexp.MustCompile(`\bAQ[A-Za-z0-9+/]{36,38}==`), "(hidden)"},
		// The hash of a password (crypt(5)).
		{[]string{"$"}, regexp.MustCompile(`\$(?:[1-9]|2[aby]|y|argon2id?)\$[^\s"']{8,}`), "(hidden)"},
		// A recovery key (systemd-cryptenroll(1)).
		{[]string{"-"}, regexp.MustCompile(`\b(?:[cbdefghijklnrtuv]{8}-){7}[cbdefghijklnrtuv]{8}\b`), "(hidden)"},
	}
})

// Text returns a text without secrets. It is called with whole lines; a key in PEM is taken out by Lines.
func (m *Mask) Text(text string) string {
	text = m.known(text)
	small := strings.ToLower(text)
	for _, look := range looks() {
		if slices.ContainsFunc(look.words, func(w string) bool { return strings.Contains(small, w) }) {
			text = look.form.ReplaceAllString(text, look.put)
		}
	}
	return text
}

// known replaces the values that the mask knows.
func (m *Mask) known(text string) string {
	text = m.replace.Replace(text)
	for _, w := range m.words {
		if strings.Contains(text, w[0]) {
			text = replaceWord(text, w[0], w[1])
		}
	}
	return text
}

// replaceWord replaces a value where it is no part of a word.
func replaceWord(text, value, put string) string {
	var out strings.Builder
	rest := 0
	for {
		i := strings.Index(text[rest:], value)
		if i < 0 {
			out.WriteString(text[rest:])
			return out.String()
		}
		begin, end := rest+i, rest+i+len(value)
		if letter(value[0]) && inWord(text[:begin]) || letter(value[len(value)-1]) && end < len(text) && letter(text[end]) {
			out.WriteString(text[rest : begin+1])
			rest = begin + 1
			continue
		}
		out.WriteString(text[rest:begin] + put)
		rest = end
	}
}

// inWord tells whether what follows a text goes on with a word. The end of an escape, such as \n, \u003c or %3D, is
// none.
func inWord(before string) bool {
	if before == "" || !letter(before[len(before)-1]) {
		return false
	}
	for _, escape := range []struct {
		mark string
		size int
	}{{`\`, 2}, {"%", 3}, {`\x`, 4}, {`\u`, 6}} {
		if len(before) >= escape.size && strings.HasPrefix(before[len(before)-escape.size:], escape.mark) {
			return false
		}
	}
	return true
}

// letter is true for letters and digits of ASCII, and for what is part of a letter beyond it.
func letter(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b >= 0x80
}

// Lines masks a text line by line, with what stands between the marks of private keys in PEM.
type Lines struct {
	Mask *Mask
	// inKey is true between the marks, and since is how many lines it has been.
	inKey bool
	since int
	// header is true behind a line with a header of PEM (RFC 1421), which an empty line follows.
	header bool
}

// Line masks the next line, which has no newline.
func (l *Lines) Line(line string) string {
	begins, ends := strings.Contains(line, "-----BEGIN") && strings.Contains(line, "PRIVATE KEY"), strings.Contains(line, "-----END")
	if begins {
		l.inKey = !ends || strings.LastIndex(line, "-----BEGIN") > strings.LastIndex(line, "-----END")
		l.since, l.header = 0, false
		return "(hidden private key)"
	}
	if l.inKey {
		l.since++
		header := strings.Contains(line, "Proc-Type:") || strings.Contains(line, "DEK-Info:")
		// A key whose end was never written hides nothing but itself.
		if l.since <= maxKeyLines && (ends || header || l.header || keyLine(line)) {
			l.inKey, l.header = !ends, header
			return "(hidden)"
		}
		l.inKey = false
	}
	return l.Mask.Text(line)
}

// keyLine tells whether a line can be one of a key: its last word is base64, behind what a log writes before it.
func keyLine(line string) bool {
	words := strings.Fields(line)
	if len(words) == 0 {
		return true
	}
	return strings.Trim(words[len(words)-1], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == ""
}
