package kubernetes

import "spore/services/service"

// api is the trust of Kubernetes' clients: client-go reads it again since 0.36 alone, and not all of them have that one.
var api = map[string]service.Way{"kubernetes-server.crt": service.Restarts}

var renewal = []service.Renewal{
	{Program: "signer", Leaves: service.Reads, Trust: map[string]service.Way{"agent.crt": service.Reads}}, // one process for each request
	// etcd reads its certificates for each connection (client/pkg/transport), and whom it trusts at its start alone.
	{Program: "etcd", Leaves: service.Reads, Trust: map[string]service.Way{"etcd.crt": service.Restarts, "etcd-client.crt": service.Restarts}, Turns: master},
	// Between snapshots nothing is lost by a restart.
	{Program: "etcd-snapshot", Leaves: service.Restarts, Trust: map[string]service.Way{"etcd.crt": service.Restarts, "agent.crt": service.Reads}},
	// Those that it verifies clients with it reads again within a minute (k8s.io/apiserver, dynamiccertificates).
	{Program: "kube-apiserver", Leaves: service.Reads, Turns: master, Trust: map[string]service.Way{
		"kubernetes-client.crt": service.Reads, "front-proxy.crt": service.Reads, "kubelet-serving.crt": service.Restarts, "service-account.pub": service.Restarts,
	}},
	// The files that it signs with are rendered at its start, and so is what it tells pods to trust.
	{Program: "kube-controller-manager", Leaves: service.Reads, Trust: map[string]service.Way{"kubernetes-server.crt": service.Restarts, "kubernetes-client.crt": service.Restarts, "kubelet-serving.crt": service.Restarts}},
	{Program: "kube-scheduler", Leaves: service.Reads, Trust: map[string]service.Way{"kubernetes-server.crt": service.Restarts, "kubernetes-client.crt": service.Reads}},
	{Program: "cluster-dns", Leaves: service.Reads, Trust: api},
	{Program: "calico-controllers", Leaves: service.Reads, Trust: api},
	{Program: "kubernetes-bootstrap", Leaves: service.Restarts, Trust: api},
	// They connect to etcd at their start. The address of the API moves when its holder is restarted, so that takes turns.
	{Program: "etcd-members", Leaves: service.Restarts, Trust: map[string]service.Way{"etcd.crt": service.Restarts}},
	{Program: "control-plane-endpoint", Leaves: service.Restarts, Trust: map[string]service.Way{"etcd.crt": service.Restarts, "kubernetes-server.crt": service.Restarts}, Turns: master},
	{Program: "kube-balancer", Trust: map[string]service.Way{"kubernetes-server.crt": service.Signals, "root.crt": service.Signals}, Signal: "USR2"},
	{Program: "kubernetes-api", Leaves: service.Reads, Trust: map[string]service.Way{"kubernetes-server.crt": service.Reads}}, // it is done when the API answers
	// It has certificates of its own, which its start drops when another authority signs (render).
	{Program: "kubelet", Leaves: service.Reads, Trust: map[string]service.Way{"kubernetes-server.crt": service.Restarts, "kubernetes-client.crt": service.Restarts, "kubelet-serving.crt": service.Restarts}},
	{Program: "kube-proxy", Leaves: service.Reads, Trust: api},
	// The configuration of the CNI plugin names the files.
	{Program: "calico-node", Leaves: service.Reads, Trust: api},
}
