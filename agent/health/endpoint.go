package health

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/kubernetes"
	"spore/services/kubernetes/vip/holder"
	"spore/wire/nodeapi"
)

// Endpoint is what a master knows of the virtual address of the Kubernetes API.
type Endpoint struct {
	holder.State
	// Unknown says why nothing is known.
	Unknown string
}

// EndpointOf reads the file in which a master leaves that; nil where there is no such address or the node is no master.
func EndpointOf(path string, c *facts.Cluster, n *facts.Node) *Endpoint {
	if !services.Enabled(c, kubernetes.PartEndpoint) || !slices.Contains(n.Roles, "control-plane") {
		return nil
	}
	s, err := holder.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Endpoint{Unknown: "control-plane-endpoint.service has not said anything yet"}
	case err != nil:
		return &Endpoint{Unknown: err.Error()}
	}
	return &Endpoint{State: s.State}
}

// endpoint never fails a node: the address is for those outside, and another master may have it.
func endpoint(in Input) (nodeapi.State, string) {
	switch e := in.Endpoint; {
	case e == nil:
		return "", ""
	case e.Unknown != "":
		return nodeapi.Warning, e.Unknown
	case e.Problem != "":
		return nodeapi.Warning, fmt.Sprintf("%s: %s", e.Address, e.String())
	default:
		return nodeapi.OK, e.String()
	}
}
