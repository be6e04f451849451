package programs

import (
	"encoding/base64"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"spore/cluster/check"
	"spore/cluster/overlay"
)

// What the keys may hold.
var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,62}$`)
	hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	modeForm = regexp.MustCompile(`^0[4-7][0-7]{2}$`)
	// specialForm is a mode with set-user-ID, set-group-ID or the sticky bit (inode(7)).
	specialForm = regexp.MustCompile(`^[1-7][0-7]{3}$`)
	// versionForm is what every reader of a bill of materials takes.
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+~_:-]{0,63}$`)
	// packageForm is a folder of a module as the go command takes it.
	packageForm = regexp.MustCompile(`^(\.|\./[A-Za-z0-9][A-Za-z0-9._/-]*)$`)
)

// roots are where programs may lie.
var roots = []string{"/usr/", "/opt/"}

// closed are directories whose files decide how a machine starts, or belong to the build. What /usr/local has of the
// same name is read in their place.
var closed = []string{
	"/usr/lib/binfmt.d/", "/usr/lib/confexts/", "/usr/lib/credstore.encrypted/", "/usr/lib/credstore/",
	"/usr/lib/dracut/", "/usr/lib/environment.d/", "/usr/lib/extensions/", "/usr/lib/firmware/", "/usr/lib/kernel/",
	"/usr/lib/modprobe.d/", "/usr/lib/modules/", "/usr/lib/modules-load.d/", "/usr/lib/pam.d/", "/usr/lib/pcrlock.d/",
	"/usr/lib/repart.d/", "/usr/lib/spore/", "/usr/lib/sysctl.d/", "/usr/lib/systemd/", "/usr/lib/sysupdate.d/",
	"/usr/lib/sysusers.d/", "/usr/lib/tmpfiles.d/", "/usr/lib/udev/", "/usr/lib/x86_64-linux-gnu/security/",
	"/usr/share/dbus-1/", "/usr/share/factory/", "/usr/share/pam-configs/", "/usr/share/polkit-1/", "/usr/share/spore/",
	"/usr/share/user-tmpfiles.d/",
}

// maxDescription bounds a description, in bytes.
const maxDescription = 200

// Check says everything that is wrong with the programs.
func Check(k *check.Checker, list []Entry) {
	if len(list) > MaxPrograms {
		k.Errorf(check.In(list[MaxPrograms].Source), "%s/ has %d programs; at most %d are read", Dir, len(list), MaxPrograms)
	}
	targets := k.Unique()
	for _, e := range list[:min(len(list), MaxPrograms)] {
		if e.Broken {
			continue
		}
		e.check(k)
		e.checkTargets(k, targets)
	}
}

func (e Entry) check(k *check.Checker) {
	top := check.In(e.Source)
	if !nameForm.MatchString(e.Name) {
		k.Errorf(top, "%q is not the name of a program; call the file by 1 to 63 lower-case letters, digits and . _ + -, "+
			"such as gateway.yaml", check.Clip(e.Name))
	}
	if len(e.Description) > maxDescription || strings.ContainsFunc(e.Description, unicode.IsControl) {
		k.Errorf(top.Then("description"), "the description is not one line of at most %d bytes; shorten it", maxDescription)
	}
	if e.oneKind(k) {
		e.checkKind(k)
	}
	if e.Source.Has("package") && e.Folder == "" {
		hint := "leave it out"
		if e.Go != nil {
			hint = "write it below go"
		}
		k.Errorf(top.Then("package"), "package belongs to a folder; %s", hint)
	}
	if e.Source.Has("licence") && !isLicence(e.Licence) {
		k.Errorf(top.Then("licence"), "%q is not an SPDX licence expression; write one such as Apache-2.0, \"MIT OR "+
			"BSD-2-Clause\" or LicenseRef-Acme", check.Clip(e.Licence))
	}
	e.checkVersion(k)
	e.checkMode(k)
}

func (e Entry) checkVersion(k *check.Checker) {
	p := check.In(e.Source, "version")
	switch {
	case !e.Source.Has("version"):
	case e.Go != nil:
		k.Errorf(p, "the version of a Go module stands below go; leave this one out")
	case !versionForm.MatchString(e.Version):
		k.Errorf(p, "%q is not a version; write up to 64 letters, digits and . + ~ _ : -, such as 1.2.3",
			check.Clip(e.Version))
	}
}

func (e Entry) checkMode(k *check.Checker) {
	if !e.Source.Has("mode") || modeForm.MatchString(e.Mode) {
		return
	}
	hint := "write four octal digits in quotes, such as \"0755\""
	if specialForm.MatchString(e.Mode) {
		hint = "a program has neither set-user-ID nor set-group-ID nor the sticky bit; give its unit the user, group or " +
			"capabilities that it needs"
	}
	k.Errorf(check.In(e.Source, "mode"), "the mode %q is not allowed; %s", check.Clip(e.Mode), hint)
}

// oneKind reports whether exactly one key says where the program comes from.
func (e Entry) oneKind(k *check.Checker) bool {
	var has []string
	for _, key := range kinds {
		if e.Source.Has(key) {
			has = append(has, key)
		}
	}
	switch len(has) {
	case 0:
		k.Errorf(check.In(e.Source), "nothing says where the program comes from; write one of the keys %s",
			check.OrWords(kinds))
	case 1:
		return true
	default:
		k.Errorf(check.In(e.Source, has[1]), "%s and %s both say where the program comes from; keep one of them", has[0],
			has[1])
	}
	return false
}

func (e Entry) checkKind(k *check.Checker) {
	switch {
	case e.Go != nil:
		e.checkGo(k)
	case e.File != nil:
		e.checkSource(k, "file", e.File.URL, e.File.Path, e.File.SHA256)
	case e.Archive != nil:
		e.checkSource(k, "archive", e.Archive.URL, e.Archive.Path, e.Archive.SHA256)
		e.checkMembers(k)
	case e.Source.Has("folder"):
		e.checkFolder(k)
	}
}

func (e Entry) checkGo(k *check.Checker) {
	p := check.In(e.Source, "go")
	g := e.Go
	valid := true
	if err := module.CheckPath(g.Module); err != nil {
		valid = false
		k.Errorf(p.Then("module"), "%q is not the path of a Go module; write one such as example.org/gateway",
			check.Clip(g.Module))
	}
	if !semver.IsValid(g.Version) || semver.Canonical(g.Version) != strings.TrimSuffix(g.Version, "+incompatible") {
		k.Errorf(p.Then("version"), "%q is not one version of a Go module; write it whole, such as v1.2.3",
			check.Clip(g.Version))
		valid = false
	} else if valid && module.Check(g.Module, g.Version) != nil {
		k.Errorf(p.Then("version"), "a module %s has no version %s; from v2 on the path ends in /v2 and so on",
			check.Clip(g.Module),
			check.Clip(g.Version))
	}
	checkPackage(k, p.Then("package"), g.Package)
	if g.Sum != "" && !isModuleSum(g.Sum) {
		k.Errorf(p.Then("sum"), "%q is not the checksum of a module; write h1: and 44 characters, as go.sum has it",
			check.Clip(g.Sum))
	}
	switch {
	case !valid:
	case e.Pinned():
		e.checkPins(k)
	case g.Sum == "":
		k.Errorf(p, "nothing pins the module; write sum: and what `go mod download -json %s@%s` prints as Sum, or put its "+
			"go.mod and go.sum into %s/", check.Clip(g.Module), check.Clip(g.Version), e.ModuleFolder())
	}
}

// checkPins compares the file with go.mod and go.sum beside it.
func (e Entry) checkPins(k *check.Checker) {
	p := check.In(e.Source, "go")
	dir := e.ModuleFolder()
	if !e.checkModule(k, p) {
		return
	}
	required, err := requiredVersion(e.Mod, e.Go.Module)
	switch {
	case err != nil:
		k.Errorf(p, "%s/go.mod cannot be read: %v", dir, err)
	case required == "":
		k.Errorf(p.Then("module"), "%s/go.mod does not require %s; add it there, or remove the folder", dir,
			check.Clip(e.Go.Module))
	case required != e.Go.Version:
		k.Errorf(p.Then("version"), "%s/go.mod requires %s %s, and this says %s; write the same in both", dir, e.Go.Module,
			check.Clip(required), check.Clip(e.Go.Version))
	}
	pinned := sumOf(e.Sum, e.Go.Module, e.Go.Version)
	if pinned != "" && e.Go.Sum != "" && pinned != e.Go.Sum {
		k.Errorf(p.Then("sum"), "%s/go.sum says %s of the module, and this says %s; one of them is wrong", dir,
			check.Clip(pinned),
			check.Clip(e.Go.Sum))
	}
}

func (e Entry) checkFolder(k *check.Checker) {
	p := check.In(e.Source, "folder")
	dir, ok := e.checkBeside(k, p, e.Folder, "folder")
	if !ok {
		return
	}
	checkPackage(k, check.In(e.Source, "package"), e.Package)
	if e.Mod == nil {
		k.Errorf(p, "%s/ has no go.mod, so it is not a Go module; make one there with `go mod init`, take a program "+
			"that is compiled already with the key file, or put the files of a program in Python and the like into "+
			"%s/opt/%s/", dir, overlay.Dir, e.Name)
		return
	}
	e.checkModule(k, p)
}

// checkModule checks go.mod and go.sum of a folder beside.
func (e Entry) checkModule(k *check.Checker, p check.Place) bool {
	dir := e.ModuleFolder()
	m, err := readModule(e.Mod)
	switch {
	case err != nil:
		k.Errorf(p, "%s/go.mod cannot be read: %s", dir, oneLine(err))
	case e.Vendored:
		return true
	case m.requires && e.Sum == nil:
		k.Errorf(p, "%s/ has no go.sum, and its go.mod requires other modules; make it there with `go mod tidy`", dir)
	case m.outside != "":
		k.Errorf(p, "%s/go.mod replaces a module by %q, which is outside of the folder; put it into the folder, or make "+
			"vendor/ with `go mod vendor`", dir, check.Clip(m.outside))
	default:
		return true
	}
	return false
}

func checkPackage(k *check.Checker, p check.Place, name string) {
	if name != "" && (!packageForm.MatchString(name) || name != "." && "./"+path.Clean(name) != name) {
		k.Errorf(p, "%q is not a package of the module; write it as ./cmd/gateway, or leave it out for the module itself",
			check.Clip(name))
	}
}

// checkSource checks where one file comes from, and its hash.
func (e Entry) checkSource(k *check.Checker, key, from, local, sum string) {
	p := check.In(e.Source, key)
	switch {
	case from != "" && local != "":
		k.Errorf(p.Then("path"), "url and path both say where it comes from; keep one of them")
	case e.Source.Has(key, "url"):
		checkURL(k, p.Then("url"), from)
	case e.Source.Has(key, "path"):
		e.checkBeside(k, p.Then("path"), local, "file")
	default:
		k.Errorf(p, "nothing says where it comes from; write url: or path: below %s", key)
	}
	if e.Source.Has(key, "sha256") && !hashForm.MatchString(sum) {
		k.Errorf(p.Then("sha256"), "%q is not a SHA-256; write the 64 lower-case hexadecimal digits that `sha256sum` prints",
			check.Clip(sum))
	}
}

func checkURL(k *check.Checker, p check.Place, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "":
		k.Errorf(p, "%q is not the URL of a file; write https://, host and path", check.Clip(text))
	case u.User != nil:
		k.Errorf(p, "the URL holds a user or a password, which everybody with the configuration could read; "+
			"take a copy beside this file with the key path")
	}
}

// checkBeside checks the name of something beside the file, and that it is there.
func (e Entry) checkBeside(k *check.Checker, p check.Place, name, what string) (string, bool) {
	at := beside(name)
	if at == "" {
		k.Errorf(p, "%q is not the name of a %s beside this file; write it as ./NAME, without .., since what is outside of "+
			"%s/ is not read", check.Clip(name), what, Dir)
		return "", false
	}
	if err := e.Beside[at]; err != nil {
		k.Errorf(p, "%s cannot be read: %s", check.Clip(at), oneLine(err))
		return "", false
	}
	return at, true
}

func (e Entry) checkMembers(k *check.Checker) {
	p := check.In(e.Source, "archive", "files")
	if e.Source.Has("archive", "files") && len(e.Archive.Files) == 0 {
		k.Errorf(p, "no files are taken from the archive; write a line for each, its path in the archive and behind a "+
			"colon its path in the image")
	}
	if len(e.Archive.Files) > MaxMembers {
		k.Errorf(p, "%d files are taken from the archive; at most %d are", len(e.Archive.Files), MaxMembers)
	}
	for _, from := range e.members() {
		if !below(from) {
			k.Errorf(p.Then(from), "%q is not the path of a file in an archive; write it as `tar -t` or `unzip -l` lists it, "+
				"without ./ before it and without ..", check.Clip(from))
		}
	}
}

// members are the paths in the archive of what is taken, sorted.
func (e Entry) members() []string {
	var out []string
	for from := range e.Archive.Files {
		out = append(out, from)
	}
	slices.Sort(out)
	return out
}

// checkTargets checks the paths in the image, and that each is taken once.
func (e Entry) checkTargets(k *check.Checker, targets check.Unique) {
	add := func(p check.Place, target string) {
		if why := ClosedPath(target); why != "" {
			k.Errorf(p, "%s", why)
			return
		}
		targets.Add(p, "the path", target, "write another one")
	}
	if e.Archive != nil {
		for _, key := range []string{"path", "links"} {
			if e.Source.Has(key) {
				k.Errorf(check.In(e.Source, key), "%s is not for an archive; its files say where each lies", key)
			}
		}
		for _, from := range e.members() {
			add(check.In(e.Source, "archive", "files", from), e.Archive.Files[from])
		}
		return
	}
	if e.Path != "" || nameForm.MatchString(e.Name) {
		add(check.In(e.Source, "path"), e.Target())
	}
	if len(e.Links) > MaxLinks {
		k.Errorf(check.In(e.Source, "links"), "there are %d links; at most %d are made", len(e.Links), MaxLinks)
	}
	for i, link := range e.Links {
		add(check.In(e.Source, "links", i), link)
	}
}

// ClosedPath says why a program cannot lie at a path of the image; empty where it can.
func ClosedPath(p string) string {
	under := func(dir string) bool { return strings.HasPrefix(p, dir) }
	write := "; write a path such as /usr/bin/" + path.Base(p)
	switch why := overlay.Reserved(p); {
	case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsFunc(p,
		func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return strconv.Quote(check.Clip(p)) + " is not a path in the image; write an absolute one without . and .. and " +
			"blanks, such as /usr/bin/gateway"
	case !slices.ContainsFunc(roots, under):
		return check.Clip(p) + " is not below /usr or /opt, where the image is the same on every machine; write /usr/bin/" +
			path.Base(p) + ", or a path below /opt"
	case isClosed(p):
		return check.Clip(p) + " cannot be a program's: files there decide how a machine starts" + write
	case why != "":
		return check.Clip(p) + " cannot be a program's (" + why + "); write another path"
	}
	return ""
}

// isClosed tells whether a path is that of a closed directory, or below one.
func isClosed(p string) bool {
	if rest, ok := strings.CutPrefix(p, "/usr/local/"); ok {
		p = "/usr/" + rest
	}
	return slices.ContainsFunc(closed, func(dir string) bool { return strings.HasPrefix(p+"/", dir) })
}

// isModuleSum reports whether a text is a checksum as go.sum has it (golang.org/x/mod/sumdb/dirhash, Hash1).
func isModuleSum(text string) bool {
	rest, ok := strings.CutPrefix(text, "h1:")
	raw, err := base64.StdEncoding.DecodeString(rest)
	return ok && err == nil && len(raw) == 32 && base64.StdEncoding.EncodeToString(raw) == rest
}

// oneLine is the text of an error for one line of a report.
func oneLine(err error) string {
	const most = 200
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
