package units

import (
	"path"
	"strings"

	"spore/cluster/check"
	"spore/cluster/units/unitfile"
)

// named are the units that a setting names, as systemd reads them: without quotes, and with the specifiers expanded
// that the name of the file decides (systemd.unit(5), "Specifiers"). A name with any other specifier is reported: only
// the machine knows which unit it is.
func (c checker) named(s unitfile.Setting) []string {
	var out []string
	for _, word := range strings.Fields(unquote.Replace(s.Value)) {
		name, ok := expand(word, c.file.Unit())
		if !ok {
			c.fail(s.Line, "%s=%s names a unit that is known on the machine alone; write the name without %%", s.Key,
				check.Clip(word))
			continue
		}
		out = append(out, name)
	}
	return out
}

// unquote takes out what systemd takes out of lists of names (systemd.syntax(7)).
var unquote = strings.NewReplacer(`"`, "", "'", "")

// expand replaces the specifiers of a name that stands in a unit; ok is false where one is not known here.
func expand(name, unit string) (expanded string, ok bool) {
	stem := strings.TrimSuffix(unit, path.Ext(unit))
	prefix, instance, _ := strings.Cut(stem, "@")
	last := prefix[strings.LastIndex(prefix, "-")+1:]
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			out.WriteByte(name[i])
			continue
		}
		if i++; i == len(name) {
			return "", false
		}
		switch with := name[i]; {
		case with == '%':
			out.WriteByte('%')
		case with == 'p':
			out.WriteString(prefix)
		case with == 'n' && !isTemplate(unit):
			out.WriteString(unit)
		case with == 'N' && !isTemplate(unit):
			out.WriteString(stem)
		case with == 'i' && instance != "":
			out.WriteString(instance)
		case (with == 'P' || with == 'j' || with == 'J') && !strings.Contains(prefix, `\`):
			if with == 'P' {
				out.WriteString(strings.ReplaceAll(prefix, "-", "/"))
			} else {
				out.WriteString(last)
			}
		default:
			return "", false
		}
	}
	return out.String(), true
}

// isTemplate says that a unit is a template: its instances are known where it is enabled.
func isTemplate(unit string) bool {
	return strings.HasSuffix(strings.TrimSuffix(unit, path.Ext(unit)), "@")
}
