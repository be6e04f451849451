// Package rules finds what is wrong with the roles that a user writes (package role): each by itself, with each other,
// and where they take what is of the rest of the configuration.
package rules

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/role/setting"
	"spore/cluster/units"
)

// Source is a definition with the file that it was read from.
type Source struct {
	Definition *role.Definition
	File       check.File
}

// Bounds of one role.
const (
	maxEntries = 100
	maxLine    = 200
	maxLength  = 256
	// minBits is the least that a secret has: what nobody tries out, whatever a program makes of it.
	minBits = 64
)

// Forms of names.
var (
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)
	// Neither part of the name ends in a dash: systemd reads NAME-.service.d as drop-ins of all units that begin with
	// NAME- (systemd.unit(5)).
	unitForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9:_.-]*[A-Za-z0-9:_.])?` +
		`(@[A-Za-z0-9:_.-]*[A-Za-z0-9:_.])?\.(service|timer|socket|path)$`)
	userForm   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)
	packForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,99}$`)
	modeForm   = regexp.MustCompile(`^0?[0-7]{3}$`)
	entryForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,49}$`)
	fileForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.tmpl$`)
	capForm    = regexp.MustCompile(`^CAP_[A-Z0-9_]{1,40}$`)
	familyForm = regexp.MustCompile(`^AF_[A-Z0-9]{1,20}$`)
	callForm   = regexp.MustCompile(`^@?[a-z0-9_-]{1,40}$`)
	deviceForm = regexp.MustCompile(`^(/dev/[A-Za-z0-9][A-Za-z0-9/._:+-]*|(char|block)-[A-Za-z0-9*._-]+)$`)
	wordForm   = regexp.MustCompile(`\{[^}]*\}`)
)

// CheckAll finds what is wrong with the roles of a configuration, one by one and with each other, and where they take
// what is of the rest of it.
func CheckAll(k *check.Checker, roles []Source, rest Rest) {
	all := rest.clone()
	maps.Copy(all.Paths, nodePaths)
	for dir, names := range systemNames {
		for _, name := range names {
			all.Paths[path.Join(dir, name)] = "the system"
		}
	}
	for _, r := range roles {
		c := &checker{Checker: k, d: r.Definition, file: r.File, rest: all}
		c.check()
		c.take()
	}
}

// checker looks at one role.
type checker struct {
	*check.Checker
	d    *role.Definition
	file check.File
	rest *Rest
}

func (c *checker) in(path ...any) check.Place { return check.In(c.file, path...) }

func (c *checker) check() {
	if !c.name() {
		return
	}
	c.line(c.in("description"), "the description", c.d.Description)
	c.names("packages", c.d.Packages, packForm, "the name of a Debian package; write one such as valkey-server")
	c.programs()
	c.units()
	c.user()
	c.directories()
	c.disks()
	c.machine()
	c.ports()
	setting.Check(c.d.Settings, func(path []any, message string) {
		c.Errorf(c.in(append([]any{"settings"}, path...)...), "%s", message)
	})
	c.secrets()
	c.files()
	c.live()
	c.health()
	c.tests()
	c.needs()
}

func (c *checker) name() bool {
	name := c.d.Name
	hint := "; rename the file"
	switch {
	case !nameForm.MatchString(name):
		c.Errorf(c.in(), "%q is not the name of a role; write 2 to 32 lower-case letters, digits and -, the first "+
			"a letter%s", check.Clip(name), hint)
	case c.rest.Names[name] != "":
		c.Errorf(c.in(), "the name %q belongs to %s%s", name, c.rest.Names[name], hint)
	case reserved(name) || slices.Contains(systemTargets, name) || units.Ours(c.d.Target()):
		c.Errorf(c.in(), "the name %q is of the node itself, which has a unit or target of it%s", name, hint)
	default:
		return true
	}
	return false
}

// line holds a text for people to one line.
func (c *checker) line(p check.Place, what, text string) {
	if !p.File.Has(p.Path...) {
		return
	}
	switch {
	case strings.TrimSpace(text) == "":
		c.Errorf(p, "%s is empty; write one line", what)
	case len(text) > maxLine || strings.ContainsAny(text, "\n\r"):
		c.Errorf(p, "%s is longer than one line of %d bytes; write less", what, maxLine)
	case strings.ContainsFunc(text, unicode.IsControl) || strings.HasSuffix(text, `\`):
		// A unit reads the line behind a trailing \ as the rest of the text.
		c.Errorf(p, "%s has a control character or ends in \\; write one line of words", what)
	}
}

// names checks a list of names, each once.
func (c *checker) names(key string, list []string, form *regexp.Regexp, is string) {
	c.list(c.in(key), key, len(list))
	seen := c.Unique()
	for i, name := range list {
		p := c.in(key, i)
		if !form.MatchString(name) {
			c.Errorf(p, "%q is not %s", check.Clip(name), is)
			continue
		}
		seen.Add(p, "the entry", name, "remove one")
	}
}

// list bounds a list.
func (c *checker) list(p check.Place, what string, n int) {
	if n > maxEntries {
		c.Errorf(p, "%s has %d entries; at most %d are read", what, n, maxEntries)
	}
}

// programs checks that programs/ has what the role needs.
func (c *checker) programs() {
	c.list(c.in("programs"), "programs", len(c.d.Programs))
	seen := c.Unique()
	for i, name := range c.d.Programs {
		p := c.in("programs", i)
		if slices.Contains(c.rest.Programs, name) {
			seen.Add(p, "the entry", name, "remove one")
			continue
		}
		hint := check.Suggest(name, c.rest.Programs)
		switch {
		case hint == "" && len(c.rest.Programs) > 0:
			hint = "; write " + check.OrWords(c.rest.Programs) + ", or add the program"
		case hint == "":
			hint = "; write programs/NAME.yaml for it, or name a Debian package under packages"
		}
		c.Errorf(p, "programs/ has no program %q%s", check.Clip(name), hint)
	}
}

func (c *checker) units() {
	if c.file.Has("units") && len(c.d.Units) == 0 {
		c.Errorf(c.in("units"), "a role without units does nothing; write those that start with it, such as "+
			"valkey-server.service")
	}
	c.names("units", c.d.Units, unitForm, "the name of a service, timer, socket or path that systemd starts; "+
		"write one such as valkey-server.service or backup@daily.timer")
	for i, u := range c.d.Units {
		p, service := c.in("units", i), strings.TrimSuffix(u, ".timer")+".service"
		c.unit(p, u)
		if strings.HasSuffix(u, ".timer") && slices.Contains(c.d.Units, service) {
			c.Errorf(p, "the timer starts %s, which the role starts as well; remove one of both: OnActiveSec= in the timer "+
				"starts it with the role, too", service)
		}
	}
	for i, u := range c.d.Logs {
		p := c.in("logs", i)
		if !slices.Contains(c.d.Services(), u) && !slices.Contains(c.d.Units, u) {
			c.OneOf(p, "the unit", u, c.d.Services())
		}
	}
}

// unit refuses a unit of somebody else, and one that starts a service of somebody else.
func (c *checker) unit(p check.Place, u string) {
	if !unitForm.MatchString(u) {
		return
	}
	service := strings.TrimSuffix(u, path.Ext(u)) + ".service"
	if whose := c.whoseUnit(u); whose != "" {
		c.Errorf(p, "the unit %q %s; write a unit of the role's own", u, whose)
	} else if whose := c.whoseUnit(service); whose != "" {
		c.Errorf(p, "the unit %s starts %q, which %s; write a unit of the role's own", u, service, whose)
	} else if c.rest.Starts != nil && u != service {
		c.starts(p, u, service)
	}
}

// starts refuses a timer, socket or path that starts another service than that of its name, which alone has the user
// and the hardening of the role.
func (c *checker) starts(p check.Place, u, service string) {
	for _, s := range c.rest.Starts(u) {
		switch whose := c.whoseUnit(s.Unit); {
		case s.Unit != "" && whose != "":
			c.Errorf(s.At, "%s: that unit %s, and %s is of the role %s (%s); let it start %s", check.Clip(s.Says), whose, u,
				c.d.Name, p.Where(), service)
		default:
			c.Errorf(s.At, "%s: %s is of the role %s (%s), whose user and hardening are those of %s; let it start that",
				check.Clip(s.Says), u, c.d.Name, p.Where(), service)
		}
	}
}

// whoseUnit says who has a unit; nothing where nobody has.
func (c *checker) whoseUnit(u string) string {
	template := units.Template(u)
	switch whose := cmp.Or(c.rest.Units[u], c.rest.Units[template]); {
	case reserved(u):
		return "is of the node itself"
	case whose != "":
		return "belongs to " + whose
	case units.Ours(u) && !c.rest.Off[template]:
		return "is of the node itself"
	}
	return ""
}

func (c *checker) user() {
	u := c.d.User
	if u == nil {
		return
	}
	p := c.in("user", "name")
	switch {
	case !c.file.Has("user", "name"):
	case !userForm.MatchString(u.Name):
		c.Errorf(p, "%q is not the name of a user; write 1 to 31 lower-case letters, digits, _ and -, the first a "+
			"letter", check.Clip(u.Name))
	case slices.Contains(systemUsers, u.Name) || systemGroups[u.Name] != "" || reserved(u.Name):
		c.Errorf(p, "the user %q is of the node itself; write one of the role's own, such as %s", u.Name, c.d.Name)
	case c.rest.Users[u.Name] != "":
		c.Errorf(p, "the user %q belongs to %s; write one of the role's own, such as %s", u.Name,
			c.rest.Users[u.Name], c.d.Name)
	}
	seen := c.Unique()
	for i, g := range u.Groups {
		p := c.in("user", "groups", i)
		if !userForm.MatchString(g) {
			c.Errorf(p, "%q is not the name of a group; write 1 to 31 lower-case letters, digits, _ and -, the "+
				"first a letter", check.Clip(g))
			continue
		}
		if whose := c.rest.Users[g]; whose != "" || g == "root" || reserved(g) {
			c.Errorf(p, "the group %q belongs to %s, and its members read what is theirs; remove it", g, orNode(whose))
		} else if can := systemGroups[g]; can != "" {
			c.Errorf(p, "members of the group %q %s; remove it, and name under needs what the units need", g, can)
		}
		seen.Add(p, "the group", g, "remove one")
	}
}

func orNode(whose string) string {
	if whose == "" {
		return "the node itself"
	}
	return whose
}

// owner checks a user or group of a file or directory.
func (c *checker) owner(p check.Place, what, name string) {
	whose := c.rest.Users[name]
	if name == "" || userForm.MatchString(name) && whose == "" {
		return
	}
	if whose != "" {
		c.Errorf(p, "%s %q belongs to %s; write one of the role's own", what, name, whose)
		return
	}
	c.Errorf(p, "%s %q is not a name; write 1 to 31 lower-case letters, digits, _ and -, the first a letter", what,
		check.Clip(name))
}

// mode checks octal digits.
func (c *checker) mode(p check.Place, mode string) {
	if mode == "" || modeForm.MatchString(mode) && role.Permissions(mode)&0o002 == 0 {
		return
	}
	switch {
	case len(mode) == 4 && mode[0] != '0' && strings.Trim(mode, "01234567") == "":
		c.Errorf(p, "the mode %q gives rights of its owner to whoever starts it; write three digits, such as "+
			"\"0750\"", mode)
	case modeForm.MatchString(mode):
		c.Errorf(p, "the mode %q lets everybody write; write one such as \"0750\"", mode)
	default:
		c.Errorf(p, "%q is not a mode; write octal digits in quotes, such as \"0750\"", check.Clip(mode))
	}
}

// path checks a path that the role has on the node. It reports false after an error.
func (c *checker) path(p check.Place, s string, below []string) bool {
	if err := setting.CleanPath(s); err != nil {
		c.Errorf(p, "%s", err)
		return false
	}
	if strings.ContainsAny(s, " \"'\\%$*?[]{}:") {
		c.Errorf(p, "the path %q has a character that units read as another; write letters, digits, -, _ and .",
			check.Clip(s))
		return false
	}
	if !slices.ContainsFunc(below, func(dir string) bool { return s != dir && inside(s, dir) }) {
		c.Errorf(p, "the path %q is not below %s; write one such as %s/%s", check.Clip(s), check.OrWords(below),
			below[0], c.d.Name)
		return false
	}
	if slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(s, dir+"/spore-") }) {
		c.Errorf(p, "the path %q is of the node itself, which has directories of this beginning; write one such as "+
			"%s/%s", check.Clip(s), below[0], c.d.Name)
		return false
	}
	if first, dir := firstName(s); strings.HasSuffix(first, ".d") && dir != "/etc" {
		c.Errorf(p, "the path %q is of the system, which reads settings in folders whose names end in .d; write one "+
			"such as %s/%s", check.Clip(s), below[0], c.d.Name)
		return false
	}
	if theirs, whose := c.rest.whosePath(s); whose != "" {
		of := "it"
		if theirs != s {
			of = theirs
		}
		c.Errorf(p, "the path %q is not free: %s belongs to %s; write one such as %s/%s", check.Clip(s), of, whose,
			below[0], c.d.Name)
		return false
	}
	return true
}

// Where a role may have what.
var (
	stateDirs = []string{"/var/lib", "/var/cache", "/var/log", "/var/spool", "/var/opt", "/run"}
	fileDirs  = []string{"/run", "/etc", "/var/lib", "/var/cache", "/var/log", "/var/spool", "/var/opt"}
)

func (c *checker) directories() {
	c.list(c.in("directories"), "directories", len(c.d.Directories))
	seen := c.Unique()
	for i, dir := range c.d.Directories {
		p := c.in("directories", i)
		if c.file.Has("directories", i, "path") && c.path(p.Then("path"), dir.Path, stateDirs) {
			seen.Add(p.Then("path"), "the directory", dir.Path, "remove one")
		}
		c.owner(p.Then("owner"), "the owner", dir.Owner)
		c.owner(p.Then("group"), "the group", dir.Group)
		c.mode(p.Then("mode"), dir.Mode)
		c.quota(p.Then("quota"), i)
	}
}

// notHeld is the capability of programs that the kernel holds to no quota.
const notHeld = "CAP_SYS_RESOURCE"

// quota checks what a directory may fill, and that something holds the role to it.
func (c *checker) quota(p check.Place, i int) {
	if !c.file.Has("directories", i, "quota") {
		return
	}
	dir, needs := c.d.Directories[i], c.d.NeedsOf()
	size, err := setting.ParseSize(dir.Quota)
	switch {
	case err != nil:
		c.Errorf(p, "the quota %s", err)
	case size < 1<<20:
		c.Errorf(p, "the quota %s is less than 1MiB; write more", dir.Quota)
	case inside(dir.Path, "/run"):
		c.Errorf(p, "a quota is for what is on the state partition, and %q is in memory; write a path below /var/lib, or "+
			"remove the quota", check.Clip(dir.Path))
	case needs.Root && c.d.User == nil: // With a user, root is refused itself.
		c.Errorf(p, "the role needs root (needs), which no quota holds; write user: {name: %s} in its place, or remove "+
			"the quota", c.d.Name)
	case slices.Contains(needs.Capabilities, notHeld):
		c.Errorf(p, "no quota holds a program with %s (needs); remove the capability or the quota", notHeld)
	}
	for j, other := range c.d.Directories {
		if j != i && other.Quota != "" && dir.Path != other.Path && inside(dir.Path, other.Path) {
			c.Errorf(p, "the directory %q lies in %q, which has a quota (%s), and its files count for one of both; remove "+
				"a quota", check.Clip(dir.Path), check.Clip(other.Path), c.in("directories", j).Where())
		}
	}
}

// memory checks a size that is not a setting.
func (c *checker) memory() {
	p, text := c.in("memory"), c.d.Memory
	if !c.file.Has("memory") {
		return
	}
	n, err := setting.ParseSize(text)
	switch {
	case err != nil:
		c.Errorf(p, "the memory %s", err)
	case n < 1<<20:
		c.Errorf(p, "the memory %s is less than 1MiB; write more", text)
	}
}

// machine checks what the role asks of machines.
func (c *checker) machine() {
	c.memory()
	if c.file.Has("architectures") && len(c.d.Architectures) == 0 {
		c.Errorf(c.in("architectures"), "there are no architectures, so that no machine could run the role; write %s",
			check.OrWords(architectures))
	}
	known, seen := true, c.Unique()
	for i, a := range c.d.Architectures {
		p := c.in("architectures", i)
		known = c.OneOf(p, "the architecture", a, architectures) && known
		seen.Add(p, "the architecture", a, "remove one")
	}
	if here := c.rest.Architecture; known && here != "" && len(c.d.Architectures) > 0 &&
		!slices.Contains(c.d.Architectures, here) {
		c.Errorf(c.in("architectures"), "the image is for %s, and the role runs on %s; add %s, or remove the role",
			here, strings.Join(c.d.Architectures, ", "), here)
	}
}

func (c *checker) live() {
	told := map[string]check.Place{}
	for i, l := range c.d.Live {
		p := c.in("live", i)
		if c.file.Has("live", i, "settings") && len(l.Settings) == 0 {
			c.Errorf(p.Then("settings"), "there are no settings; write those that a running node takes at once")
		}
		if c.file.Has("live", i, "restart") && len(l.Restart) == 0 {
			c.Errorf(p.Then("restart"), "there are no units; write those that are started again: %s",
				strings.Join(c.d.Services(), ", "))
		}
		for j, name := range l.Settings {
			if _, is := c.d.Settings[name]; !is {
				c.unknownSetting(p.Then("settings", j), name)
			} else if first, twice := told[name]; twice {
				c.Errorf(p.Then("settings", j), "the setting %s is here twice, first at %s; write one entry with "+
					"all units", name, first.Where())
			} else {
				told[name] = p.Then("settings", j)
			}
		}
		for j, u := range l.Restart {
			if len(c.d.Units) == 0 {
				break // Said of the units.
			}
			c.OneOf(p.Then("restart", j), "the unit", u, c.d.Services())
		}
	}
}

func (c *checker) health() {
	h := c.d.Health
	if h == nil {
		return
	}
	p, asked := c.in("health"), 0
	for _, is := range []bool{h.Port != 0, len(h.Command) > 0, h.HTTP != nil, h.Journal != ""} {
		if is {
			asked++
		}
	}
	if asked != 1 {
		c.Errorf(p, "health has %s; write one of port, command, http and journal", check.Count(asked, "question"))
		return
	}
	switch {
	case h.Port != 0:
		c.ownPort(p.Then("port"), h.Port)
	case h.HTTP != nil:
		if c.file.Has("health", "http", "port") {
			c.ownPort(p.Then("http", "port"), h.HTTP.Port)
		}
		if c.file.Has("health", "http", "path") && !isRequest(h.HTTP.Path) {
			c.Errorf(p.Then("http", "path"), "%q is not the path of a request; write one such as /healthz",
				check.Clip(h.HTTP.Path))
		}
		if c.file.Has("health", "http", "status") {
			c.Between(p.Then("http", "status"), "the status", h.HTTP.Status, 100, 599)
		}
	case h.Journal != "":
		if _, err := regexp.Compile(h.Journal); err != nil || len(h.Journal) > maxLine {
			c.Errorf(p.Then("journal"), "%q is not a regular expression of at most %d bytes; write it as RE2 has "+
				"it, such as Ready to accept connections", check.Clip(h.Journal), maxLine)
		}
	default:
		c.command(p.Then("command"), h.Command)
		c.commandUser(p.Then("command"), ", or ask by port, http or journal")
	}
}

// isRequest tells whether a path can be asked for.
func isRequest(s string) bool {
	_, err := url.ParseRequestURI(s)
	return err == nil && strings.HasPrefix(s, "/") && len(s) <= maxLine &&
		!strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || unicode.IsControl(r) })
}

// ownPort checks that a port is one of the role's.
func (c *checker) ownPort(p check.Place, number int) {
	var known []string
	for _, port := range c.d.Ports {
		if port.Protocol != role.UDP {
			known = append(known, fmt.Sprint(port.Port))
			if port.Port == number {
				return
			}
		}
	}
	if len(known) == 0 {
		c.Errorf(p, "the role has no port of TCP; declare %d under ports", number)
		return
	}
	c.Errorf(p, "the role has no port %d of TCP; write %s, or declare it under ports", number, check.OrWords(known))
}

func (c *checker) command(p check.Place, words []string) {
	if len(words) == 0 {
		c.Errorf(p, "the command is empty; write the program and its arguments, such as [valkey-cli, ping]")
		return
	}
	c.list(p, "the command", len(words))
	if words[0] == "" || strings.ContainsAny(words[0], " \t\n") || strings.Contains(words[0], "/") &&
		path.Clean(words[0]) != words[0] {
		c.Errorf(p.Then(0), "%q is not a program; write its name or its path, and each argument as an entry of "+
			"its own", check.Clip(words[0]))
	}
}

// commandUser refuses a command of a role without a user. One that needs root can have none: tests and commands for the
// health never run as root.
func (c *checker) commandUser(p check.Place, other string) {
	switch {
	case c.d.User == nil && c.d.NeedsOf().Root:
		c.Errorf(p, "a role that needs root can have no tests and no health command, since they run as its user, which it "+
			"has not; take root out of needs and write user: {name: %s}%s", c.d.Name, other)
	case c.d.User == nil:
		c.Errorf(p, "the command runs as the user of the role, which names none; write user: {name: %s}%s", c.d.Name, other)
	}
}

// maxCommand bounds the words of a test's command, in bytes: what came of it is told with them.
const maxCommand = 4 << 10

func (c *checker) tests() {
	if n := len(c.d.Tests); n > role.MaxTests {
		c.Errorf(c.in("tests"), "the role has %d tests; at most %d are run", n, role.MaxTests)
	}
	for i, t := range c.d.Tests {
		p := c.in("tests", i)
		if c.file.Has("tests", i, "command") {
			c.command(p.Then("command"), t.Command)
			c.commandUser(p.Then("command"), ", or remove the tests")
		}
		if n := len(strings.Join(t.Command, " ")); n > maxCommand {
			c.Errorf(p.Then("command"), "the command has %d bytes; at most %d are run: lay a script into programs/", n,
				maxCommand)
		}
		if c.file.Has("tests", i, "expect") && (t.Expect == "" || len(t.Expect) > maxLine) {
			c.Errorf(p.Then("expect"), "the text that is expected has %d bytes; write 1 to %d that the command prints",
				len(t.Expect), maxLine)
		}
	}
}

func (c *checker) needs() {
	n := c.d.Needs
	if n == nil {
		return
	}
	words := func(key string, list []string, form *regexp.Regexp, is string) {
		c.list(c.in("needs", key), key, len(list))
		for i, w := range list {
			if !form.MatchString(w) {
				c.Errorf(c.in("needs", key, i), "%q is not %s", check.Clip(w), is)
			}
		}
	}
	words("capabilities", n.Capabilities, capForm, "a capability; write one of capabilities(7), such as "+
		"CAP_NET_BIND_SERVICE")
	words("sockets", n.Sockets, familyForm, "a family of sockets; write one such as AF_CAN or AF_PACKET")
	words("systemCalls", n.SystemCalls, callForm, "a system call or a group of them; write one such as mlock or @mount")
	words("devices", n.Devices, deviceForm, "a device; write one such as /dev/ttyS0, or a kind such as char-ttyUSB")
	for i, dir := range n.Write {
		p := c.in("needs", "write", i)
		if c.path(p, dir, fileDirs) {
			c.inEtc(p, dir+"/x")
		}
	}
	if n.Root && c.d.User != nil {
		c.Errorf(c.in("needs", "root"), "the units run as the user %s, and as root: both cannot be; remove user, "+
			"or name under capabilities what they need", check.Clip(c.d.User.Name))
	}
}

// take adds what the role has, so that the roles behind it do not take it.
func (c *checker) take() {
	d, r := c.d, c.rest
	whose := fmt.Sprintf("the role %s (%s)", d.Name, c.in().Where())
	add := func(m map[string]string, name string) {
		if name != "" && m[name] == "" {
			m[name] = whose
		}
	}
	add(r.Names, d.Name)
	for _, u := range append(slices.Clone(d.Units), d.Services()...) {
		add(r.Units, u)
	}
	if d.User != nil {
		add(r.Users, d.User.Name)
	}
	for _, dir := range d.Directories {
		add(r.Paths, dir.Path)
	}
	for _, f := range d.Files {
		add(r.Paths, f.Path)
	}
	if d.Disks != nil {
		add(r.Paths, d.Disks.At)
	}
	for _, entry := range d.Entries() {
		add(r.Secrets, entry)
	}
	for _, a := range d.Authorities() {
		add(r.Authorities, a)
	}
	for _, p := range d.Ports {
		if p.Setting == "" {
			r.Ports = append(r.Ports, listener(d, p))
		}
	}
}
