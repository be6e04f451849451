package node

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// clusterDNS renders the Corefile of the pods' DNS server and its kubeconfig. Names of Services are answered from the API,
// all others by the resolvers of the nodes.
func clusterDNS(in rendering.Input) (map[string]rendering.File, error) {
	k := kubernetes.Of(in.Cluster.Services)
	if k == nil {
		return nil, errors.New("the cluster has no kubernetes settings; add services/kubernetes.yaml")
	}
	own, err := rendering.Address(in)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := client.Kubeconfig("spore:cluster-dns", in.SecretPath("cluster-dns-certificate"), in.SecretPath("cluster-dns-key"))
	if err != nil {
		return nil, err
	}
	if err := rendering.CheckName(k.ServiceDomain()); err != nil {
		return nil, fmt.Errorf("DNS domain of Kubernetes: %w", err)
	}
	var up []netip.Addr
	for _, s := range in.Cluster.Network.Nameservers {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("nameservers: %w", err)
		}
		up = append(up, a.Unmap())
	}
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Rendered by spore-agent from cluster.yaml and services/kubernetes.yaml; made again at each start.")
	line(".:%d {", kubernetes.PortClusterDNS)
	line("    bind %s", own)
	line("    errors")
	line("    prometheus %s", netip.AddrPortFrom(loopback, kubernetes.PortClusterDNSMetrics))
	line("    bufsize 1232")
	line("    loadbalance")
	line("    kubernetes %s in-addr.arpa ip6.arpa {", k.ServiceDomain())
	line("        kubeconfig %s/kubeconfig node", in.Dir)
	line("        fallthrough in-addr.arpa ip6.arpa")
	line("        ttl 30")
	line("    }")
	line("    cache 30")
	if len(up) > 0 {
		line("    forward . %s {", rendering.Join(up))
		line("        policy sequential")
		line("        max_concurrent 1000")
		line("    }")
	}
	line("}")
	return map[string]rendering.File{"Corefile": {Data: b.Bytes(), Mode: 0o644}, "kubeconfig": kubeconfig}, nil
}
