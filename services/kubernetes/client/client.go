// Package client is what a node's programs need that are clients of Kubernetes' API, those of other services too: where the
// API is, whom to trust, and the lease by which one of several works.
package client

import (
	"net/netip"
	"path/filepath"
	"time"

	"spore/services/kubernetes"
	"spore/services/rendering"
)

// trust holds the authorities' certificates, from the verified cluster part.
const trust = "/run/spore/trust"

// Server is where every program of a node finds the API: its own load balancer.
var Server = "https://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), kubernetes.PortBalancer).String()

// Leases of the programs of which one in the cluster is at work: Kubernetes' own defaults.
const (
	LeaseDuration = 15 * time.Second
	RenewDeadline = 10 * time.Second
	RetryPeriod   = 2 * time.Second
)

// Elects tells whether there is another that could be at work. A single one that lost its lease would only stop itself.
func Elects(in rendering.Input) bool { return len(in.Cluster.Members["control-plane"]) > 1 }

// Slow is a duration as it is on this cluster's machines.
func Slow(in rendering.Input, d time.Duration) time.Duration {
	return d * time.Duration(kubernetes.Of(in.Cluster.Services).Slow())
}

// Kubeconfig is the kubeconfig of a client of this node that keeps its certificate and key in files.
func Kubeconfig(user, certificate, key string) (rendering.File, error) {
	return rendering.JSON(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "node",
		"clusters": []any{map[string]any{"name": "cluster", "cluster": map[string]any{
			"server": Server, "certificate-authority": filepath.Join(trust, "kubernetes-server.crt"),
		}}},
		"users":    []any{map[string]any{"name": user, "user": map[string]any{"client-certificate": certificate, "client-key": key}}},
		"contexts": []any{map[string]any{"name": "node", "context": map[string]any{"cluster": "cluster", "user": user}}},
	}, 0o600)
}
