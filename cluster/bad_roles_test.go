package cluster

import (
	"spore/cluster/check"
	"spore/services"
)

// badRoles holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badRoles = []badInput{
	{
		"a misspelt role",
		[]edit{
			{"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-brocker]"},
			{"nodes/kafka-01.yaml", "  - {use: kafka, selector: {byID: nvme-SAMSUNG_MZVL2512_S64KNX0R}}\n", ""},
		},
		[]string{
			`cluster.yaml:15:30: warning: no node has a role of the service kafka; give one the role kafka-broker or kafka-controller, or remove the service`,
			`cluster.yaml:32:13: error: the role "kafka-brocker" is unknown; did you mean "kafka-broker"?`,
		},
	},
	{
		"a role that nobody knows",
		[]edit{{"cluster.yaml", "roles: [worker]", "roles: [mainframe]"}},
		[]string{
			`cluster.yaml:24:13: error: the role "mainframe" is unknown; write ` + check.OrWords(roleNames(services.Ours())),
		},
	},
	{
		"a role twice under two names",
		[]edit{{"cluster.yaml", "roles: [master]", "roles: [master, control-plane]"}},
		[]string{
			`cluster.yaml:20:21: error: the role "control-plane" appears twice; remove one`,
		},
	},
	{
		"a role without its service",
		[]edit{{"cluster.yaml", "services: [kubernetes, ceph, kafka, mqtt, dns]", "services: [kubernetes, ceph, kafka, dns]"}},
		[]string{
			`cluster.yaml:41:13: error: the role "mqtt-broker" needs the service mqtt; add it to services, or remove the role`,
			`services/mqtt.yaml:7:1: warning: the service "mqtt" is not in services of cluster.yaml, so this file does nothing; add it there or remove the file`,
		},
	},
	{
		"a service without a role",
		[]edit{{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [dns-server]"}},
		[]string{
			`cluster.yaml:15:37: warning: no node has a role of the service mqtt; give one the role mqtt-broker, or remove the service`,
		},
	},
	{
		"a misspelt service",
		[]edit{{"cluster.yaml", "kafka, mqtt, dns]", "kafka, mqt, dns]"}},
		[]string{
			`cluster.yaml:15:37: error: the service "mqt" is unknown; did you mean "mqtt"?`,
			`cluster.yaml:41:13: error: the role "mqtt-broker" needs the service mqtt; add it to services, or remove the role`,
			`services/mqtt.yaml:7:1: warning: the service "mqtt" is not in services of cluster.yaml, so this file does nothing; add it there or remove the file`,
		},
	},
	{
		"a service twice",
		[]edit{{"cluster.yaml", "mqtt, dns]", "mqtt, dns, dns]"}},
		[]string{
			`cluster.yaml:15:48: error: the service "dns" exists already, at cluster.yaml:15; remove one`,
		},
	},
	{
		"a service without settings",
		[]edit{{"services/dns.yaml", "", remove}},
		[]string{
			`cluster.yaml:15:43: error: the service "dns" has no settings; write services/dns.yaml (an empty file takes the defaults, if there are any)`,
		},
	},
	{
		"no control plane",
		[]edit{{"cluster.yaml", "roles: [master]", "roles: [worker]"}},
		[]string{
			`cluster.yaml:15:12: error: kubernetes is enabled, but no node has the role control-plane (or master); give it to one node, or to three`,
		},
	},
	{
		"two control planes",
		[]edit{{"cluster.yaml", "roles: [worker]\n", "roles: [worker, master]\n"}},
		[]string{
			`cluster.yaml:15:12: warning: 2 control planes: etcd's quorum is 2 and lost as soon as 1 fails, as with 1; use 1 or 3`,
		},
	},
	{
		"two control planes without a VIP",
		[]edit{
			{"cluster.yaml", "roles: [worker]\n", "roles: [worker, master]\n"},
			{"cluster.yaml", "  controlPlaneEndpoint: 10.77.0.100\n", ""},
		},
		[]string{
			`cluster.yaml:14:12: warning: 2 control planes: etcd's quorum is 2 and lost as soon as 1 fails, as with 1; use 1 or 3`,
			`cluster.yaml:14:12: warning: there are 2 control planes and no network.controlPlaneEndpoint: clients of the API from outside depend on one of them; choose a free address of the node subnet`,
		},
	},
	{
		"Kubernetes without networks",
		[]edit{{"cluster.yaml", "  podCIDRs: [10.244.0.0/16]\n  serviceCIDRs: [10.96.0.0/16]\n", ""}},
		[]string{
			`cluster.yaml:13:12: error: kubernetes needs network.podCIDRs; write a free network such as [10.244.0.0/16]`,
			`cluster.yaml:13:12: error: kubernetes needs network.serviceCIDRs; write a free network such as [10.96.0.0/16]`,
		},
	},
	{
		"two monitors",
		[]edit{{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, ceph-mon]"}},
		[]string{
			`cluster.yaml:15:24: warning: 2 Ceph monitors: their quorum is 2 and lost as soon as 1 fails, as with 1; use 1 or 3`,
		},
	},
	{
		"OSDs without a monitor",
		[]edit{{"cluster.yaml", "roles: [ceph-mon, ceph-osd]", "roles: [ceph-osd]"}},
		[]string{
			`cluster.yaml:15:24: error: there are nodes with the role ceph-osd but no node with ceph-mon; give it to one node, or to three`,
		},
	},
	{
		"four controllers",
		[]edit{
			{"cluster.yaml", "roles: [master]", "roles: [master, kafka-broker]"},
			{"cluster.yaml", "roles: [worker]\n", "roles: [worker, kafka-broker]\n"},
			{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, kafka-broker]"},
		},
		[]string{
			`cluster.yaml:15:30: warning: 4 KRaft controllers: their quorum is 3 and lost as soon as 2 fail, as with 3; use 3 or 5`,
			`services/kafka.yaml:2:20: warning: with replicationFactor 1 a broker that is down takes its part of every topic with it; write 3, or leave it out`,
		},
	},
	{
		"an OSD role without a disk",
		[]edit{{"nodes/worker-02.yaml", "disks:\n  - {use: osd, selector: {serial: OSD-WORKER-02}}\n", ""}},
		[]string{
			`cluster.yaml:28:12: error: node worker-02 has the role ceph-osd but no disk for it; write nodes/worker-02.yaml with disks: [{use: osd, selector: {serial: …}}]`,
		},
	},
	{
		"an OSD role without a node file",
		[]edit{{"nodes/worker-02.yaml", "", remove}},
		[]string{
			`cluster.yaml:28:12: error: node worker-02 has the role ceph-osd but no disk for it; write nodes/worker-02.yaml with disks: [{use: osd, selector: {serial: …}}]`,
		},
	},
	{
		"a node file of an unknown node",
		[]edit{{"nodes/worker-02.yaml", "node: worker-02", "node: worker-20"}},
		[]string{
			`cluster.yaml:28:12: error: node worker-02 has the role ceph-osd but no disk for it; write nodes/worker-02.yaml with disks: [{use: osd, selector: {serial: …}}]`,
			`nodes/worker-02.yaml:2:7: error: cluster.yaml has no node "worker-20"; did you mean "worker-02"?`,
		},
	},
	{
		"two files for a node",
		[]edit{{"nodes/extra.yaml", "", "node: kafka-01\n"}},
		[]string{
			`nodes/extra.yaml:1:7: error: node kafka-01 has the file nodes/kafka-01.yaml already; put everything about a node into one file`,
		},
	},
	{
		"a file under another node's name",
		[]edit{{"nodes/worker.yaml", "", "node: worker-01\n"}},
		[]string{
			`nodes/worker.yaml:1:7: error: this file is about node worker-01; rename it to nodes/worker-01.yaml, where the node looks for it`,
		},
	},
}
