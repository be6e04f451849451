package dashboard

import (
	"maps"
	"slices"

	"spore/wire/machine"
)

// Remedies are the commands for a condition of a node, for the test that knows all commands.
var Remedies = func(dir, node string) []string {
	var out []string
	for condition := range remedies {
		out = append(out, remedy(dir, condition, node)...)
	}
	return out
}

// Advice is what to do of all that can be wrong with services.
var Advice = func(dir, node string) []string {
	h := help{dir, map[string]bool{node: true}}
	quorum := func(service string) *members {
		return &members{Service: service, Level: Critical, Votes: 3, Members: []member{{Name: node, Level: Critical}}}
	}
	var out []string
	for _, a := range []adviser{
		&pods{Nodes: []kubeNode{{Name: node, Level: Critical}}, Pods: make([]machine.KubernetesPod, 1), Behind: make([]machine.KubernetesWorkload, 1),
			Volumes: make([]machine.KubernetesVolume, 1)},
		&streams{QuorumTrouble: "x", TopicsTrouble: "x", LagTrouble: "x", LagSaid: []string{"x"}, Controllers: quorum(ofControllers),
			Brokers: []named{{Name: node, Level: Critical}}, Offline: 1, Behind: 2, Topics: make([]topic, 1)},
		&storage{Level: Critical, Missing: []string{"x"}, Hosts: []host{{Name: node, OSDs: []osd{{Level: Critical}}}}, Pools: []pool{{Level: Critical}}},
		&storage{Checks: []named{{Level: Critical}}, Hosts: []host{{Name: "none", OSDs: []osd{{Level: Critical, State: "down, in"}}}, {Name: node, OSDs: []osd{{Level: Critical, State: "down, in"}}}}},
		quorums{quorum(ofEtcd), quorum(ofControllers), quorum(ofMonitors)},
		&messaging{MQTT: []mqttNode{{Name: node, Level: Critical}}, DNS: []dnsNode{{Name: node, Level: Critical}}},
	} {
		for _, t := range advised(a, h) {
			out = append(out, t.Do...)
		}
	}
	return out
}

// Conditions are those with commands of their own.
var Conditions = func() []string { return slices.Collect(maps.Keys(remedies)) }
