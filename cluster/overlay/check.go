package overlay

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
)

// reserved is a path that no file of a user may have, nor anything below it.
type reserved struct{ path, why string }

// hiddenByMount says of what is mounted at boot.
const hiddenByMount = "what is mounted there hides it"

// writtenAtBoot says of what the agent writes.
const writtenAtBoot = "spore-agent writes it at each boot, by cluster.yaml and nodes/"

// inAccounts says of the files of accounts.
const inAccounts = "the build writes it; users and groups come from packages, and from scripts of image.yaml"

// notOverlay are the paths that belong to the image itself.
var notOverlay = []reserved{
	{"/boot", "the machine boots from its EFI system partition, which the build writes"},
	{"/dev", hiddenByMount},
	{"/efi", "the EFI system partition is written by the build"},
	{"/etc/cluster-config", writtenAtBoot},
	{"/etc/debian_version", "scanners find vulnerabilities by it"},
	{"/etc/group", inAccounts},
	{"/etc/group-", inAccounts},
	{"/etc/gshadow", inAccounts},
	{"/etc/gshadow-", inAccounts},
	{"/etc/hostname", writtenAtBoot},
	{"/etc/hosts", writtenAtBoot},
	{"/etc/machine-id", "each machine has its own, made at boot"},
	{"/etc/os-release", "the build writes it, and tools tell images apart by it"},
	{"/etc/passwd", inAccounts},
	{"/etc/passwd-", inAccounts},
	{"/etc/resolv.conf", writtenAtBoot},
	{"/etc/shadow", inAccounts},
	{"/etc/shadow-", inAccounts},
	{"/etc/sysctl.d/90-spore-node.conf", writtenAtBoot},
	{"/etc/systemd/system-preset", "a unit of units/ is enabled by its [Install] section"},
	{"/etc/systemd/timesyncd.conf.d/10-spore.conf", writtenAtBoot},
	{"/etc/sysusers.d", "nothing reads it: users and groups come from packages, and from scripts of image.yaml"},
	{"/proc", hiddenByMount},
	{"/run", hiddenByMount + "; let a line of tmpfiles.d(5) make it at boot, in overlay/etc/tmpfiles.d/NAME.conf"},
	{"/sys", hiddenByMount},
	{"/tmp", hiddenByMount},
	{"/usr/bin/spore-agent", "the machine is run by it"},
	{"/usr/lib/dpkg", "scanners find vulnerabilities by it"},
	{"/usr/lib/os-release", "the build writes it, and tools tell images apart by it"},
	{"/usr/lib/spore", "the image says there what it is made of"},
	{"/usr/lib/systemd", "it is systemd's own; put units into units/, and settings into overlay/etc/systemd"},
	{"/usr/lib/sysusers.d", "nothing reads it: users and groups come from packages, and from scripts of image.yaml"},
	{"/usr/lib/tmpfiles.d/spore-var.conf", "the build writes it"},
	{"/usr/local/lib/systemd", "put units into units/, and settings into overlay/etc/systemd"},
	{"/usr/sbin/mkfs.spore", "the machine makes encrypted state by it"},
	{"/usr/sbin/mount.spore", "the machine mounts its state by it"},
	{"/usr/share/factory/var", "the build keeps there what packages have below /var"},
	{"/var", "the state partition is mounted there; let a line of tmpfiles.d(5) make it at boot, " +
		"in overlay/etc/tmpfiles.d/NAME.conf"},
}

// mergedDirs are links of the image into /usr (file-hierarchy(7)).
var mergedDirs = []string{"/bin", "/lib", "/lib64", "/sbin"}

// Resolved is a path with the links into /usr followed that each image has.
func Resolved(name string) string {
	for _, dir := range mergedDirs {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return "/usr" + name
		}
	}
	return name
}

// Reserved says why no file of a user may be at a path of the image; empty where one may. A directory may be what
// reserved paths lie in, and is refused only where it is below one.
func Reserved(name string) string {
	name = Resolved(name)
	for _, r := range notOverlay {
		if name == r.path || strings.HasPrefix(name, r.path+"/") {
			return r.why
		}
	}
	if systemOfSystemd(name) {
		return "systemd has units and programs there; put units and drop-ins into units/"
	}
	if strings.Contains(name+"/", "/glibc-hwcaps/") { // ld.so(8)
		return "libraries there take the place of those of the image where the processor fits"
	}
	if dir, base := path.Split(name); dir == "/etc/systemd/network/" && strings.Contains(base, "spore") {
		return writtenAtBoot
	}
	return ""
}

// systemOfSystemd tells whether a path belongs to the directories of the system's units, which systemd reads besides
// /etc/systemd/system (systemd.unit(5), systemd.generator(7), systemd.environment-generator(7)), and is none of the
// settings of systemd itself.
func systemOfSystemd(name string) bool {
	const settings = "/etc/systemd/system.conf"
	return strings.HasPrefix(name, "/etc/systemd/system") && name != settings && name != settings+".d" &&
		!strings.HasPrefix(name, settings+".d/")
}

var (
	octalMode = regexp.MustCompile(`^[0-7]{4}$`)
	// accountName is the syntax that adduser(8) takes for users of services and groups (SYS_NAME_REGEX), in the length of
	// useradd(8).
	accountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,31}$`)
)

// Check checks entries and settings, and gives each entry what the settings say of it. at has the files of the folder
// by their path, for messages; file is overlay.yaml, nil without one.
func Check(k *check.Checker, file check.File, settings Settings, entries []Entry, at func(name string) check.File) {
	index := map[string]int{}
	var known []string
	for i, e := range entries {
		index[e.Path] = i
		known = append(known, e.Path)
		if why := Reserved(e.Path); why != "" && !reservedAbove(entries, e.Path) {
			k.Errorf(check.In(at(e.Source())), "no file of overlay/ can be at %s: %s", e.Path, why)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings.Files)) {
		p := check.In(file, "files", name)
		f := settings.Files[name]
		i, ok := index[name]
		if !ok {
			k.Errorf(p, "there is no file %s%s", check.Clip(path.Join(Dir, name)), hint(k, name, known))
			continue
		}
		checkFile(k, p, entries[i], f)
		line, column := file.At(p.Path...)
		entries[i].File, entries[i].At = f, fmt.Sprintf("%s:%d:%d", SettingsFile, line, column)
	}
}

// reservedAbove tells whether a directory of the entries that the path lies in was reported already.
func reservedAbove(entries []Entry, name string) bool {
	dir := path.Dir(name)
	return dir != "/" && Reserved(dir) != "" &&
		slices.ContainsFunc(entries, func(e Entry) bool { return e.Path == dir })
}

// hint says what was probably meant by a path that is not there.
func hint(k *check.Checker, name string, known []string) string {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return "; write the absolute path in the image, such as /etc/gateway.conf"
	}
	if s := k.SuggestOf(name, known); s != "" {
		return s
	}
	return "; add the file, or remove the entry"
}

func checkFile(k *check.Checker, p check.Place, e Entry, f File) {
	has := func(key string) bool { return p.File.Has(p.Then(key).Path...) }
	if !slices.ContainsFunc([]string{"owner", "group", "mode", "replace"}, has) {
		k.Errorf(p, "the entry changes nothing; write one of owner, group, mode and replace, or remove it")
	}
	for _, account := range []struct{ key, what, name string }{
		{"owner", "user", f.Owner}, {"group", "group", f.Group},
	} {
		if has(account.key) && !accountName.MatchString(account.name) {
			k.Errorf(p.Then(account.key), "%q is not the name of a %s; write one that the image has, such as root",
				check.Clip(account.name), account.what)
		}
	}
	if !has("mode") {
		return
	}
	switch p := p.Then("mode"); {
	case e.Type == fs.ModeSymlink:
		k.Errorf(p, "a link has no mode of its own; remove the key")
	case !octalMode.MatchString(f.Mode):
		k.Errorf(p, "%q is not a mode; write four octal digits in quotes, such as \"0640\"", check.Clip(f.Mode))
	case strings.ContainsRune("4567", rune(f.Mode[0])):
		k.Errorf(p, "%q has set-user-ID; write a mode that begins with 0, and let a unit start the program as the "+
			"user that it needs",
			f.Mode)
	case strings.ContainsRune("23", rune(f.Mode[0])):
		k.Errorf(p, "%q has set-group-ID; write a mode that begins with 0, and let a unit start the program as "+
			"the user that it needs",
			f.Mode)
	case f.Mode[0] == '1' && e.Type != fs.ModeDir:
		k.Errorf(p, "%q has the sticky bit, which means something for directories alone; write a mode that begins "+
			"with 0", f.Mode)
	}
}
