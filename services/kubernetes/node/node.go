// Package node is what nodes link of Kubernetes: how the configuration of its programs is rendered.
package node

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"spore/services/kubernetes"
	"spore/services/rendering"
)

// Renderings are the service's own, by program.
var Renderings = map[string]rendering.Func{
	"calico-controllers":      calicoControllers,
	"calico-node":             calicoNode,
	"cluster-dns":             clusterDNS,
	"containerd":              containerd,
	"etcd":                    etcd,
	"kube-apiserver":          kubeAPIServer,
	"kube-balancer":           balancer,
	"kube-controller-manager": kubeControllerManager,
	"kube-proxy":              kubeProxy,
	"kube-scheduler":          kubeScheduler,
	"kubelet":                 kubelet,
}

const (
	// pkiDir holds the authorities' certificates, from the verified cluster part.
	pkiDir = "/run/spore/trust"
	// dnsService is the place of the cluster's DNS among the addresses of Services.
	dnsService = 10
)

// pkiFile is the file of a public key or certificate that all nodes have.
func pkiFile(name string) string { return filepath.Join(pkiDir, name) }

// clusterDomain is the DNS domain of Services; kube-apiserver's certificate has its names.
func clusterDomain(in rendering.Input) string {
	return kubernetes.Of(in.Cluster.Services).ServiceDomain()
}

// serviceAddress is the nth address of the first Service network; 1 is the API itself.
func serviceAddress(in rendering.Input, nth int) (netip.Addr, error) {
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
