package renewal

import (
	"maps"
	"slices"
	"time"

	"spore/cluster/facts"
	"spore/pki"
	"spore/services"
	"spore/services/service"
)

// Way is how a program takes what is new. The higher one includes the lower.
type Way int

// Ways.
const (
	// Reads is a program that reads the file again by itself, or at its next start, which is soon enough.
	Reads Way = iota
	// Signals is one that reads it again when it gets the row's signal.
	Signals
	// Restarts is one that has to be started again.
	Restarts
)

// String says it in the words of the status.
func (w Way) String() string { return [...]string{"reads", "signals", "restarts"}[w] }

// Row is one row of Programs.
type Row struct {
	// Program is its name in the table of package services.
	Program string
	// Leaves is how it takes other certificates and keys of its own, which lie in paths.Live.
	Leaves Way
	// Trust is how it takes another file of paths.Trust, by the file's name; what is not here it does not read.
	Trust map[string]Way
	// Signal is the name of the signal.
	Signal string
	// Turns is the role whose nodes let one of them restart the program at a time, and only while it runs on all others; empty
	// where each node is by itself.
	Turns string
}

// Programs is the table of how programs take what is new. A secret that is no certificate is taken by a restart, always.
//
// What it says of a program was read in the program's source and is tried by test/services.
func Programs() []Row {
	// What Kubernetes' clients trust: client-go reads it again since 0.36 alone, and not all of them have that one.
	api := map[string]Way{"kubernetes-server.crt": Restarts}
	master := "control-plane"
	return []Row{
		{Program: "api", Leaves: Reads, Trust: map[string]Way{"agent.crt": Reads}},                         // reads both for each connection
		{Program: "signer", Leaves: Reads, Trust: map[string]Way{"agent.crt": Reads}},                      // one process for each request
		{Program: "mosquitto", Leaves: Signals, Signal: "HUP"},                                             // net.c, net__load_certificates
		{Program: "kafka", Leaves: Restarts, Trust: map[string]Way{"kafka.crt": Restarts}, Turns: "kafka"}, // its own key store is made at its start
		{Program: "kafka-bootstrap", Leaves: Restarts, Trust: map[string]Way{"kafka.crt": Restarts}},

		// etcd reads its certificates for each connection (client/pkg/transport), and whom it trusts at its start alone.
		{Program: "etcd", Leaves: Reads, Trust: map[string]Way{"etcd.crt": Restarts, "etcd-client.crt": Restarts}, Turns: master},
		// Between snapshots nothing is lost by a restart.
		{Program: "etcd-snapshot", Leaves: Restarts, Trust: map[string]Way{"etcd.crt": Restarts, "agent.crt": Reads}},
		// Those that it verifies clients with it reads again within a minute (k8s.io/apiserver, dynamiccertificates).
		{Program: "kube-apiserver", Leaves: Reads, Turns: master, Trust: map[string]Way{
			"kubernetes-client.crt": Reads, "front-proxy.crt": Reads, "kubelet-serving.crt": Restarts, "service-account.pub": Restarts,
		}},
		// The files that it signs with are rendered at its start, and so is what it tells pods to trust.
		{Program: "kube-controller-manager", Leaves: Reads, Trust: map[string]Way{"kubernetes-server.crt": Restarts, "kubernetes-client.crt": Restarts, "kubelet-serving.crt": Restarts}},
		{Program: "kube-scheduler", Leaves: Reads, Trust: map[string]Way{"kubernetes-server.crt": Restarts, "kubernetes-client.crt": Reads}},
		{Program: "cluster-dns", Leaves: Reads, Trust: api},
		{Program: "calico-controllers", Leaves: Reads, Trust: api},
		{Program: "kubernetes-bootstrap", Leaves: Restarts, Trust: api},
		// They connect to etcd at their start. The address of the API moves when its holder is restarted, so that takes turns.
		{Program: "etcd-members", Leaves: Restarts, Trust: map[string]Way{"etcd.crt": Restarts}},
		{Program: "control-plane-endpoint", Leaves: Restarts, Trust: map[string]Way{"etcd.crt": Restarts, "kubernetes-server.crt": Restarts}, Turns: master},
		{Program: "kube-balancer", Trust: map[string]Way{"kubernetes-server.crt": Signals, "root.crt": Signals}, Signal: "USR2"},
		{Program: "kubernetes-api", Leaves: Reads, Trust: map[string]Way{"kubernetes-server.crt": Reads}}, // it is done when the API answers
		// It has certificates of its own, which its start drops when another authority signs (render).
		{Program: "kubelet", Leaves: Reads, Trust: map[string]Way{"kubernetes-server.crt": Restarts, "kubernetes-client.crt": Restarts, "kubelet-serving.crt": Restarts}},
		{Program: "kube-proxy", Leaves: Reads, Trust: api},
		// The configuration of the CNI plugin names the files.
		{Program: "calico-node", Leaves: Reads, Trust: api},
		{Program: "rbd-provisioner", Leaves: Reads, Trust: api},
		{Program: "cephfs-provisioner", Leaves: Reads, Trust: api},
	}
}

// rowOf is a program's row; one that is not in the table is started again for whatever is new.
func rowOf(program string) Row {
	for _, r := range Programs() {
		if r.Program == program {
			return r
		}
	}
	return Row{Program: program, Leaves: Restarts}
}

// Entries are the names of the bundle's entries that are certificates of the node, and their keys.
func Entries(share pki.Share) map[string]bool {
	out := map[string]bool{}
	for _, l := range share.Leaves {
		if l.Row.Made == service.Operator {
			out[l.Certificate], out[l.Key] = true, true
		}
	}
	return out
}

// Plan says how the programs of a node take what is new: secrets by program, and files of paths.Trust. Programs that read by
// themselves are not in it.
func Plan(share pki.Share, secrets map[string][]string, trust, programs []string) map[string]Way {
	leaves, out := Entries(share), map[string]Way{}
	for _, name := range programs {
		row, way := rowOf(name), Reads
		for _, ref := range secrets[name] {
			if leaves[ref] {
				way = max(way, row.Leaves)
			} else {
				way = Restarts
			}
		}
		for _, file := range trust {
			way = max(way, row.Trust[file])
		}
		if way > Reads {
			out[name] = way
		}
	}
	return out
}

// ProgramsOf are the programs of a node's roles, sorted, each once.
func ProgramsOf(c *facts.Cluster, n *facts.Node) []string {
	out := map[string]bool{}
	for _, name := range services.EveryNode() {
		out[name] = true
	}
	for _, name := range n.Roles {
		role, _ := services.Lookup(name)
		for _, p := range services.RolePrograms(c, role) {
			out[p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// Others are the other nodes that a program takes turns with.
func Others(c *facts.Cluster, n *facts.Node, program string) []string {
	var members []string
	switch turns := rowOf(program).Turns; turns {
	case "":
		return nil
	case "kafka":
		members = append(slices.Clone(c.KafkaControllers()), c.KafkaBrokers()...)
	default:
		members = slices.Clone(c.Members[turns])
	}
	slices.Sort(members)
	return slices.DeleteFunc(slices.Compact(members), func(name string) bool { return name == n.Name })
}

// Ends is when the first of a node's certificates does; zero when it has none.
func Ends(share pki.Share, have map[string]string) (first time.Time) {
	for _, l := range share.Leaves {
		list, err := certificates(have[l.Certificate])
		if l.Row.Made == service.Operator && err == nil && (first.IsZero() || list[0].NotAfter.Before(first)) {
			first = list[0].NotAfter
		}
	}
	return first
}
