package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

const (
	kubeletRoot = "/var/lib/kubelet"
	// masterTaint keeps pods off masters that are no workers.
	masterTaint = "node-role.kubernetes.io/control-plane"
	// nodeLease is how long a node counts as alive after it last said so, in seconds; kubelet's own default.
	nodeLease = 40 * time.Second
	// runtimeRequest is kubelet's own default.
	runtimeRequest = 2 * time.Minute
	// podProcesses bounds the processes of a pod, so that one cannot use up the node's.
	podProcesses = 4096
)

// kubelet renders its KubeletConfiguration (kubelet.config.k8s.io/v1beta1), the kubeconfig by which it asks for its first
// certificate, and the flags that have no place in the configuration.
func kubelet(in rendering.Input) (map[string]rendering.File, error) {
	k := kubernetes.Of(in.Cluster.Services)
	if k == nil {
		return nil, errors.New("the cluster has no kubernetes settings; add services/kubernetes.yaml")
	}
	address, err := rendering.Address(in)
	if err != nil {
		return nil, err
	}
	taints, err := nodeTaints(in)
	if err != nil {
		return nil, err
	}
	dns, err := serviceAddress(in, dnsService)
	if err != nil {
		return nil, err
	}
	config, err := rendering.JSON(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": address.String(), "port": kubernetes.PortKubelet,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": pkiFile("kubernetes-client.crt")},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"cgroupDriver":             "systemd",
		"clusterDNS":               []string{dns.String()},
		"clusterDomain":            clusterDomain(in),
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"enableDebugFlagsHandler":  false,
		"enableProfilingHandler":   false,
		"enableSystemLogHandler":   false,
		"failSwapOn":               true,
		"healthzBindAddress":       loopback.String(),
		"healthzPort":              kubernetes.PortKubeletHealth,
		"makeIPTablesUtilChains":   false, // there is no iptables
		"maxPods":                  k.PodLimit(),
		"podPidsLimit":             podProcesses,
		"protectKernelDefaults":    true,
		"readOnlyPort":             0,
		"registerWithTaints":       taints,
		"resolvConf":               "/etc/resolv.conf",
		"rotateCertificates":       true,
		"seccompDefault":           true,
		"serverTLSBootstrap":       true,
		"tlsMinVersion":            "VersionTLS13",
		"volumePluginDir":          kubeletRoot + "/plugins/volume", // the default is on the read-only root
		"nodeLeaseDurationSeconds": int(client.Slow(in, nodeLease).Seconds()),
		"runtimeRequestTimeout":    client.Slow(in, runtimeRequest).String(),
	}, 0o600)
	if err != nil {
		return nil, err
	}
	bootstrap, err := client.Kubeconfig("bootstrap", in.SecretPath("kubelet-bootstrap-certificate"), in.SecretPath("kubelet-bootstrap-key"))
	if err != nil {
		return nil, err
	}
	// The node's name and address are in kubelet.env.
	words := []string{
		"--config=" + in.Dir + "/config.json",
		"--bootstrap-kubeconfig=" + in.Dir + "/bootstrap.kubeconfig",
		"--kubeconfig=" + kubeletRoot + "/kubeconfig",
		"--cert-dir=" + kubeletRoot + "/pki",
		"--root-dir=" + kubeletRoot,
	}
	if labels := ownLabels(in.Node.Labels); len(labels) > 0 {
		words = append(words, "--node-labels="+strings.Join(labels, ","))
	}
	flags, err := rendering.Arguments(words)
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{"config.json": config, "bootstrap.kubeconfig": bootstrap, "arguments": flags}, nil
}

// Taint is a taint of a Kubernetes node (core/v1).
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// nodeTaints are those that the node registers with: its file's, and a master's that is not a worker too.
func nodeTaints(in rendering.Input) ([]Taint, error) {
	var out []Taint
	for _, s := range in.Node.Taints {
		pair, effect, ok := strings.Cut(s, ":")
		key, value, _ := strings.Cut(pair, "=")
		if !ok || key == "" || !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
			return nil, fmt.Errorf("taint %q of node %s is not key=value:Effect with the effect NoSchedule, PreferNoSchedule or NoExecute", s, in.Node.Name)
		}
		out = append(out, Taint{key, value, effect})
	}
	if slices.Contains(in.Node.Roles, "control-plane") && !slices.Contains(in.Node.Roles, "worker") {
		out = append(out, Taint{masterTaint, "", "NoSchedule"})
	}
	return out, nil
}

// kubeletLabels are labels of Kubernetes' own namespaces that a kubelet may give its node
// (k8s.io/kubelet/pkg/apis/well_known_labels.go); the master's agent sets the others.
var kubeletLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
}

// ownLabels are those that the kubelet itself may set, as key=value, sorted.
func ownLabels(labels map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if kubeletMaySet(key) {
			out = append(out, key+"="+labels[key])
		}
	}
	return out
}

// kubeletMaySet tells whether the admission of kube-apiserver lets a kubelet set the label on its own node.
func kubeletMaySet(key string) bool {
	space, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	within := func(domain string) bool { return space == domain || strings.HasSuffix(space, "."+domain) }
	switch {
	case slices.Contains(kubeletLabels, key), within("kubelet.kubernetes.io"), within("node.kubernetes.io"):
		return true
	case within("kubernetes.io"), within("k8s.io"):
		return false
	}
	return true
}
