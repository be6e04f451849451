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
	Plugins      []pomDependency `xml:"build>plugins>plugin"`
	Repositories *struct{}       `xml:"repositories"`
	PluginRepos  *struct{}       `xml:"pluginRepositories"`
}

type pomDependency struct {
	Group      string `xml:"groupId"`
	Name       string `xml:"artifactId"`
	Version    string `xml:"version"`
	Classifier string `xml:"classifier"`
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
	for _, d := range append(p.Managed, p.Plugins...) {
		if err := d.artifact().check(); err != nil {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("%s: %w", PomFile, err)
	}
	return out, nil
}
