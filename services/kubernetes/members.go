package kubernetes

import "spore/cluster/check"

// checkMembers checks how many control planes there are, and that pods and Services have networks.
func checkMembers(k *check.Checker, listed check.Place) {
	n := len(k.MembersOf(master))
	if n == 0 {
		k.Errorf(listed, "kubernetes is enabled, but no node has the role control-plane (or master); give it to one node, or to three")
	}
	k.Quorum(listed, n, "control planes", "etcd's")
	if n > 1 && k.Cluster.Network.ControlPlaneEndpoint == "" {
		k.Warningf(listed, "there are %d control planes and no network.controlPlaneEndpoint: clients of the API from outside depend on one of them; choose a free address of the node subnet", n)
	}
	if len(k.Cluster.Network.PodCIDRs) == 0 {
		k.Errorf(listed, "kubernetes needs network.podCIDRs; write a free network such as [10.244.0.0/16]")
	}
	if len(k.Cluster.Network.ServiceCIDRs) == 0 {
		k.Errorf(listed, "kubernetes needs network.serviceCIDRs; write a free network such as [10.96.0.0/16]")
	}
}

// inKubernetes tells whether a node has a role of Kubernetes.
func inKubernetes(k *check.Checker, node int) bool {
	return k.HasRole(node, master) || k.HasRole(node, worker)
}
