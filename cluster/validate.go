package cluster

import (
	"cmp"
	"io/fs"
	"net/netip"
	"path"
	"strings"

	"spore/cluster/check"
	"spore/cluster/manifests"
	"spore/cluster/units"
	"spore/services"
)

// Options says how severe Validate is.
type Options struct {
	// Strict makes every warning an error.
	Strict bool
}

// Check loads a configuration folder and validates it: all problems of all files, sorted.
func Check(fsys fs.FS, o Options) (*Config, check.Report) {
	c, report := Load(fsys)
	return c, append(report, Validate(c, o)...).Sorted()
}

// Validate checks what the values of a loaded configuration mean. What Load reported is not reported again.
func Validate(c *Config, o Options) check.Report {
	if c.cluster == nil {
		return nil
	}
	k := &checker{
		Checker: &check.Checker{Cluster: &c.Cluster, Services: c.Services, File: c.cluster, Strict: o.Strict, Role: canonicalRole(c.List()),
			NodeFiles: map[string]check.NodeFile{}, Files: c.files},
		c: c, list: c.List(), uses: diskUses(c.List()), byName: map[string]int{}, files: map[string]int{},
	}
	for i, n := range c.Cluster.Nodes {
		if _, twice := k.byName[n.Name]; !twice {
			k.byName[n.Name] = i
		}
	}
	for i, f := range c.NodeFiles {
		// Where Load found no name, or where two files claim a node, the file's own name tells whom it is about.
		base := strings.TrimSuffix(path.Base(c.nodeFiles[i].path), ".yaml")
		name := cmp.Or(f.Node, base)
		if _, twice := k.files[name]; !twice || name == base {
			k.files[name] = i
		}
	}
	for name, i := range k.files {
		k.NodeFiles[name] = check.NodeFile{File: c.nodeFiles[i], Content: c.NodeFiles[i], Broken: c.nodeFiles[i].broken}
	}
	if c.cluster.root != nil {
		k.checkCluster()
		k.checkNetwork()
		k.checkNodes()
		k.checkRoles()
		k.checkNodeFiles()
	}
	k.checkDefinitions()
	k.checkServices()
	k.checkAlerts()
	k.checkPorts()
	k.checkImage()
	manifests.Check(k.Checker, c.Manifests, secretName)
	k.checkOverlay()
	units.Check(k.Checker, c.Units)
	k.checkPrograms()
	return k.Report.Sorted()
}

// checker carries one run of Validate, with what only the checks of this package need.
type checker struct {
	*check.Checker
	c    *Config
	list *services.List
	// uses are what disks can be for.
	uses []string

	// byName and files find the first node, and the first node file, of a name.
	byName, files map[string]int
	// reserved holds the addresses that no node may have, and what they are.
	reserved map[netip.Addr]string
}

// canonicalRole gives the name of a role that cluster.yaml calls by any of its names.
func canonicalRole(l *services.List) func(name string) string {
	return func(name string) string {
		r, _ := l.Lookup(name)
		return r.Name
	}
}
