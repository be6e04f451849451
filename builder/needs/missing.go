package needs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"spore/builder/manifest"
	"spore/builder/oci"
	"spore/builder/payload"
	"spore/cluster"
	"spore/cluster/check"
	"spore/services"
	"spore/services/kubernetes"
	"spore/services/service"
)

// Missing tells what a configuration needs and a root does not have, each with the entry that asks for it. folder is
// the configuration folder, which has the archives of container images.
func Missing(c *cluster.Config, root *manifest.Manifest, folder fs.FS) (check.Report, error) {
	m := missing{config: c, root: root, packages: map[string]bool{}}
	for _, p := range root.Packages {
		m.packages[p.Name] = true
	}
	// A name that packages only provide is in the image when the image was built for it.
	for _, name := range root.Requested {
		m.packages[name] = true
	}
	m.format()
	m.suite()
	if err := m.imagePackages(); err != nil {
		return nil, err
	}
	m.services()
	m.state()
	m.ownFiles()
	if err := m.images(folder); err != nil {
		return nil, err
	}
	if err := m.ownPrograms(folder); err != nil {
		return nil, err
	}
	return m.report, nil
}

type missing struct {
	config   *cluster.Config
	root     *manifest.Manifest
	packages map[string]bool
	report   check.Report
}

func (m *missing) errorf(at check.Problem, format string, args ...any) {
	at.Severity, at.Message = check.Error, fmt.Sprintf(format, args...)
	m.report = append(m.report, at)
}

// format refuses a root whose agent would read another form of configuration than the one that this program writes.
func (m *missing) format() {
	if m.root.ConfigFormat != services.Format() {
		m.errorf(m.config.At(clusterFile), "the agent in the image reads the configuration in form %q, and this spore writes form %q: use the spore that built the image, or build the image again", m.root.ConfigFormat, services.Format())
	}
}

func (m *missing) suite() {
	if want := m.config.Image.Suite; want != m.root.Suite {
		m.errorf(m.config.At(imageFile, "suite"), "asks for the suite %s, and the image was built from %s", want, m.root.Suite)
	}
}

// imagePackages compares what image.yaml adds: kernel, microcode, packages.
func (m *missing) imagePackages() error {
	base := *m.config
	base.Cluster.Services, base.Image.Packages, base.Image.Microcode = nil, nil, false
	base.Cluster.State, base.NodeFiles = nil, nil
	list, err := Packages(&base)
	if err != nil {
		return err
	}
	if absent := m.absent(list); len(absent) > 0 {
		m.errorf(m.config.At(imageFile, "kernel"), "the kernel %s needs %s, which the image does not contain; it has kernel %s", m.config.Image.Kernel, join("package", absent), m.root.Kernel)
	}
	if m.config.Image.Microcode {
		if absent := m.absent(microcode); len(absent) > 0 {
			m.errorf(m.config.At(imageFile, "microcode"), "microcode needs %s, which the image does not contain", join("package", absent))
		}
	}
	for i, name := range m.config.Image.Packages {
		if !m.packages[name] {
			m.errorf(m.config.At(imageFile, "packages", i), "package %s is not in the image", name)
		}
	}
	for i, class := range m.config.Image.Keep {
		if !slices.Contains(m.root.Keep, class) {
			m.errorf(m.config.At(imageFile, "keep", i), "the image was built without %s", class)
		}
	}
	for i, p := range m.config.Image.KeepPaths {
		if !slices.Contains(m.root.KeepPaths, p) {
			m.errorf(m.config.At(imageFile, "keepPaths", i), "the image was built without %s", p)
		}
	}
	m.decisions()
	return nil
}

// decisions compares what image.yaml says in the place of maintainer scripts.
func (m *missing) decisions() {
	for _, name := range slices.Sorted(maps.Keys(m.config.Image.Scripts)) {
		built, ok := m.root.Scripts[name]
		if !ok || !reflect.DeepEqual(built.Sorted(), m.config.Image.Scripts[name].Sorted()) {
			at := m.config.At(imageFile, "scripts", name)
			m.errorf(at, "the image was built without this decision about scripts of %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.config.Image.Debconf)) {
		answers := m.config.Image.Debconf[name]
		for _, question := range slices.Sorted(maps.Keys(answers)) {
			if built, ok := m.root.Debconf[name][question]; !ok || built != answers[question] {
				at := m.config.At(imageFile, "debconf", name, question)
				m.errorf(at, "the image was built without this answer to %s", question)
			}
		}
	}
}

func (m *missing) absent(names []string) []string {
	var out []string
	for _, name := range names {
		if !m.packages[name] && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// services names, for each service, the programs and packages that it lacks.
func (m *missing) services() {
	programs, packages := map[string][]string{}, map[string][]string{}
	for _, p := range Programs(m.config) {
		s := m.service(p)
		if !slices.Contains(m.root.Programs, p.Name) {
			programs[s] = append(programs[s], p.Name)
		}
		packages[s] = append(packages[s], m.absent(p.Packages)...)
	}
	for i, s := range m.config.Cluster.Services {
		var what []string
		if len(programs[s]) > 0 {
			what = append(what, join("program", programs[s]))
		}
		slices.Sort(packages[s])
		if absent := slices.Compact(packages[s]); len(absent) > 0 {
			what = append(what, join("package", absent))
		}
		if what != nil {
			m.errorf(m.config.At(clusterFile, "services", i), "service %s needs %s, which the image does not contain", s, strings.Join(what, " and "))
		}
	}
}

// state names the packages for encrypted state, with the entry that asks for it.
func (m *missing) state() {
	absent := m.absent(encryption)
	if len(absent) == 0 || !EncryptsState(m.config) {
		return
	}
	at := m.config.At(clusterFile, "state", "encrypt")
	for _, f := range m.config.NodeFiles {
		if !m.config.Cluster.State.Encrypted() && f.State.Encrypted() {
			at = m.config.At("nodes/"+f.Node+".yaml", "state", "encrypt")
			break
		}
	}
	m.errorf(at, "encrypted state needs %s, which the image does not contain", join("package", absent))
}

// service is the one that brings a program: of two that it needs, the one that the image may not know.
func (m *missing) service(p service.Program) string {
	if p.With != "" {
		return p.With
	}
	for _, r := range m.config.List().Roles() {
		if slices.Contains(r.Programs, p.Name) && slices.Contains(m.config.Cluster.Services, r.Service) {
			return r.Service
		}
	}
	return ""
}

// images compares container images: references by themselves, since they name their content, and archives by their
// digest.
func (m *missing) images(folder fs.FS) error {
	names, _ := ContainerImages(m.config)
	for i, name := range names {
		at := m.config.At(kubernetesFile, "images", i)
		if !kubernetes.IsImageArchive(name) {
			if !slices.ContainsFunc(m.root.Images, func(i manifest.Image) bool { return i.From == name }) {
				m.errorf(at, "container image %s is not in the image", name)
			}
			continue
		}
		archive, err := describeArchive(folder, name)
		if err != nil {
			return fmt.Errorf("container image %s: %w", name, err)
		}
		if !slices.ContainsFunc(m.root.Images, func(i manifest.Image) bool {
			return i.Digest == archive.Digest && slices.Equal(i.Names, archive.Names)
		}) {
			m.errorf(at, "the archive %s holds %s with the digest %s, which is not in the image", name, strings.Join(archive.Names, ", "), archive.Digest)
		}
	}
	return nil
}

// ownPrograms compares the programs of programs/, by what they are made of.
func (m *missing) ownPrograms(folder fs.FS) error {
	for _, e := range m.config.Programs {
		wanted, err := payload.MadeOf(folder, e)
		if err != nil {
			return err
		}
		has := false
		for _, p := range m.root.Payloads {
			if p.Configured == e.FileName() {
				has = true
				if p.MadeOf != wanted {
					m.errorf(m.config.At(e.FileName()), "the image has this program as it was before a change; build the image again")
					break
				}
			}
		}
		if !has {
			m.errorf(m.config.At(e.FileName()), "the program is not in the image; build the image again")
		}
	}
	return nil
}

func describeArchive(folder fs.FS, name string) (oci.Image, error) {
	f, err := folder.Open(name)
	if err != nil {
		return oci.Image{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return oci.Image{}, err
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		return oci.Image{}, errors.New("internal error: the configuration folder's files cannot be read at any place")
	}
	return oci.Peek(r, info.Size())
}

// join counts and lists: "package a", "packages a, b".
func join(what string, names []string) string {
	if len(names) > 1 {
		what += "s"
	}
	return what + " " + strings.Join(names, ", ")
}

// Unneeded are programs that a root has and the configuration does not need, sorted. They do no harm: no role starts
// them. `spore build` would leave them out.
func Unneeded(c *cluster.Config, root *manifest.Manifest) []string {
	needed := map[string]bool{}
	for _, p := range Programs(c) {
		needed[p.Name] = true
	}
	var out []string
	for _, name := range root.Programs {
		if !needed[name] {
			out = append(out, name)
		}
	}
	own := map[string]bool{}
	for _, e := range c.Programs {
		own[e.FileName()] = true
	}
	for _, p := range root.Payloads {
		if p.Configured != "" && !own[p.Configured] {
			own[p.Configured] = true
			out = append(out, strings.TrimSuffix(p.Configured, ".yaml"))
		}
	}
	slices.Sort(out)
	return out
}
