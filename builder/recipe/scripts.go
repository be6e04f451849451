package recipe

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"spore/services/service"
)

// verb is a command of maintainer scripts whose effect is part of a root filesystem.
type verb struct {
	name   string
	match  *regexp.Regexp // on one line without its comment
	except *regexp.Regexp // lines that only ask or undo
	// fatal ones stop the build when the recipe has no row for the package, because the image would be wrong without a
	// word; the others are noted.
	fatal bool
	fix   string
}

var verbs = []verb{
	{"adduser", regexp.MustCompile(`\b(adduser|addgroup|useradd|groupadd)\s`), nil, true,
		"add its accounts to builder/recipe/accounts/table, with its name in the last field"},
	{"dpkg-divert", regexp.MustCompile(`\bdpkg-divert\b`), regexp.MustCompile(`--(remove|list|listpackage|truename)\b`), true,
		"look at what it diverts, and say in builder/recipe/scripts.go why that is not needed"},
	{"dpkg-statoverride", regexp.MustCompile(`\bdpkg-statoverride\b.*--add`), nil, true,
		"add a row to builder/recipe/permissions.go"},
	{"setcap", regexp.MustCompile(`\bsetcap\s`), regexp.MustCompile(`command -v`), true,
		"add a row to builder/recipe/permissions.go"},
	{"update-alternatives", regexp.MustCompile(`\bupdate-alternatives\b.*--install`), nil, false,
		"add a row to builder/recipe/alternatives.go"},
	{"ucf", regexp.MustCompile(`\bucf\s`), nil, false,
		"add a row to builder/recipe/madefiles.go"},
	{"chown", regexp.MustCompile(`\b(chown|chgrp|chmod)\s`), nil, false,
		"add a row to builder/recipe/permissions.go"},
}

// replayed says, for a package, which of its scripts' verbs need no more than the recipe does, and why.
var replayed = map[string]map[string]string{
	"base-files":              {"dpkg-divert": "protects the merged-/usr links during upgrades", "chown": "step made-files"},
	"base-passwd":             {"chown": "of subuid and subgid, which stay away"},
	"bash":                    {"update-alternatives": "of a manual page"},
	"ca-certificates":         {"chown": "step made-files"},
	"ca-certificates-java":    {"chown": "of a file of settings, during upgrades"},
	"cpio":                    {"update-alternatives": "step alternatives"},
	"dbus":                    {"dpkg-statoverride": "step permissions"},
	"dbus-daemon":             {"dpkg-statoverride": "step permissions"},
	"debianutils":             {"update-alternatives": "step alternatives"},
	"gzip":                    {"dpkg-divert": "mends diversions of zutils during upgrades"},
	"haproxy":                 {"chown": "of a script of SysV init, during upgrades"},
	"iproute2":                {"setcap": "only when debconf is told to"},
	"iptables":                {"update-alternatives": "step alternatives"},
	"java-common":             {"chown": "step made-files"},
	"kmod":                    {"chown": "of a file that is only a comment"},
	"libc6":                   {"dpkg-divert": "protects the merged-/usr links during upgrades"},
	"libext2fs2t64":           {"dpkg-divert": "protects the libraries during the move to /usr"},
	"libreadline8t64":         {"dpkg-divert": "protects the libraries during the move to /usr"},
	"libtirpc3t64":            {"dpkg-divert": "protects the libraries during the move to /usr"},
	"mawk":                    {"update-alternatives": "step alternatives"},
	"openjdk-21-jre-headless": {"update-alternatives": "step alternatives", "chown": "step made-files, by java-common"},
	"passwd":                  {"adduser": "the group shadow has a fixed id"},
	"python3.13-minimal":      {"chown": "of directories below /usr/local that stay away"},
	"tar":                     {"update-alternatives": "step alternatives"},
	"tpm-udev":                {"chown": "of a directory that the second half leaves out"},
	"util-linux":              {"update-alternatives": "step alternatives"},
}

// checkScripts looks whether a maintainer script does something that no step replays.
func checkScripts(b *build) error {
	known, err := loadAccounts()
	if err != nil {
		return err
	}
	b.accounts = known
	for i := range b.packages {
		p := &b.packages[i]
		names := make([]string, 0, len(p.Scripts))
		for name := range p.Scripts {
			if name == "preinst" || name == "postinst" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if err := b.checkScript(p, name, string(p.Scripts[name])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *build) checkScript(p *Package, name, text string) error {
	lines := strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n")
	for _, v := range verbs {
		known := isReplayed(p.Name, v.name)
		if known || (v.name == "adduser" && b.accounts.hasPackage(p.Name)) || !v.in(lines) {
			continue
		}
		what := fmt.Sprintf("the %s of package %s calls %s, which the recipe does not replay: %s", name, p.Name, v.name, v.fix)
		if v.fatal {
			return errors.New(what)
		}
		b.note("note", "", what)
	}
	return nil
}

func (v verb) in(lines []string) bool {
	for _, line := range lines {
		if i := strings.Index(line, "#"); i == 0 || (i > 0 && (line[i-1] == ' ' || line[i-1] == '\t')) {
			line = line[:i]
		}
		if v.match.MatchString(line) && (v.except == nil || !v.except.MatchString(line)) {
			return true
		}
	}
	return false
}

// isReplayed tells whether a row, here or of a service, says why a verb of a package's scripts needs no more.
func isReplayed(name, verb string) bool {
	_, known := replayed[name][verb]
	return known || slices.ContainsFunc(debian(), func(d service.Debian) bool { return d.Package == name && d.Scripts[verb] != "" })
}
