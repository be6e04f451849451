package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"spore/services/kubernetes"
	"strings"
	"time"

	"spore/services/rendering"
)

const (
	// apiServer is where every program of a node finds the API: its own load balancer.
	apiServer = "https://" + balancerAddress
	// pkiDir holds the authorities' certificates, from the verified cluster part.
	pkiDir = "/run/spore/trust"
	// dnsService is the place of the cluster's DNS among the addresses of Services.
	dnsService = 10
)

// pkiFile is the file of a public key or certificate that all nodes have.
func pkiFile(name string) string { return filepath.Join(pkiDir, name) }

// slow is a duration as it is on this cluster's machines.
func slow(in Input, d time.Duration) time.Duration {
	return d * time.Duration(kubernetes.Of(in.Cluster.Services).Slow())
}

// clusterDomain is the DNS domain of Services; kube-apiserver's certificate has its names.
func clusterDomain(in Input) string { return kubernetes.Of(in.Cluster.Services).ServiceDomain() }

// nodeAddress is the address by which the others know this node: the first of cluster.yaml, else the one that it has.
func nodeAddress(in Input) (netip.Addr, error) {
	for _, s := range in.Node.IPs {
		if a, err := netip.ParseAddr(s); err == nil {
			return a.Unmap(), nil
		}
	}
	if own := rendering.Bindable(in.Addresses); len(own) > 0 {
		return own[0], nil
	}
	return netip.Addr{}, errors.New("the node has no address yet")
}

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

// member is a node of a role with the address that the cluster's hosts file has for it.
type member struct {
	name string
	addr netip.Addr
}

// membersOf lists the nodes of a role in the order of their names. A node without an address in the hosts file has one
// by DHCP, which only itself can know.
func membersOf(in Input, role string) ([]member, error) {
	hosts, err := rendering.NewHostTable(in.Hosts, in.Cluster.Domain)
	if err != nil {
		return nil, err
	}
	var out []member
	for _, name := range in.Cluster.Members[role] {
		addrs := hosts.Addresses(rendering.Absolute(name, in.Cluster.Domain))
		if name == in.Node.Name && len(addrs) == 0 {
			own, err := nodeAddress(in)
			if err != nil {
				return nil, err
			}
			addrs = []netip.Addr{own}
		}
		if len(addrs) == 0 {
			return nil, fmt.Errorf("node %s of role %s has no address in cluster.yaml; give it one under ips", name, role)
		}
		out = append(out, member{name, addrs[0]})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no node has the role %s", role)
	}
	return out, nil
}

// hasRole tells whether the node has a role.
func hasRole(in Input, role string) bool {
	for _, r := range in.Node.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// arguments is a file that a unit reads as EnvironmentFile=: ARGUMENTS holds the words of the command line, which systemd
// splits at blanks (systemd.service(5), "Command lines").
func arguments(words []string) (File, error) {
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$") {
			return File{}, fmt.Errorf("internal error: argument %q cannot stand in an environment file", w)
		}
	}
	return File{Data: []byte("ARGUMENTS=" + strings.Join(words, " ") + "\n"), Mode: 0o644}, nil
}

// jsonFile is a configuration as JSON, which programs that read YAML take as well.
func jsonFile(v any, mode fs.FileMode) (File, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return File{}, err
	}
	return File{Data: b.Bytes(), Mode: mode}, nil
}

// kubeconfigFile is a kubeconfig of a client of this node that keeps its certificate and key in files.
func kubeconfigFile(user, certificate, key string) (File, error) {
	return kubeconfig(user, map[string]any{"client-certificate": certificate, "client-key": key})
}

func kubeconfig(user string, credentials map[string]any) (File, error) {
	return jsonFile(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "node",
		"clusters": []any{map[string]any{"name": "cluster", "cluster": map[string]any{
			"server": apiServer, "certificate-authority": pkiFile("kubernetes-server.crt"),
		}}},
		"users":    []any{map[string]any{"name": user, "user": credentials}},
		"contexts": []any{map[string]any{"name": "node", "context": map[string]any{"cluster": "cluster", "user": user}}},
	}, 0o600)
}
