package cluster

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/filecap"
	"spore/cluster/spec"
)

var (
	// accountName is the syntax that adduser(8) takes for users of services and groups (SYS_NAME_REGEX), in the length of
	// useradd(8).
	accountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,31}$`)
	octalMode   = regexp.MustCompile(`^[0-7]{4}$`)
	// questionName is the syntax of names in debconf's templates: parts between slashes.
	questionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]*(/[A-Za-z0-9_.+-]+)*$`)
	// secretQuestion are the ends of names by which packages ask for secrets, such as root_password_again and app-pass.
	secretQuestion = regexp.MustCompile(`(?i)(passw(or)?d|passphrase|secret|token|private[-_]?key|api[-_]?key|` +
		`([-_/]|admin|root)(pw|pass|psk))s?([-_]?(again|confirm|repeat|verify))?[0-9]*$`)
)

// Bounds of a path (linux/limits.h, PATH_MAX), of the name of a question and of an answer, in bytes.
const (
	maxPath     = 4095
	maxQuestion = 255
	maxAnswer   = 4096
)

// notOfScripts are the places that decisions about a package cannot change, with the reason.
var notOfScripts = []struct{ path, why string }{
	{"/dev", "what is mounted there hides it"},
	{"/proc", "what is mounted there hides it"},
	{"/run", "what is mounted there hides it"},
	{"/sys", "what is mounted there hides it"},
	{"/tmp", "what is mounted there hides it"},
	{"/usr/bin/spore-agent", "the machine is run by it"},
	{"/usr/lib/spore", "the image says there what it is made of"},
}

// checkScripts checks the decisions about maintainer scripts. That a package, a file or a group of another package is
// not there shows at the build, which knows the packages that others bring.
func (k *checker) checkScripts(src *source, decisions map[string]spec.ScriptDecision) {
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		d, p := decisions[name], check.In(src, "scripts", name)
		if !k.packageName(p, name) {
			continue
		}
		skip := k.Unique()
		for i, script := range d.Skip {
			if p := p.Then("skip", i); k.OneOf(p, "the script", script, spec.SkippableScripts) {
				skip.Add(p, "the script", script, "remove one")
			}
		}
		k.checkScriptAccounts(p, d)
		k.checkScriptModes(p, d.Modes)
		k.checkScriptLinks(p, d.Links)
		programs := k.Unique()
		for i, program := range d.SetUID {
			if p := p.Then("setuid", i); k.scriptPath(p, program) {
				programs.Add(p, "the program", program, "remove one")
			}
		}
	}
}

// packageName checks the name of a package.
func (k *checker) packageName(p check.Place, name string) bool {
	if packageForm.MatchString(name) {
		return true
	}
	k.Errorf(p, "%q is not the name of a Debian package; "+
		"write the name alone, such as tcpdump, without version or architecture", check.Clip(name))
	return false
}

func (k *checker) checkScriptAccounts(p check.Place, d spec.ScriptDecision) {
	groups := k.Unique()
	for i, name := range d.Groups {
		if p := p.Then("groups", i); k.account(p, "group", name) && k.newAccount(p, "group", name) {
			groups.Add(p, "the group", name, "remove one")
		}
	}
	users := k.Unique()
	for i, u := range d.Users {
		p := p.Then("users", i)
		if p := p.Then("name"); k.account(p, "user", u.Name) && k.newAccount(p, "user", u.Name) {
			users.Add(p, "the user", u.Name, "remove one")
		}
		if u.Group != "" {
			k.account(p.Then("group"), "group", u.Group)
		}
		k.accountPath(p.Then("home"), u.Home, "/nonexistent")
		k.accountPath(p.Then("shell"), u.Shell, "/usr/sbin/nologin")
	}
}

func (k *checker) account(p check.Place, what, name string) bool {
	if accountName.MatchString(name) {
		return true
	}
	k.Errorf(p, "%q is not the name of a %s; write 1 to 32 letters, digits, _ and -, with a letter or _ first",
		check.Clip(name), what)
	return false
}

func (k *checker) newAccount(p check.Place, what, name string) bool {
	if name != "root" {
		return true
	}
	k.Errorf(p, "every image has the %s root; remove it", what)
	return false
}

// accountPath checks a path of passwd(5), whose fields end at colons.
func (k *checker) accountPath(p check.Place, name, example string) {
	if name != "" && (!isPath(name) || strings.Contains(name, ":")) {
		k.Errorf(p, "%q is not a path of passwd(5); write an absolute one without colons and blanks, such as %s",
			check.Clip(name), example)
	}
}

func (k *checker) checkScriptModes(p check.Place, modes []spec.ScriptMode) {
	seen := k.Unique()
	for i, m := range modes {
		p := p.Then("modes", i)
		if p := p.Then("path"); k.scriptPath(p, m.Path) {
			seen.Add(p, "the path", m.Path, "write all about it into one entry")
		}
		has := func(key string) bool { return p.File.Has(p.Then(key).Path...) }
		if !slices.ContainsFunc([]string{"owner", "group", "mode", "capabilities"}, has) {
			k.Errorf(p, "the entry changes nothing; write one of owner, group, mode and capabilities, or remove it")
		}
		if has("owner") {
			k.account(p.Then("owner"), "user", m.Owner)
		}
		if has("group") {
			k.account(p.Then("group"), "group", m.Group)
		}
		if has("mode") && !octalMode.MatchString(m.Mode) {
			k.Errorf(p.Then("mode"), "%q is not a mode; write four octal digits in quotes, such as \"0750\"", check.Clip(m.Mode))
		}
		if has("capabilities") {
			k.capabilities(p.Then("capabilities"), m.Capabilities)
		}
	}
}

func (k *checker) capabilities(p check.Place, text string) {
	_, err := filecap.Parse(text)
	if err == nil {
		return
	}
	hint := suggestCapability(text)
	if hint == "" {
		hint = "; write them as for setcap(8), such as cap_net_bind_service,cap_net_raw=ep"
	}
	k.Errorf(p, "%q does not give capabilities: %s%s", check.Clip(text), clipped(err), hint)
}

// clipped is the text of an error that may quote a long value.
func clipped(err error) string {
	const most = 120
	text := err.Error()
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// suggestCapability asks for the capability that was probably meant, where one word is wrong.
func suggestCapability(text string) string {
	list, _, _ := strings.Cut(text, "=")
	for _, word := range strings.Split(strings.TrimRight(list, "+-eip"), ",") {
		if !slices.Contains(filecap.Names(), strings.ToLower(word)) {
			return check.Suggest(word, filecap.Names())
		}
	}
	return ""
}

func (k *checker) checkScriptLinks(p check.Place, links []spec.ScriptLink) {
	seen := k.Unique()
	for i, l := range links {
		p := p.Then("links", i)
		if p := p.Then("path"); k.scriptPath(p, l.Path) {
			seen.Add(p, "the link", l.Path, "remove one")
		}
		switch {
		case !isPath(l.Target):
			k.Errorf(p.Then("target"), "%q is not a path in the image; write an absolute one, such as /usr/bin/vim.tiny",
				check.Clip(l.Target))
		case l.Target == l.Path:
			k.Errorf(p.Then("target"), "the link leads to itself; write the file that it is for")
		}
	}
}

// scriptPath checks the path of something that a decision changes.
func (k *checker) scriptPath(p check.Place, name string) bool {
	if !isPath(name) || name == "/" {
		k.Errorf(p, "%q is not a path in the image; "+
			"write an absolute one without . and .. and blanks, such as /usr/bin/tcpdump", check.Clip(name))
		return false
	}
	for _, n := range notOfScripts {
		if name == n.path || strings.HasPrefix(name, n.path+"/") {
			k.Errorf(p, "%s cannot be changed: %s; remove the entry", check.Clip(name), n.why)
			return false
		}
	}
	return true
}

// isPath tells whether a text is an absolute, clean path of characters that can be seen.
func isPath(name string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r == 0x7f }
	return path.IsAbs(name) && path.Clean(name) == name && len(name) <= maxPath && !strings.ContainsFunc(name, hidden)
}

// checkDebconf checks the answers. The file is no place for a password: the image of each machine has what a script
// makes of it.
func (k *checker) checkDebconf(src *source, answers map[string]map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		p := check.In(src, "debconf", name)
		if !k.packageName(p, name) {
			continue
		}
		for _, question := range slices.Sorted(maps.Keys(answers[name])) {
			answer, p := answers[name][question], p.Then(question)
			switch {
			case len(question) > maxQuestion || !questionName.MatchString(question):
				k.Errorf(p, "%q is not the name of a question; "+
					"write it as in the package's templates, such as postfix/main_mailer_type", check.Clip(question))
			case secretQuestion.MatchString(question):
				k.Errorf(p, "the question %s asks for a secret: no secret in an image; remove it, and give the secret on the node",
					check.Clip(question))
			case len(answer) > maxAnswer || strings.ContainsFunc(answer, func(r rune) bool { return r < ' ' || r == 0x7f }):
				k.Errorf(p, "the answer to %s is not one line of at most %d bytes; write it as debconf would show it",
					check.Clip(question), maxAnswer)
			}
		}
	}
}
