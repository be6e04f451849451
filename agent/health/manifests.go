package health

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services/kubernetes/applyset"
	"spore/wire/nodeapi"
)

// Manifests is what a master knows of the Kubernetes objects of manifests/.
type Manifests struct {
	applyset.State
	// Unknown says why nothing is known.
	Unknown string
}

// ManifestsOf reads the file in which a master leaves that. It is nil on nodes that are no masters, and where the
// configuration is without such objects and all former ones are gone. has says whether the configuration has some.
func ManifestsOf(path string, n *facts.Node, has bool) *Manifests {
	if !slices.Contains(n.Roles, "control-plane") {
		return nil
	}
	s, err := applyset.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !has:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &Manifests{Unknown: "kubernetes-bootstrap.service has not applied anything yet"}
	case err != nil:
		return &Manifests{Unknown: err.Error()}
	case !has && s.Objects == 0 && s.Count == 0:
		return nil
	}
	return &Manifests{State: s}
}

// manifests never fails a node: an object that cannot be applied says nothing of the machine, and what puts it right
// may be pushed.
func manifests(in Input) (nodeapi.State, string) {
	m := in.Manifests
	switch {
	case m == nil:
		return "", ""
	case m.Unknown != "":
		return nodeapi.Warning, m.Unknown
	case m.Count == 0 && !m.Here && m.Newer:
		return nodeapi.OK, fmt.Sprintf("%s keeps those of another configuration", m.Holder)
	case m.Count == 0 && !m.Here:
		return nodeapi.OK, fmt.Sprintf("%s keeps %d objects", m.Holder, m.Objects)
	case m.Count == 0:
		return nodeapi.OK, fmt.Sprintf("this master keeps %d objects", m.Objects)
	}
	var lines []string
	for _, p := range m.Problems {
		lines = append(lines, p.String())
	}
	if more := m.Count - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return nodeapi.Warning, strings.Join(lines, "; ")
}
