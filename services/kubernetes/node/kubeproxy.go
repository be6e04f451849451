package node

import (
	"errors"
	"net/netip"
	"strings"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// kubeProxy renders its KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) and kubeconfig.
func kubeProxy(in rendering.Input) (map[string]rendering.File, error) {
	if len(in.Cluster.Network.PodCIDRs) == 0 {
		return nil, errors.New("the cluster has no podCIDRs; add them to cluster.yaml")
	}
	config, err := rendering.JSON(map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode":               "nftables",
		"clusterCIDR":        strings.Join(in.Cluster.Network.PodCIDRs, ","),
		"hostnameOverride":   in.Node.Name,
		"clientConnection":   map[string]any{"kubeconfig": in.Dir + "/kubeconfig"},
		"enableProfiling":    false,
		"healthzBindAddress": netip.AddrPortFrom(loopback, kubernetes.PortProxyHealth).String(),
		"metricsBindAddress": netip.AddrPortFrom(loopback, kubernetes.PortProxyMetrics).String(),
	}, 0o600)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := client.Kubeconfig("system:kube-proxy", in.SecretPath("kube-proxy-certificate"), in.SecretPath("kube-proxy-key"))
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{"config.json": config, "kubeconfig": kubeconfig}, nil
}
