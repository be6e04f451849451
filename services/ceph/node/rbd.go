package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// rbdFiles renders how the driver of volumes reaches Ceph: as the node's own user, who may work with the pools of
// Kubernetes alone. That user and words of its own are the program's arguments.
func rbdFiles(in rendering.Input, more ...string) (map[string]rendering.File, error) {
	user := RBDUser(in.Node.Name)
	files, err := cephFiles(in, []CephKey{{user, "ceph-kubernetes-rbd-key"}})
	if err != nil {
		return nil, err
	}
	files["arguments"], err = rendering.Arguments(append([]string{"--user=" + strings.TrimPrefix(user, "client.")}, more...))
	return files, err
}

// rbdController renders what the controller needs.
func rbdController(in rendering.Input) (map[string]rendering.File, error) { return rbdFiles(in) }

// rbdProvisioner renders the command line and the kubeconfig of Kubernetes' provisioner, which asks the driver for volumes.
// Of several masters' one works, by a lease whose times are those of kube-scheduler's.
func rbdProvisioner(in rendering.Input) (map[string]rendering.File, error) {
	return provisioner(in, "/run/rbd-controller/csi.sock", "--default-fstype=ext4")
}

// provisioner renders them for the driver at a socket, with words of its own.
func provisioner(in rendering.Input, socket string, more ...string) (map[string]rendering.File, error) {
	if kubernetes.Of(in.Cluster.Services) == nil {
		return nil, errors.New("the cluster has no kubernetes settings; add services/kubernetes.yaml")
	}
	kubeconfig, err := client.Kubeconfig("spore:rbd-provisioner:"+in.Node.Name, in.SecretPath("rbd-provisioner-certificate"), in.SecretPath("rbd-provisioner-key"))
	if err != nil {
		return nil, err
	}
	words := []string{
		"--kubeconfig=" + in.Dir + "/kubeconfig",
		"--csi-address=" + socket,
		// What the driver does takes seconds; a cluster that stands still is asked again.
		"--timeout=" + client.Slow(in, time.Minute).String(),
		"--retry-interval-max=" + client.Slow(in, 30*time.Second).String(),
		"--worker-threads=10",
		fmt.Sprintf("--leader-election=%t", client.Elects(in)),
		"--leader-election-namespace=kube-system",
		"--leader-election-lease-duration=" + client.Slow(in, client.LeaseDuration).String(),
		"--leader-election-renew-deadline=" + client.Slow(in, client.RenewDeadline).String(),
		"--leader-election-retry-period=" + client.Slow(in, client.RetryPeriod).String(),
	}
	args, err := rendering.Arguments(append(words, more...))
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{"kubeconfig": kubeconfig, "arguments": args}, nil
}

// rbdNode renders, besides, what the node is called.
func rbdNode(in rendering.Input) (map[string]rendering.File, error) {
	return rbdFiles(in, "--node="+in.Node.Name)
}
