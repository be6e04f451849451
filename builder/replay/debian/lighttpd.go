package debian

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/builder/replay/command"
)

// lightyDir has the configuration of lighttpd.
const lightyDir = "/etc/lighttpd"

// lightyDepends is the line in which a module names others that it needs.
var lightyDepends = regexp.MustCompile(`(?m)^#.*-\*- *depends: *(.*?) *-\*-`)

// lightyEnable is lighty-enable-mod(1), which is written in Perl: links from conf-enabled to conf-available, of modules
// and of those that they need.
func (t *Tools) lightyEnable(_ context.Context, c *command.Call) (int, error) {
	status := 0
	for names := slices.Clone(c.Args); len(names) > 0; names = names[1:] {
		file, err := t.lightyFile(names[0])
		if err != nil {
			return 0, err
		}
		if file == "" {
			status, _ = c.Fail(1, "%s: no such module", names[0])
			continue
		}
		link := path.Join(lightyDir, "conf-enabled", file)
		if _, err := t.files.Lstat(link); err == nil {
			continue
		}
		if err := t.files.Symlink(path.Join("../conf-available", file), link); err != nil {
			return 0, err
		}
		text, err := t.files.ReadFile(link)
		if err != nil {
			return 0, err
		}
		names = append(names, dependsOf(lightyDepends, text)...)
	}
	return status, nil
}

// lightyFile finds NN-NAME.conf of a module; it is empty where there is none.
func (t *Tools) lightyFile(module string) (string, error) {
	all, err := t.files.ReadDir(path.Join(lightyDir, "conf-available"))
	for _, f := range all {
		if _, name, _ := strings.Cut(f, "-"); name == module+".conf" {
			return f, nil
		}
	}
	return "", err
}
