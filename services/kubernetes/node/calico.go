package node

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// hostInterfaces is felix's own pattern of the cards whose smallest MTU the pods' follows (felix/config, MTUIfacePattern).
const hostInterfaces = `^((en|wl|ww|sl|ib)[Pcopsvx].*|(eth|wlan|wwan).*)`

// policySetup is the longest that a pod waits for its policies.
const policySetup = 10 * time.Second

// calicoNode renders the environment of calico's start-up and of felix, their kubeconfig, and the network configuration of
// the CNI plugin with a kubeconfig of its own. The unit lays the last two into /run/cni/net.d when felix is ready.
func calicoNode(in rendering.Input) (map[string]rendering.File, error) {
	environment, err := calicoEnvironment(in)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := client.Kubeconfig("calico-node", in.SecretPath("calico-node-certificate"), in.SecretPath("calico-node-key"))
	if err != nil {
		return nil, err
	}
	for _, ref := range []string{"calico-cni-certificate", "calico-cni-key"} {
		if _, err := in.Secret(ref); err != nil {
			return nil, fmt.Errorf("credentials of the CNI plugin: %w", err)
		}
	}
	// The plugin is run by containerd, as root, also while calico-node is not running.
	cniClient, err := client.Kubeconfig("calico-cni", in.SecretPath("calico-cni-certificate"), in.SecretPath("calico-cni-key"))
	if err != nil {
		return nil, err
	}
	network, err := cniNetwork(in)
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{
		"environment": environment, "kubeconfig": kubeconfig, "calico-kubeconfig": cniClient, "10-calico.conflist": network,
	}, nil
}

func calicoEnvironment(in rendering.Input) (rendering.File, error) {
	v4, v6, err := podFamilies(in)
	if err != nil {
		return rendering.File{}, err
	}
	address4, address6, err := nodeFamilies(in, v4, v6)
	if err != nil {
		return rendering.File{}, err
	}
	pattern := hostInterfaces
	for _, i := range in.Node.Interfaces {
		if i.Name != "" { // a bond or VLAN, whose name is the user's
			pattern += "|^" + regexp.QuoteMeta(i.Name) + "$"
		}
	}
	var b bytes.Buffer
	for _, kv := range [][2]string{
		// Start-up and the allocation of the tunnel's address (node/pkg/lifecycle/startup, node/pkg/allocateip).
		{"KUBECONFIG", in.Dir + "/kubeconfig"},
		{"DATASTORE_TYPE", "kubernetes"},
		{"NODENAME", in.Node.Name},
		{"CALICO_NETWORKING_BACKEND", "vxlan"},
		{"CLUSTER_TYPE", "k8s"},
		{"CALICO_DISABLE_FILE_LOGGING", "true"},
		{"NO_DEFAULT_POOLS", "true"}, // the master's agent makes them
		{"WAIT_FOR_DATASTORE", "true"},
		{"IP", address4},
		{"IP6", address6},
		// Felix (felix/config/config_params.go).
		{"FELIX_DATASTORETYPE", "kubernetes"},
		{"FELIX_FELIXHOSTNAME", in.Node.Name},
		{"FELIX_NFTABLESMODE", "Enabled"},
		{"FELIX_IPTABLESBACKEND", "nft"},
		{"FELIX_IPV6SUPPORT", fmt.Sprint(v6)},
		// Pods reach the API server and the DNS of their own node, which are no pods.
		{"FELIX_DEFAULTENDPOINTTOHOSTACTION", "ACCEPT"},
		{"FELIX_MTUIFACEPATTERN", pattern},
		{"FELIX_BPFENABLED", "false"},
		{"FELIX_XDPENABLED", "false"}, // needs bpftool
		// Compiled without cgo it cannot load eBPF, not even to look for remains of it (felix/bpf/nat, connecttime.go).
		{"FELIX_DebugSkipCTLBCleanup", "true"},
		{"FELIX_HEALTHENABLED", "true"},
		{"FELIX_HEALTHHOST", loopback.String()},
		{"FELIX_HEALTHPORT", strconv.Itoa(kubernetes.PortFelixHealth)},
		{"FELIX_PROMETHEUSMETRICSENABLED", "true"},
		{"FELIX_PROMETHEUSMETRICSHOST", loopback.String()},
		{"FELIX_PROMETHEUSMETRICSPORT", strconv.Itoa(kubernetes.PortFelixMetrics)},
		{"FELIX_PROMETHEUSWIREGUARDMETRICSENABLED", "false"},
		{"FELIX_USAGEREPORTINGENABLED", "false"}, // would ask a server outside
		{"FELIX_METADATAADDR", "None"},
		{"FELIX_LOGFILEPATH", "None"},
		{"FELIX_LOGSEVERITYFILE", "None"},
		{"FELIX_LOGSEVERITYSYS", "None"},
		{"FELIX_LOGSEVERITYSCREEN", "Warning"},
	} {
		fmt.Fprintf(&b, "%s=%s\n", kv[0], environmentValue(kv[1]))
	}
	return rendering.File{Data: b.Bytes(), Mode: 0o644}, nil
}

// environmentValue quotes a value for systemd (systemd.exec(5), EnvironmentFile=).
func environmentValue(v string) string {
	if !strings.ContainsAny(v, " \t\"'\\$`#;") {
		return v
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$`).Replace(v) + `"`
}

// podFamilies tells which address families pods have.
func podFamilies(in rendering.Input) (v4, v6 bool, err error) {
	for _, s := range in.Cluster.Network.PodCIDRs {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return false, false, fmt.Errorf("podCIDRs: %w", err)
		}
		v4, v6 = v4 || p.Addr().Is4(), v6 || p.Addr().Is6()
	}
	if !v4 && !v6 {
		return false, false, errors.New("the cluster has no podCIDRs; add them to cluster.yaml")
	}
	return v4, v6, nil
}

// nodeFamilies are the node's addresses between which the tunnels of each family go, or "none".
func nodeFamilies(in rendering.Input, v4, v6 bool) (string, string, error) {
	own := rendering.Bindable(in.Addresses)
	if len(in.Node.IPs) > 0 {
		own = nil
		for _, s := range in.Node.IPs {
			if a, err := netip.ParseAddr(s); err == nil {
				own = append(own, a.Unmap())
			}
		}
	}
	address4, address6 := "none", "none"
	for i := len(own) - 1; i >= 0; i-- {
		switch {
		case own[i].Is4() && v4:
			address4 = own[i].String()
		case own[i].Is6() && v6:
			address6 = own[i].String()
		}
	}
	if v4 && address4 == "none" {
		return "", "", errors.New("pods have IPv4 addresses and the node has none yet")
	}
	if v6 && address6 == "none" {
		return "", "", errors.New("pods have IPv6 addresses and the node has none yet")
	}
	return address4, address6, nil
}

// cniNetwork is the list of plugins that containerd runs for each pod (CNI specification, "Network configuration format").
func cniNetwork(in rendering.Input) (rendering.File, error) {
	v4, v6, err := podFamilies(in)
	if err != nil {
		return rendering.File{}, err
	}
	return rendering.JSON(map[string]any{
		"cniVersion": "1.0.0", "name": "pods",
		"plugins": []any{
			map[string]any{
				"type": "calico", "datastore_type": "kubernetes", "nodename": in.Node.Name, "log_level": "warning",
				"mtu": 0, "require_mtu_file": true, // felix finds it and writes the file
				"ipam":       map[string]any{"type": "calico-ipam", "assign_ipv4": fmt.Sprint(v4), "assign_ipv6": fmt.Sprint(v6)},
				"policy":     map[string]any{"type": "k8s"},
				"kubernetes": map[string]any{"kubeconfig": cniConfig + "/calico-kubeconfig"},
				// A pod starts when felix has put its policies in place; felix drops what comes from interfaces that it
				// does not know, so that one which starts without has no network.
				"policy_setup_timeout_seconds": int(client.Slow(in, policySetup).Seconds()),
			},
			map[string]any{"type": "portmap", "snat": true, "backend": "nftables", "capabilities": map[string]any{"portMappings": true}},
			map[string]any{"type": "bandwidth", "capabilities": map[string]any{"bandwidth": true}},
		},
	}, 0o644)
}
