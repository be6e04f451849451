// Package units has the names and directories of our systemd units, which lie beside this file and are laid into the
// image as they are. Nobody else's unit may have one of these names.
package units

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.mount *.path *.service *.socket *.target *.timer
var files embed.FS

// Names are the names of our units, sorted.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil { // An embedded folder can always be listed.
		return nil
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// directories are where systemd makes what a setting names (systemd.exec(5)).
var directories = map[string]string{
	"RuntimeDirectory": "/run", "StateDirectory": "/var/lib", "CacheDirectory": "/var/cache", "LogsDirectory": "/var/log",
}

// Directories are those that systemd makes for one of our units, as far as they lie directly in /run, /var/lib,
// /var/cache or /var/log: of /run/cni/net.d, /run/cni.
func Directories(unit string) []string {
	text, err := files.ReadFile(unit)
	if err != nil { // No unit of ours.
		return nil
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		dir, ok := directories[key]
		if !ok {
			continue
		}
		for _, name := range strings.Fields(value) {
			first, _, _ := strings.Cut(name, "/")
			out = append(out, path.Join(dir, first))
		}
	}
	return out
}
