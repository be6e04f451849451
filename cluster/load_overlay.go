package cluster

import (
	"errors"
	"io/fs"

	"spore/cluster/check"
	"spore/cluster/overlay"
)

// Overlay is what a configuration has in overlay/ and overlay.yaml.
type Overlay struct {
	Settings overlay.Settings
	// Entries are the files, links and directories, sorted by path. Validate gives them what the settings say.
	Entries []overlay.Entry

	source *source
}

// overlay reads the files of a user's own.
func (l *loader) overlay() Overlay {
	var o Overlay
	if _, err := fs.Lstat(l.fsys, overlay.SettingsFile); !errors.Is(err, fs.ErrNotExist) {
		o.source = l.file(overlay.SettingsFile, &o.Settings)
	}
	o.Entries = overlay.Read(l.fsys, func(name, format string, args ...any) {
		l.add(check.Error, name, 1, 1, format, args...)
	})
	for _, e := range o.Entries {
		for _, f := range keySecrets(e.Data) {
			l.add(check.Error, e.Source(), f.Line, f.Column, "%s", f.Message)
		}
	}
	return o
}

// checkOverlay checks it.
func (k *checker) checkOverlay() {
	o := &k.c.Overlay
	at := func(name string) check.File { return &source{path: name} }
	if o.source != nil && o.source.broken {
		o.Settings = overlay.Settings{}
	}
	var settings check.File = o.source
	if o.source == nil {
		settings = at(overlay.SettingsFile)
	}
	overlay.Check(k.Checker, settings, o.Settings, o.Entries, at)
}
