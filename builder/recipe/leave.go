package recipe

import (
	"path"
	"slices"
	"strings"

	"spore/builder/omit"
	"spore/builder/tree"
)

// optional is a kind of file that the image leaves out unless image.yaml keeps its class.
type optional struct {
	pattern string // path.Match pattern, or a path
	class   string // of package omit
	why     string
	// unless names a package that uses it: it stays when that is there.
	unless string
}

var optionalFiles = []optional{
	{"/usr/share/bash-completion", omit.Completions, "nobody types here", ""},
	{"/usr/share/fish", omit.Completions, "nobody types here", ""},
	{"/usr/share/zsh", omit.Completions, "nobody types here", ""},
	{"/etc/X11", omit.Desktop, "no display", ""},
	{"/etc/xdg", omit.Desktop, "no display", ""},
	{"/usr/games", omit.Desktop, "no games", ""},
	{"/usr/lib/mime", omit.Desktop, "no desktop", ""},
	{"/usr/share/applications", omit.Desktop, "no desktop", ""},
	{"/usr/share/apps", omit.Desktop, "no desktop", ""},
	{"/usr/share/icons", omit.Desktop, "no desktop", ""},
	{"/usr/share/menu", omit.Desktop, "no desktop", ""},
	{"/usr/share/mime", omit.Desktop, "no desktop", ""},
	{"/usr/share/pixmaps", omit.Desktop, "no desktop", ""},
	{"/usr/include", omit.Development, "no compiler", ""},
	{"/usr/lib/debug", omit.Development, "no debugger", ""},
	{"/usr/share/gcc", omit.Development, "no debugger", ""},
	{"/usr/share/gdb", omit.Development, "no debugger", ""},
	{"/etc/alternatives/README", omit.Docs, "documentation", ""},
	{"/usr/lib/python3*/pydoc_data", omit.Docs, "documentation", ""},
	{"/usr/share/bug", omit.Docs, "only reportbug reads it", ""},
	{"/usr/share/doc-base", omit.Docs, "documentation", ""},
	{"/usr/share/info", omit.Docs, "documentation", ""},
	{"/usr/share/lintian", omit.Docs, "only Debian's checker reads it", ""},
	{"/usr/lib/x86_64-linux-gnu/gconv", omit.Locales, "programs of a server speak UTF-8", ""},
	{"/usr/share/dict", omit.Locales, "no spelling", ""},
	{"/usr/share/locale", omit.Locales, "messages are in English", ""},
	{"/usr/lib/jvm/*/man", omit.Man, "documentation", ""},
	{"/usr/local/man", omit.Man, "documentation", ""},
	{"/usr/local/share/man", omit.Man, "documentation", ""},
	{"/usr/share/man", omit.Man, "documentation", ""},
	{"/usr/share/perl5", omit.Perl, "no Perl", "perl"},
}

// leaveOut removes optionalFiles, all documentation but licences, and the modules and firmware that no server needs.
func leaveOut(b *build) error {
	for _, o := range optionalFiles {
		if b.opts.Keep.Class(o.class) || b.present[o.unless] != nil {
			continue
		}
		if err := b.omit(o.pattern, omit.Reason(o.class, o.why)); err != nil {
			return err
		}
	}
	if !b.opts.Keep.Class(omit.Docs) {
		if err := b.dropDocs(); err != nil {
			return err
		}
	}
	return b.leaveHardware()
}

// leaveHardware removes the modules that rules leave out, and their firmware.
func (b *build) leaveHardware() error {
	if b.opts.Hardware == nil {
		return nil
	}
	for _, o := range append(b.opts.Hardware.Left, b.unusedFirmware()...) {
		if err := b.remove(o.Path, o.Reason()); err != nil {
			return err
		}
		for dir := path.Dir(o.Path); len(b.tree.Children(dir)) == 0; dir = path.Dir(dir) {
			if err := b.tree.Remove(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// unusedFirmware asks the rules about all firmware of the tree. What a link that stays leads to stays too.
func (b *build) unusedFirmware() []omit.Omission {
	var paths []string
	for _, p := range b.tree.Paths() {
		if n, err := b.tree.Lstat(p); err == nil && n.Type != tree.Dir && strings.HasPrefix(p, omit.FirmwareDir+"/") {
			paths = append(paths, p)
		}
	}
	left := b.opts.Hardware.Firmware(paths)
	gone := map[string]bool{}
	for _, o := range left {
		gone[o.Path] = true
	}
	var targets []string
	for _, p := range paths {
		if n, err := b.tree.Lstat(p); err != nil || n.Type != tree.Symlink || gone[p] {
			continue
		}
		if target, err := b.tree.Follow(p); err == nil {
			targets = append(targets, target)
		}
	}
	return slices.DeleteFunc(left, func(o omit.Omission) bool {
		return slices.ContainsFunc(targets, func(t string) bool { return o.Path == t || strings.HasPrefix(o.Path, t+"/") })
	})
}

// dropDocs leaves only the file copyright of each package below /usr/share/doc.
func (b *build) dropDocs() error {
	const dir = "/usr/share/doc"
	why := omit.Reason(omit.Docs, "documentation; copyright files stay")
	for _, pkg := range b.tree.Children(dir) {
		sub := path.Join(dir, pkg)
		n, err := b.tree.Lstat(sub)
		if err != nil {
			return err
		}
		if n.Type == tree.Symlink {
			continue // to the directory of the package that has the copyright file
		}
		if n.Type != tree.Dir || !b.tree.Exists(path.Join(sub, "copyright")) {
			if err := b.omitPath(sub, why); err != nil {
				return err
			}
			continue
		}
		for _, name := range b.tree.Children(sub) {
			if name == "copyright" {
				continue
			}
			if err := b.omitPath(path.Join(sub, name), why); err != nil {
				return err
			}
		}
	}
	return b.dropDangling(dir)
}
