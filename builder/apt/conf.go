package apt

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxConf bounds a configuration file of apt.
const maxConf = 1 << 20

// Conf is what apt.conf(5) says: the last value of each name, names in lower case ("acquire::http::proxy").
type Conf map[string]string

// ReadConf reads the machine's /etc/apt/apt.conf.d and /etc/apt/apt.conf below root, in apt's order. Nothing there is no
// error.
func ReadConf(root fs.FS) (Conf, error) {
	c := Conf{}
	files, err := fs.Glob(root, "etc/apt/apt.conf.d/*")
	if err != nil {
		return nil, err
	}
	for _, name := range append(files, "etc/apt/apt.conf") {
		if !partName(path.Base(name), "", ".conf") {
			continue
		}
		text, err := readBounded(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := c.parse(text); err != nil {
			return nil, fmt.Errorf("/%s: %w", name, err)
		}
	}
	return c, nil
}

// Off reports whether a boolean is set to no.
func (c Conf) Off(name string) bool { return isNo(c[strings.ToLower(name)]) }

func isNo(v string) bool {
	switch strings.ToLower(v) {
	case "no", "false", "without", "off", "disable", "0":
		return true
	}
	return false
}

// partName reports whether apt reads a file of a .d directory: letters, digits, "_-." and one of the endings, where the
// empty one means a name without a dot.
func partName(name string, endings ...string) bool {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != "" {
		return false
	}
	for _, e := range endings {
		if path.Ext(name) == e {
			return true
		}
	}
	return false
}

func readBounded(root fs.FS, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", fmt.Errorf("read /%s: %w", name, fs.ErrNotExist)
	}
	data, err := readAllMax(f, maxConf)
	if err != nil {
		return "", fmt.Errorf("read /%s: %w", name, err)
	}
	return string(data), nil
}

// parse reads statements: `Name "value";`, `Name { … };`, `Name:: "item";` and `#clear Name;`.
func (c Conf) parse(text string) error {
	tokens, err := confTokens(text)
	if err != nil {
		return err
	}
	var scopes []string // full names, outermost first
	var words []string  // of the current statement
	name := func(w string) string {
		if len(scopes) > 0 && scopes[len(scopes)-1] != "" {
			w = scopes[len(scopes)-1] + "::" + w
		}
		return strings.ToLower(w)
	}
	for _, t := range tokens {
		switch {
		case t.quoted || (t.text != "{" && t.text != "}" && t.text != ";"):
			words = append(words, t.text)
		case t.text == "{":
			if len(scopes) == 64 {
				return fmt.Errorf("line %d: blocks are nested more than 64 deep", t.line)
			}
			scope := ""
			if len(words) > 0 {
				scope = name(words[0])
			}
			scopes, words = append(scopes, scope), nil
		case t.text == ";" || t.text == "}":
			switch {
			case len(words) == 2 && strings.EqualFold(words[0], "#clear"):
				c.clear(strings.ToLower(words[1]))
			case len(words) >= 2 && words[0][:min(1, len(words[0]))] != "#":
				c[name(words[0])] = words[1]
			}
			words = nil
			if t.text == "}" {
				if len(scopes) == 0 {
					return fmt.Errorf("line %d: a closing brace without an opening one", t.line)
				}
				scopes = scopes[:len(scopes)-1]
			}
		}
	}
	if len(scopes) > 0 {
		return errors.New("a block is not closed at the end of the file")
	}
	return nil
}

func (c Conf) clear(name string) {
	for k := range c {
		if k == name || strings.HasPrefix(k, name+"::") {
			delete(c, k)
		}
	}
}

type confToken struct {
	text   string
	line   int
	quoted bool
}

// confTokens cuts a file into words, quoted words, braces and semicolons, without the comments: "//", "/* */", and "#"
// at the beginning of a word, which apt takes for a comment unless a directive follows.
func confTokens(text string) ([]confToken, error) {
	var out []confToken
	line := 1
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(text[i:], "//"), c == '#' && !isDirective(text[i:]):
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(text)
			}
		case strings.HasPrefix(text[i:], "/*"):
			n := strings.Index(text[i+2:], "*/")
			if n < 0 {
				return nil, fmt.Errorf("line %d: the comment is not closed", line)
			}
			line += strings.Count(text[i:i+2+n], "\n")
			i += n + 4
		case c == '"':
			n := strings.IndexByte(text[i+1:], '"')
			if n < 0 {
				return nil, fmt.Errorf("line %d: the quote is not closed", line)
			}
			out = append(out, confToken{text[i+1 : i+1+n], line, true})
			line += strings.Count(text[i:i+1+n], "\n")
			i += n + 2
		case c == '{' || c == '}' || c == ';':
			out = append(out, confToken{text[i : i+1], line, false})
			i++
		default:
			n := strings.IndexAny(text[i:], " \t\r\n\"{};")
			if n < 0 {
				n = len(text) - i
			}
			out = append(out, confToken{text[i : i+n], line, false})
			i += n
		}
	}
	return out, nil
}

func isDirective(s string) bool {
	return strings.HasPrefix(s, "#clear ") || strings.HasPrefix(s, "#include ")
}
