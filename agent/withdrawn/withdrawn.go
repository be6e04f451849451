// Package withdrawn knows the certificates that the configuration of the running node refuses.
package withdrawn

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"spore/agent/clusterpart"
	"spore/cluster/facts"
)

// List is the certificates that the configuration refuses. A configuration that is taken at once shows another file at
// the same place; it is read again when that happens.
type List struct {
	part clusterpart.Part
	say  func(string)

	mu    sync.Mutex
	file  fs.FileInfo
	known map[string]bool
}

// Of is the list of a configuration. say is told when it cannot be read.
func Of(part clusterpart.Part, say func(string)) *List { return &List{part: part, say: say} }

// Now returns their serial numbers (nodeapi.Serial). Where they cannot be read, those that were known last go on to be refused.
func (w *List) Now() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	file, err := os.Stat(filepath.Join(w.part.Dir, facts.ClusterFile))
	if err != nil || same(file, w.file) {
		return w.known // A file that is gone for a moment is being replaced.
	}
	c, err := w.part.Cluster()
	if err != nil {
		w.say("the certificates that are withdrawn are not known: " + err.Error())
		w.file = file
		return w.known
	}
	known := make(map[string]bool, len(c.Withdrawn))
	for _, serial := range c.Withdrawn {
		known[serial] = true
	}
	w.file, w.known = file, known
	return known
}

// same tells whether a file is still the one that was read. Files of two images may have the same time and size.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
