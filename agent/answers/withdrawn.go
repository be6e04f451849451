package answers

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"spore/agent/clusterpart"
	"spore/cluster/facts"
)

// withdrawals are the certificates that the configuration refuses. A configuration that is taken at once shows another
// file at the same place; it is read again when that happens.
type withdrawals struct {
	part clusterpart.Part
	say  func(string)

	mu    sync.Mutex
	file  fs.FileInfo
	known map[string]bool
}

// now returns their serial numbers. Where they cannot be read, those that were known last go on to be refused.
func (w *withdrawals) now() map[string]bool {
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
