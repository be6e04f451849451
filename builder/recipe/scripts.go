package recipe

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
)

// verbs are the commands of maintainer scripts whose effect is part of a root filesystem. Fatal ones stop the build when
// the recipe has no row for the package, because the image would be wrong without a word; the others are noted.
var verbs = []struct {
	name  string
	match *regexp.Regexp
	fatal bool
	fix   string
}{
	{"adduser", regexp.MustCompile(`(?m)^[^#\n]*\b(adduser|addgroup|useradd|groupadd)\b`), true,
		"add its accounts to builder/recipe/accounts/table with deb:%s in the last field"},
	{"dpkg-divert", regexp.MustCompile(`(?m)^[^#\n]*\bdpkg-divert\b`), true,
		"look at what it diverts, and add it to the table replayed in builder/recipe/scripts.go"},
	{"dpkg-statoverride", regexp.MustCompile(`(?m)^[^#\n]*\bdpkg-statoverride\b[^\n]*--add`), true,
		"add a row for %s to builder/recipe/permissions.go"},
	{"setcap", regexp.MustCompile(`(?m)^[^#\n]*\bsetcap\b`), true,
		"add a row for %s to builder/recipe/permissions.go"},
	{"update-alternatives", regexp.MustCompile(`(?m)^[^#\n]*\bupdate-alternatives\b[^\n]*--install`), false,
		"add a row for %s to builder/recipe/alternatives.go"},
	{"ucf", regexp.MustCompile(`(?m)^[^#\n]*\bucf\s`), false,
		"add a row for %s to builder/recipe/madefiles.go"},
	{"chown", regexp.MustCompile(`(?m)^[^#\n]*\b(chown|chgrp|chmod)\b`), false,
		"add a row for %s to builder/recipe/permissions.go"},
}

// replayed says, for a package, which of its scripts' verbs the recipe replays or need no replay, and why.
var replayed = map[string]map[string]string{
	"adduser":                {"adduser": "the program itself", "chmod": "", "chown": "on upgrades only"},
	"base-files":             {"dpkg-divert": "protects the merged-/usr links during upgrades", "chown": "step made-files"},
	"base-passwd":            {"chown": "step accounts"},
	"bash":                   {"update-alternatives": "a manual page"},
	"ca-certificates":        {"chown": "step ca-bundle"},
	"cpio":                   {"update-alternatives": "step alternatives"},
	"dash":                   {"dpkg-divert": "drops diversions of old releases"},
	"dbus":                   {"dpkg-statoverride": "step permissions"},
	"dbus-system-bus-common": {"adduser": "step accounts"},
	"debianutils":            {"update-alternatives": "step alternatives"},
	"gzip":                   {"dpkg-divert": "drops diversions of old releases"},
	"iproute2":               {"setcap": "only when debconf is told to"},
	"iptables":               {"update-alternatives": "step alternatives"},
	"klibc-utils":            {"dpkg-divert": "", "chown": ""},
	"kmod":                   {"chown": "step made-files"},
	"libc6":                  {"dpkg-divert": "protects the merged-/usr links during upgrades"},
	"libext2fs2t64":          {"dpkg-divert": "protects the libraries during the move to /usr"},
	"libtirpc3t64":           {"dpkg-divert": "protects the libraries during the move to /usr"},
	"mawk":                   {"update-alternatives": "step alternatives"},
	"mosquitto":              {"chown": "step permissions"},
	"passwd":                 {"adduser": "the group shadow has a fixed id"},
	"systemd-sysv":           {"dpkg-divert": "drops diversions of old releases"},
	"tar":                    {"update-alternatives": "step alternatives"},
	"util-linux":             {"update-alternatives": "step alternatives"},
	"init-system-helpers":    {"chown": "", "dpkg-divert": "drops diversions of old releases"},
	"initramfs-tools-core":   {"dpkg-divert": "drops diversions of old releases"},
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
		sort.Strings(names)
		for _, name := range names {
			if err := b.checkScript(p, name, string(p.Scripts[name])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *build) checkScript(p *Package, name, text string) error {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, v := range verbs {
		if !v.match.MatchString(text) {
			continue
		}
		if _, ok := replayed[p.Name][v.name]; ok {
			continue
		}
		if v.name == "adduser" && b.accounts.hasPackage(p.Name) {
			continue
		}
		fix := v.fix
		if strings.Contains(fix, "%s") {
			fix = fmt.Sprintf(fix, p.Name)
		}
		if v.fatal {
			return fmt.Errorf("the %s of package %s calls %s, which the recipe does not replay: %s", name, p.Name, v.name, fix)
		}
		b.note("note", "", fmt.Sprintf("the %s of package %s calls %s, which the recipe does not replay: %s", name, p.Name, v.name, fix))
	}
	return nil
}
