package payload

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
)

// pom is what is looked at of a pom.xml; the rest is Maven's affair.
type pom struct {
	Parent       *struct{}       `xml:"parent"`
	Dependencies []pomDependency `xml:"dependencies>dependency"`
	Managed      []pomDependency `xml:"dependencyManagement>dependencies>dependency"`
	Plugins      []pomPlugin     `xml:"build>plugins>plugin"`
	Extensions   *struct{}       `xml:"build>extensions"`
	Management   *struct{}       `xml:"build>pluginManagement"`
	Profiles     *struct{}       `xml:"profiles"`
	Repositories *struct{}       `xml:"repositories"`
	PluginRepos  *struct{}       `xml:"pluginRepositories"`
}

type pomDependency struct {
	Group      string `xml:"groupId"`
	Name       string `xml:"artifactId"`
	Version    string `xml:"version"`
	Classifier string `xml:"classifier"`
}

// pomPlugin is a plugin with what would change its code.
type pomPlugin struct {
	pomDependency
	Extensions   string    `xml:"extensions"`
	Dependencies *struct{} `xml:"dependencies"`
}

func (d pomDependency) artifact() Artifact {
	trim := strings.TrimSpace
	return Artifact{trim(d.Group), trim(d.Name), trim(d.Version), trim(d.Classifier)}
}

// checkPom refuses a pom.xml whose meaning could change, and one that asks for other versions than are pinned; both can be
// said without Maven. It returns the dependencies.
func checkPom(data []byte, pinned []jar) ([]Artifact, error) {
	var p pom
	if err := xml.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", PomFile, err)
	}
	var problems []error
	if p.Parent != nil {
		problems = append(problems, errors.New("it has a parent, which can change"))
	}
	if p.Repositories != nil || p.PluginRepos != nil {
		problems = append(problems, errors.New("it names repositories; where jars come from is for the machine's own settings to say"))
	}
	if len(p.Dependencies) == 0 {
		problems = append(problems, errors.New("it has no dependencies"))
	}
	have := map[[3]string]Artifact{}
	for _, j := range pinned {
		have[j.key()] = j.Artifact
	}
	var out []Artifact
	for _, d := range p.Dependencies {
		a := d.artifact()
		if err := a.check(); err != nil {
			problems = append(problems, err)
			continue
		}
		if got, ok := have[a.key()]; pinned != nil && (!ok || got != a) {
			problems = append(problems, fmt.Errorf("it asks for %s, which %s does not name; %s", a, SumFile, sumsHint))
		}
		out = append(out, a)
	}
	for _, d := range p.Managed {
		if err := d.artifact().check(); err != nil {
			problems = append(problems, err)
		}
	}
	if _, err := p.plugin(); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("%s: %w", PomFile, err)
	}
	return out, nil
}

// copyPlugin is the one plugin of Maven's that runs, and what it is asked for. Its code runs on the machine that
// builds.
const (
	pluginGroup = "org.apache.maven.plugins"
	copyPlugin  = "maven-dependency-plugin"
	copyGoal    = "copy-dependencies"
)

// plugin is the version of the one plugin that runs. A pom.xml that names none would have Maven take the newest that
// there is, and one that names others would have it run code that nothing here asks for.
func (p *pom) plugin() (Artifact, error) {
	if p.Extensions != nil || p.Management != nil || p.Profiles != nil {
		return Artifact{}, errors.New("it has extensions, pluginManagement or profiles, which can bring other plugins; leave them out")
	}
	if len(p.Plugins) != 1 {
		return Artifact{}, fmt.Errorf("it names %d plugins; name the one that copies the jars, %s:%s, with its version, in build/plugins", len(p.Plugins), pluginGroup, copyPlugin)
	}
	one := p.Plugins[0]
	a := one.artifact()
	switch {
	case a.Group != pluginGroup || a.Name != copyPlugin || a.Classifier != "":
		return Artifact{}, fmt.Errorf("it names the plugin %.80q; the one that copies the jars is %s:%s", a, pluginGroup, copyPlugin)
	case one.Dependencies != nil || strings.TrimSpace(one.Extensions) != "":
		return Artifact{}, fmt.Errorf("it changes what the plugin %s consists of; leave dependencies and extensions out", copyPlugin)
	}
	return a, a.check()
}

// pluginOf is the plugin of a pom.xml that checkPom has passed.
func pluginOf(data []byte) (Artifact, error) {
	var p pom
	if err := xml.Unmarshal(data, &p); err != nil {
		return Artifact{}, err
	}
	return p.plugin()
}
