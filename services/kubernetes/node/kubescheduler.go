package node

import (
	"errors"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// kubeScheduler renders a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), its kubeconfig, and the flags that
// have no place in the configuration.
func kubeScheduler(in rendering.Input) (map[string]rendering.File, error) {
	if kubernetes.Of(in.Cluster.Services) == nil {
		return nil, errors.New("the cluster has no kubernetes settings; add services/kubernetes.yaml")
	}
	credentials, err := client.Kubeconfig("system:kube-scheduler", in.SecretPath("kube-scheduler-certificate"), in.SecretPath("kube-scheduler-key"))
	if err != nil {
		return nil, err
	}
	config, err := rendering.JSON(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": in.Dir + "/kubeconfig"},
		"leaderElection": map[string]any{
			"leaderElect":   client.Elects(in),
			"leaseDuration": client.Slow(in, client.LeaseDuration).String(), "renewDeadline": client.Slow(in, client.RenewDeadline).String(), "retryPeriod": client.Slow(in, client.RetryPeriod).String(),
		},
		"enableProfiling": false, "enableContentionProfiling": false,
	}, 0o644)
	if err != nil {
		return nil, err
	}
	// The benchmark looks for the flag.
	flags, err := rendering.Arguments(append([]string{"--config=" + in.Dir + "/config.json", "--profiling=false"}, ownServer(in, "kube-scheduler", kubernetes.PortScheduler)...))
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{"config.json": config, "kubeconfig": credentials, "arguments": flags}, nil
}
