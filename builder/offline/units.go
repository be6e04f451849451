package offline

import (
	"path"
	"slices"
	"strings"

	"spore/builder/rootfs"
	"spore/builder/tree"
	"spore/builder/unsquash"
)

// unitDirs hold units (systemd.unit(5)); those of users are not in an image.
var unitDirs = []string{"/etc/systemd/system/", "/usr/lib/systemd/system/", "/usr/local/lib/systemd/system/"}

// udevDirs hold rules (udev(7)).
var udevDirs = []string{"/etc/udev/rules.d/", "/usr/lib/udev/rules.d/"}

func below(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(p, dir) })
}

// units looks at what systemd and udev run, and at what timers start.
func units(i *rootfs.Image) (Check, error) {
	c := Check{Name: "no unit, timer or udev rule that fetches"}
	files, settings := 0, 0
	var timers []string
	for n := range i.Root.Entries {
		e := &i.Root.Entries[n]
		if e.Type != tree.Regular || !below(e.Path, unitDirs) && !below(e.Path, udevDirs) {
			continue
		}
		files++
		if path.Ext(e.Path) == ".timer" {
			timers = append(timers, path.Base(e.Path))
		}
		err := lines(i.Root.Image, e, func(n int, text string) {
			text = strings.TrimSpace(text)
			// Documentation= names pages for people (systemd.unit(5)).
			if text == "" || strings.ContainsAny(text[:1], "#;[") || strings.HasPrefix(text, "Documentation=") || strings.HasPrefix(text, "Description=") {
				return
			}
			settings++
			if why := fetches(text); why != "" {
				c.Findings = append(c.Findings, Finding{e.Path, n, text, "it " + why})
			}
		})
		if err != nil {
			return c, err
		}
	}
	c.evidence("%d files of units and rules, %d lines", files, settings)
	c.evidence("timers: %s", strings.Join(timers, ", "))
	return c, nil
}

// scripts looks at all that an interpreter runs by itself, and at hooks.
func scripts(i *rootfs.Image) (Check, error) {
	c := Check{Name: "no script that fetches"}
	files := 0
	for n := range i.Root.Entries {
		e := &i.Root.Entries[n]
		if e.Type != tree.Regular || e.Mode&0o111 == 0 || strings.HasPrefix(e.Path, "/usr/share/doc/") {
			continue
		}
		script, err := isScript(i.Root.Image, e)
		if err != nil {
			return c, err
		}
		if !script {
			continue
		}
		files++
		if e.Size > maxText {
			c.Findings = append(c.Findings, Finding{Path: e.Path, Why: "a script too large to look at"})
			continue
		}
		err = lines(i.Root.Image, e, func(n int, text string) {
			code := strings.TrimSpace(text)
			if code == "" || code[0] == '#' {
				return
			}
			if why := scriptFetches(code); why != "" {
				c.Findings = append(c.Findings, Finding{e.Path, n, code, "it " + why})
			}
		})
		if err != nil {
			return c, err
		}
	}
	c.evidence("%d scripts", files)
	return c, nil
}

// isScript tells whether a file begins as execve(2) wants it of scripts.
func isScript(img *unsquash.Image, e *unsquash.Entry) (bool, error) {
	if e.Size < 2 {
		return false, nil
	}
	head := make([]byte, 2)
	if _, err := img.Content(e).Read(head); err != nil {
		return false, err
	}
	return string(head) == "#!", nil
}
