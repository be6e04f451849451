package render

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"spore/services/kubernetes"
	"time"

	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

const (
	// pkiDir holds the authorities' certificates, from the verified cluster part.
	pkiDir = "/run/spore/trust"
	// dnsService is the place of the cluster's DNS among the addresses of Services.
	dnsService = 10
)

// pkiFile is the file of a public key or certificate that all nodes have.
func pkiFile(name string) string { return filepath.Join(pkiDir, name) }

// slow is a duration as it is on this cluster's machines.
func slow(in Input, d time.Duration) time.Duration { return client.Slow(in, d) }

// clusterDomain is the DNS domain of Services; kube-apiserver's certificate has its names.
func clusterDomain(in Input) string { return kubernetes.Of(in.Cluster.Services).ServiceDomain() }

// nodeAddress is the address by which the others know this node.
func nodeAddress(in Input) (netip.Addr, error) { return rendering.Address(in) }

// serviceAddress is the nth address of the first Service network; 1 is the API itself.
func serviceAddress(in Input, nth int) (netip.Addr, error) {
	if len(in.Cluster.Network.ServiceCIDRs) == 0 {
		return netip.Addr{}, errors.New("the cluster has no serviceCIDRs; add them to cluster.yaml")
	}
	p, err := netip.ParsePrefix(in.Cluster.Network.ServiceCIDRs[0])
	if err != nil {
		return netip.Addr{}, fmt.Errorf("serviceCIDRs: %w", err)
	}
	a := p.Masked().Addr()
	for range nth {
		a = a.Next()
	}
	if !p.Contains(a) {
		return netip.Addr{}, fmt.Errorf("serviceCIDRs: %s has no address %d; make it larger", p, nth)
	}
	return a, nil
}

// membersOf lists the nodes of a role in the order of their names.
func membersOf(in Input, role string) ([]rendering.Member, error) { return rendering.Members(in, role) }

// hasRole tells whether the node has a role.
func hasRole(in Input, role string) bool {
	for _, r := range in.Node.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// arguments is a file with the words of a command line, which a unit reads as EnvironmentFile=.
func arguments(words []string) (File, error) { return rendering.Arguments(words) }

// jsonFile is a configuration as JSON, which programs that read YAML take as well.
func jsonFile(v any, mode fs.FileMode) (File, error) { return rendering.JSON(v, mode) }

// kubeconfigFile is a kubeconfig of a client of this node that keeps its certificate and key in files.
func kubeconfigFile(user, certificate, key string) (File, error) {
	return client.Kubeconfig(user, certificate, key)
}
