package cluster

import (
	"path"

	"spore/cluster/check"
	"spore/cluster/overlay"
)

// At is a problem without a message at the value that a path of keys (string) and list indexes (int) leads to in a file
// of the folder, or at the nearest thing around it. Commands beside Validate say with it which entry they are about.
func (c *Config) At(file string, keys ...any) check.Problem {
	p := check.Problem{File: file, Line: 1, Column: 1}
	s := c.services[serviceOf(file)]
	switch file {
	case clusterFile:
		s = c.cluster
	case imageFile:
		s = c.image
	case overlay.SettingsFile:
		s = c.Overlay.source
	}
	for _, n := range c.nodeFiles {
		if n.path == file {
			s = n
		}
	}
	for _, r := range c.roleFiles {
		if r.path == file {
			s = r
		}
	}
	if s != nil {
		p.Line, p.Column = s.At(keys...)
	}
	return p
}

// serviceOf is the service whose settings a file has, or empty.
func serviceOf(file string) string {
	dir, name := path.Split(file)
	if dir != servicesDir+"/" || path.Ext(name) != ".yaml" {
		return ""
	}
	return name[:len(name)-len(".yaml")]
}
