package render

import (
	"errors"
	"net/netip"
	"spore/services/service"
	"strings"
)

// kubeProxy renders its KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) and kubeconfig.
func kubeProxy(in Input) (map[string]File, error) {
	if len(in.Cluster.Network.PodCIDRs) == 0 {
		return nil, errors.New("the cluster has no podCIDRs; add them to cluster.yaml")
	}
	config, err := jsonFile(map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode":               "nftables",
		"clusterCIDR":        strings.Join(in.Cluster.Network.PodCIDRs, ","),
		"hostnameOverride":   in.Node.Name,
		"clientConnection":   map[string]any{"kubeconfig": in.Dir + "/kubeconfig"},
		"enableProfiling":    false,
		"healthzBindAddress": netip.AddrPortFrom(loopback, service.PortProxyHealth).String(),
		"metricsBindAddress": netip.AddrPortFrom(loopback, service.PortProxyMetrics).String(),
	}, 0o600)
	if err != nil {
		return nil, err
	}
	client, err := kubeconfigFile("system:kube-proxy", in.SecretPath("kube-proxy-certificate"), in.SecretPath("kube-proxy-key"))
	if err != nil {
		return nil, err
	}
	return map[string]File{"config.json": config, "kubeconfig": client}, nil
}
