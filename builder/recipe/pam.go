package recipe

import (
	"fmt"
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// pamProfile is one file of /usr/share/pam-configs (pam-auth-update(8)).
type pamProfile struct {
	name     string
	priority int
	fields   map[string]string
}

// pamStacks are the files that pam-auth-update writes, the template of each, and whether it is for interactive sessions.
var pamStacks = []struct {
	file, template, kind string
	interactive          bool
}{
	{"common-auth", "common-auth", "Auth", true},
	{"common-account", "common-account", "Account", true},
	{"common-password", "common-password", "Password", true},
	{"common-session", "common-session", "Session", true},
	{"common-session-noninteractive", "common-session-noninteractive", "Session", false},
}

// writePAM writes /etc/pam.d/common-* as pam-auth-update does: the profiles that are on by default, by priority.
func writePAM(b *build) error {
	const dir, templates = "/usr/share/pam-configs", "/usr/share/pam"
	if b.present["libpam-runtime"] == nil {
		return nil
	}
	var profiles []pamProfile
	for _, name := range b.tree.Children(dir) {
		data, err := b.tree.ReadFile(path.Join(dir, name))
		if err != nil {
			return err
		}
		p, err := parsePAMProfile(name, string(data))
		if err != nil {
			return err
		}
		if p.fields["Default"] == "yes" {
			profiles = append(profiles, p)
		}
	}
	sort.SliceStable(profiles, func(i, j int) bool {
		if profiles[i].priority != profiles[j].priority {
			return profiles[i].priority > profiles[j].priority
		}
		return profiles[i].name < profiles[j].name
	})
	for _, s := range pamStacks {
		template, err := b.tree.ReadFile(path.Join(templates, s.template))
		if err != nil {
			return err
		}
		text := fillPAM(string(template), profiles, s.kind, s.interactive)
		if err := b.file(path.Join("/etc/pam.d", s.file), []byte(text), 0o644, "PAM profiles that are on by default"); err != nil {
			return err
		}
	}
	return nil
}

func parsePAMProfile(name, text string) (pamProfile, error) {
	p := pamProfile{name: name, fields: map[string]string{}}
	field := ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if field == "" {
				return p, fmt.Errorf("pam profile %s:%d: a continued line without a field", name, i+1)
			}
			if p.fields[field] != "" {
				p.fields[field] += "\n"
			}
			p.fields[field] += strings.TrimLeft(line, " \t")
		default:
			key, value, ok := strings.Cut(line, ":")
			if !ok {
				return p, fmt.Errorf("pam profile %s:%d: %q is not a field", name, i+1, line)
			}
			field = key
			p.fields[field] = strings.TrimSpace(value)
		}
	}
	n, err := strconv.Atoi(p.fields["Priority"])
	if err != nil {
		return p, fmt.Errorf("pam profile %s: priority %q is not a number", name, p.fields["Priority"])
	}
	p.priority = n
	return p, nil
}

// jumpToEnd matches the "=end" that pam-auth-update replaces by the number of modules to skip.
var jumpToEnd = regexp.MustCompile(`(\[[^\]]*=)end([^\]]*\])`)

// fillPAM puts the modules of the profiles into a template's two blocks.
func fillPAM(template string, profiles []pamProfile, kind string, interactive bool) string {
	low := strings.ToLower(kind)
	primary := pamBlock(profiles, kind, "Primary", interactive)
	// "end" is the first module after the fallback that denies, so a module jumps over those that follow and over it.
	for i := range primary {
		skip := strconv.Itoa(len(primary) - i)
		for jumpToEnd.MatchString(primary[i]) {
			primary[i] = jumpToEnd.ReplaceAllString(primary[i], "${1}"+skip+"${2}")
		}
	}
	if len(primary) == 0 {
		primary = []string{low + "\t[default=1]\t\t\tpam_permit.so"}
	}
	additional := pamBlock(profiles, kind, "Additional", interactive)
	var out strings.Builder
	for _, line := range strings.SplitAfter(template, "\n") {
		switch strings.TrimSpace(line) {
		case "$" + low + "_primary", "$" + low + "_nonint_primary":
			writeLines(&out, primary)
		case "$" + low + "_additional", "$" + low + "_nonint_additional":
			writeLines(&out, additional)
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

func writeLines(out *strings.Builder, lines []string) {
	for _, l := range lines {
		out.WriteString(l + "\n")
	}
}

// moduleLine matches control and module of a line; pam-auth-update puts one space after them, options or not.
var moduleLine = regexp.MustCompile(`^((?:\[[^\]]*\]|\w+)\s+\S+)\s*`)

// pamBlock collects the module lines of one block; the first profile of a block gives its -Initial form.
func pamBlock(profiles []pamProfile, kind, block string, interactive bool) []string {
	var out []string
	for _, p := range profiles {
		if p.fields[kind+"-Type"] != block {
			continue
		}
		if kind == "Session" && !interactive && p.fields["Session-Interactive-Only"] == "yes" {
			continue
		}
		text := p.fields[kind]
		if first := p.fields[kind+"-Initial"]; len(out) == 0 && first != "" {
			text = first
		}
		for _, line := range strings.Split(text, "\n") {
			if line != "" {
				out = append(out, strings.ToLower(kind)+"\t"+moduleLine.ReplaceAllString(line, "$1 "))
			}
		}
	}
	return out
}
