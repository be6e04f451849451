package render

import (
	"errors"
	"fmt"
	"time"

	"spore/cluster/spec"
)

// rbdFiles renders how the driver of volumes reaches Ceph: as the user of Kubernetes, who may work with its pools alone.
func rbdFiles(in Input) (map[string]File, error) {
	return cephFiles(in, []CephKey{{"client." + spec.CephKubernetesUser, "ceph-kubernetes-rbd-key"}})
}

// rbdProvisioner renders the command line and the kubeconfig of Kubernetes' provisioner, which asks the driver for volumes.
// Of several masters' one works, by a lease whose times are those of kube-scheduler's.
func rbdProvisioner(in Input) (map[string]File, error) {
	return provisioner(in, "/run/rbd-controller/csi.sock", "--default-fstype=ext4")
}

// provisioner renders them for the driver at a socket, with words of its own.
func provisioner(in Input, socket string, more ...string) (map[string]File, error) {
	if in.Cluster.Services.Kubernetes == nil {
		return nil, errors.New("the cluster has no kubernetes settings; add services/kubernetes.yaml")
	}
	client, err := kubeconfigFile("spore:rbd-provisioner:"+in.Node.Name, in.SecretPath("rbd-provisioner-certificate"), in.SecretPath("rbd-provisioner-key"))
	if err != nil {
		return nil, err
	}
	words := []string{
		"--kubeconfig=" + in.Dir + "/kubeconfig",
		"--csi-address=" + socket,
		// What the driver does takes seconds; a cluster that stands still is asked again.
		"--timeout=" + slow(in, time.Minute).String(),
		"--retry-interval-max=" + slow(in, 30*time.Second).String(),
		"--worker-threads=10",
		fmt.Sprintf("--leader-election=%t", elects(in)),
		"--leader-election-namespace=kube-system",
		"--leader-election-lease-duration=" + slow(in, leaseDuration).String(),
		"--leader-election-renew-deadline=" + slow(in, renewDeadline).String(),
		"--leader-election-retry-period=" + slow(in, retryPeriod).String(),
	}
	args, err := arguments(append(words, more...))
	if err != nil {
		return nil, err
	}
	return map[string]File{"kubeconfig": client, "arguments": args}, nil
}

// rbdNode renders, besides, what the node is called.
func rbdNode(in Input) (map[string]File, error) {
	files, err := rbdFiles(in)
	if err != nil {
		return nil, err
	}
	if files["arguments"], err = arguments([]string{"--node=" + in.Node.Name}); err != nil {
		return nil, err
	}
	return files, nil
}
