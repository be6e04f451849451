package cluster

import (
	"path"
	"strings"

	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/manifests"
	"spore/cluster/yamlfile"
)

// manifestsDir holds Kubernetes objects, in folders as deep as a person likes.
const manifestsDir = "manifests"

// maxManifestFolders bounds how deep they lie.
const maxManifestFolders = 8

// loadManifests reads the objects that the masters apply.
func (l *loader) loadManifests(c *Config) {
	names := l.manifestFiles(manifestsDir, 1)
	if len(names) > manifests.MaxFiles {
		l.add(check.Error, manifestsDir, 1, 1,
			"holds %d files; at most %d are read: write more objects into a file, with --- between", len(names),
			manifests.MaxFiles)
		return
	}
	size := 0
	for _, name := range names {
		data, err := l.read(name)
		size += len(data)
		switch {
		case err != nil:
			l.add(check.Error, name, 1, 1, "cannot be read: %v", plain(err))
		case len(data) > manifests.MaxFileSize:
			l.add(check.Error, name, 1, 1,
				"is larger than %d MiB; write some of its objects into another file", manifests.MaxFileSize>>20)
		case size > manifests.MaxSize:
			l.add(check.Error, name, 1, 1,
				"the files up to this one are larger than %d MiB; give the masters less to apply",
				manifests.MaxSize>>20)
			return
		default:
			l.manifest(c, name, data)
		}
		if len(c.Manifests) > manifests.MaxObjects {
			l.add(check.Error, name, 1, 1,
				"the files up to this one have %d objects; at most %d are kept", len(c.Manifests), manifests.MaxObjects)
			return
		}
	}
}

// manifestFiles lists the files of the folder, sorted, and reports what would be passed over.
func (l *loader) manifestFiles(dir string, depth int) []string {
	var out []string
	for _, e := range l.dir(dir) {
		name := path.Join(dir, e.Name())
		switch ext := path.Ext(name); {
		case e.IsDir() && depth == maxManifestFolders:
			l.add(check.Error, name, 1, 1,
				"lies in %d folders; at most that many lie in each other", maxManifestFolders)
		case e.IsDir():
			out = append(out, l.manifestFiles(name, depth+1)...)
		case ext == ".yml" || ext == ".json":
			l.add(check.Error, name, 1, 1,
				"files end in .yaml; rename it to %s", strings.TrimSuffix(e.Name(), ext)+".yaml")
		case ext == ".yaml":
			out = append(out, name)
		}
	}
	return out
}

func (l *loader) manifest(c *Config, name string, data []byte) {
	if c.manifestFiles == nil {
		c.manifestFiles = map[string][]byte{}
	}
	c.manifestFiles[name] = data
	docs, faults := manifests.Parse(name, data)
	for _, f := range append(faults, manifestSecrets(data)...) {
		l.add(check.Error, name, f.Line, f.Column, "%s", f.Message)
	}
	c.Manifests = append(c.Manifests, docs...)
}

// manifestSecrets finds lines with secrets. What it is silent of is harmless in a manifest alone.
func manifestSecrets(data []byte) []yamlfile.Fault {
	return literalSecrets(data, manifests.Advice, manifests.Harmless)
}

// ManifestFacts are the objects of manifests/ as the masters read them.
func ManifestFacts(c *Config) []facts.Manifest {
	out := make([]facts.Manifest, len(c.Manifests))
	for i, d := range c.Manifests {
		out[i] = facts.Manifest{File: d.Path(), Line: d.Line, Object: d.Content}
	}
	return out
}
