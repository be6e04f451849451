// Package needs tells what a configuration needs of a root, and who asks for it. `spore build` makes the root of it;
// `spore customize` compares it with what the root of an image has.
package needs

import (
	"slices"
	"sort"

	"spore/builder/recipe"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/service"
)

// Files of the configuration folder that ask for something.
const (
	clusterFile    = "cluster.yaml"
	imageFile      = "image.yaml"
	kubernetesFile = "services/kubernetes.yaml"
)

// imagesProgram is the program that brings container images into containerd.
const imagesProgram = "kubernetes-images"

// microcode has the packages that image.yaml's key of that name adds.
var microcode = []string{"amd64-microcode", "intel-microcode"}

// encryption has the packages that open encrypted state and make it. The kernel's modules for it are those that every root
// has.
var encryption = []string{"cryptsetup-bin", "systemd-cryptsetup"}

// EncryptsState tells whether the configuration asks for encrypted state anywhere.
func EncryptsState(c *cluster.Config) bool {
	return c.Cluster.State.Encrypted() || slices.ContainsFunc(c.NodeFiles, func(f spec.NodeFile) bool { return f.State.Encrypted() })
}

// Programs are the programs of every node, and of all roles whose service is enabled, by name.
func Programs(c *cluster.Config) []service.Program {
	enabled := map[string]bool{}
	for _, s := range c.Cluster.Services {
		enabled[s] = true
	}
	l := c.List()
	shared := &facts.Cluster{Network: c.Cluster.Network, Services: c.Services, Roles: l.Facts()}
	for _, s := range l.All() {
		for _, part := range s.Parts {
			enabled[part.Name] = part.InEveryImage || part.On(shared)
		}
	}
	byName := map[string]service.Program{}
	for _, name := range l.EveryNodeWith(func(s service.Service) bool { return enabled[s.Name] }) {
		byName[name], _ = l.LookupProgram(name)
	}
	for _, r := range l.Roles() {
		if !enabled[r.Service] {
			continue
		}
		for _, p := range l.ProgramsOf(r, func(name string) bool { return enabled[name] }) {
			byName[p.Name] = p
		}
	}
	out := make([]service.Program, 0, len(byName))
	for _, p := range byName {
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Packages are the Debian packages that the configuration asks for, without what those depend on; some may be there
// twice.
func Packages(c *cluster.Config) ([]string, error) {
	list, err := recipe.BasePackages(c.Image.Kernel)
	if err != nil {
		return nil, err
	}
	list = append(recipe.WithoutReplaced(list, c.Image.Packages), c.Image.Packages...)
	list = append(list, recipe.Companions(c.Image.Packages)...)
	if c.Image.Microcode {
		list = append(list, microcode...)
	}
	for _, p := range Programs(c) {
		list = append(list, p.Packages...)
	}
	if EncryptsState(c) {
		list = append(list, encryption...)
	}
	return list, nil
}

// ContainerImages are the references and archives that the root carries for Kubernetes, as services/kubernetes.yaml
// names them, and whether there are any at all: the pause image is in every root with Kubernetes.
func ContainerImages(c *cluster.Config) (names []string, some bool) {
	if !slices.ContainsFunc(Programs(c), func(p service.Program) bool { return p.Name == imagesProgram }) {
		return nil, false
	}
	return kubernetes.Of(c.Services).Images, true
}
