package cluster

import "strings"

// badNodes holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badNodes = []badInput{
	{
		"a full name that is too long",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: " + strings.Repeat("plant.", 40) + "example"}},
		[]string{
			`cluster.yaml:17:11: error: the full name of the node has 257 characters and DNS allows 253; shorten the host name or the domain`,
			`cluster.yaml:21:11: error: the full name of the node has 257 characters and DNS allows 253; shorten the host name or the domain`,
			`cluster.yaml:25:11: error: the full name of the node has 257 characters and DNS allows 253; shorten the host name or the domain`,
			`cluster.yaml:29:11: error: the full name of the node has 256 characters and DNS allows 253; shorten the host name or the domain`,
			`cluster.yaml:33:11: error: the full name of the node has 258 characters and DNS allows 253; shorten the host name or the domain`,
			`cluster.yaml:38:11: error: the full name of the node has 255 characters and DNS allows 253; shorten the host name or the domain`,
		},
	},
	{
		"a node that is called localhost",
		[]edit{{"cluster.yaml", "name: worker-01\n", "name: localhost\n    hostname: worker-01\n"}},
		[]string{
			`cluster.yaml:22:15: error: the name "localhost" is a name that every machine has; choose another`,
		},
	},
	{
		"no nodes",
		[]edit{{"cluster.yaml", "nodes:\n  - name: master-01\n    macs: [\"52:54:00:77:00:11\"]\n    ips: [10.77.0.11]\n    roles: [master]\n  - name: worker-01\n    macs: [\"52:54:00:77:00:12\"]\n    ips: [10.77.0.12]\n    roles: [worker]\n  - name: worker-02\n    macs: [\"52:54:00:77:00:13\"]\n    ips: [10.77.0.13]\n    roles: [worker, ceph-osd]\n  - name: kafka-01\n    serial: PLANT-KAFKA-01\n    ips: [10.77.0.14]\n    roles: [kafka-broker]\n  - name: storage-01\n    uuid: 4c4c4544-0043-4a10-8052-b4c04f4d3333\n    macs: [\"52:54:00:77:00:15\", \"52:54:00:77:01:15\"]\n    ips: [10.77.0.15]\n    roles: [ceph-mon, ceph-osd]\n  - name: edge-01\n    macs: [\"52:54:00:77:00:16\"]\n    ips: [10.77.0.16]\n    roles: [mqtt-broker, dns-server]\n", "nodes: []\n"}},
		[]string{
			`cluster.yaml:15:12: error: kubernetes is enabled, but no node has the role control-plane (or master); give it to one node, or to three`,
			`cluster.yaml:15:24: warning: no node has a role of the service ceph; give one the role ceph-mon or ceph-osd, or remove the service`,
			`cluster.yaml:15:30: warning: no node has a role of the service kafka; give one the role kafka-broker or kafka-controller, or remove the service`,
			`cluster.yaml:15:37: warning: no node has a role of the service mqtt; give one the role mqtt-broker, or remove the service`,
			`cluster.yaml:15:43: warning: no node has a role of the service dns; give one the role dns-server, or remove the service`,
			`cluster.yaml:16:8: error: there are no nodes; list at least one with its name and roles`,
			`services/dns.yaml:15:12: error: the cname "edge-01" is not a name of the domain; write the host name of a node, a record's name, or a foreign name with a dot at its end`,
		},
	},
	{
		"a node name that is not a DNS label",
		[]edit{{"cluster.yaml", "name: worker-01", "name: worker_01"}},
		[]string{
			`cluster.yaml:21:11: error: the node's name "worker_01" is not a DNS label; write 1 to 63 lower-case letters, digits and -, with a letter or digit at both ends`,
		},
	},
	{
		"a node name twice",
		[]edit{{"cluster.yaml", "name: worker-01", "name: master-01"}},
		[]string{
			`cluster.yaml:21:11: error: the node's name "master-01" exists already, at cluster.yaml:17; each node has a name of its own`,
		},
	},
	{
		"a host name twice",
		[]edit{{"cluster.yaml", "  - name: worker-01\n", "  - name: worker-01\n    hostname: master-01\n"}},
		[]string{
			`cluster.yaml:22:15: error: the host name "master-01" exists already, at cluster.yaml:17; two nodes that share it could not be told apart`,
		},
	},
	{
		"a host name that is another node's name",
		[]edit{
			{"cluster.yaml", "  - name: worker-01\n", "  - name: worker-01\n    hostname: edge-01\n"},
			{"cluster.yaml", "  - name: edge-01\n", "  - name: edge-01\n    hostname: edge\n"},
			{"services/dns.yaml", "cname: edge-01", "cname: edge"},
		},
		[]string{
			`cluster.yaml:22:15: error: the host name "edge-01" is the name of another node (cluster.yaml:39); people and DHCP would confuse them: choose another`,
		},
	},
	{
		"a host name with a domain",
		[]edit{{"cluster.yaml", "  - name: worker-01\n", "  - name: worker-01\n    hostname: worker-01.plant.example\n"}},
		[]string{
			`cluster.yaml:22:15: error: the host name "worker-01.plant.example" is not a DNS label; write 1 to 63 lower-case letters, digits and -, with a letter or digit at both ends`,
		},
	},
	{
		"a host name that is localhost",
		[]edit{{"cluster.yaml", "  - name: worker-01\n", "  - name: worker-01\n    hostname: localhost\n"}},
		[]string{
			`cluster.yaml:22:15: error: the name "localhost" is a name that every machine has; choose another`,
		},
	},
	{
		"a MAC of two nodes",
		[]edit{{"cluster.yaml", "52:54:00:77:00:12", "52-54-00-77-00-11"}},
		[]string{
			`cluster.yaml:22:12: error: the MAC address "52:54:00:77:00:11" exists already, at cluster.yaml:18; two nodes that share it could not be told apart`,
		},
	},
	{
		"a MAC that is none",
		[]edit{{"cluster.yaml", "52:54:00:77:00:12", "52:54:00:77:00"}},
		[]string{
			`cluster.yaml:22:12: error: the MAC address "52:54:00:77:00" is not a MAC address; write six pairs of hexadecimal digits such as 52:54:00:12:34:56`,
		},
	},
	{
		"a MAC of all zeros",
		[]edit{{"cluster.yaml", "52:54:00:77:00:12", "00:00:00:00:00:00"}},
		[]string{
			`cluster.yaml:22:12: error: the MAC address "00:00:00:00:00:00" is the all-zero address, which cannot belong to a network card`,
		},
	},
	{
		"a multicast MAC",
		[]edit{{"cluster.yaml", "52:54:00:77:00:12", "01:00:5e:00:00:01"}},
		[]string{
			`cluster.yaml:22:12: error: the MAC address "01:00:5e:00:00:01" is a multicast address (the first byte is odd), which cannot belong to a network card`,
		},
	},
	{
		"the broadcast MAC",
		[]edit{{"cluster.yaml", "52:54:00:77:00:12", "ff:ff:ff:ff:ff:ff"}},
		[]string{
			`cluster.yaml:22:12: error: the MAC address "ff:ff:ff:ff:ff:ff" is the broadcast address, which cannot belong to a network card`,
		},
	},
	{
		"an address of two nodes",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [10.77.0.11]"}},
		[]string{
			`cluster.yaml:23:11: error: the address 10.77.0.11 belongs to node master-01 already (cluster.yaml:17); an address belongs to one node`,
		},
	},
	{
		"an address outside the subnet",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [10.87.0.12]"}},
		[]string{
			`cluster.yaml:23:11: error: the address 10.87.0.12 lies outside the node subnets [10.77.0.0/24]; choose an address inside, or correct network.nodeSubnets`,
		},
	},
	{
		"an address that is the gateway",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [10.77.0.2]"}},
		[]string{
			`cluster.yaml:23:11: error: the address 10.77.0.2 is the gateway; give the node its own address`,
		},
	},
	{
		"an address that is the VIP",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [10.77.0.100]"}},
		[]string{
			`cluster.yaml:23:11: error: the address 10.77.0.100 is the control-plane endpoint (VIP); give the node its own address`,
		},
	},
	{
		"an address that is the network",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [10.77.0.0]"}},
		[]string{
			`cluster.yaml:23:11: error: the address 10.77.0.0 is the network or broadcast address of 10.77.0.0/24; choose one between`,
		},
	},
	{
		"an address with a prefix length",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [10.77.0.12/24]"}},
		[]string{
			`cluster.yaml:23:11: error: the address "10.77.0.12/24" is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length`,
		},
	},
	{
		"an address in a mapped form",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [\"::ffff:10.77.0.12\"]"}},
		[]string{
			`cluster.yaml:23:11: error: the address "::ffff:10.77.0.12" is not in plain form; write 10.77.0.12`,
		},
	},
	{
		"a link-local address",
		[]edit{{"cluster.yaml", "ips: [10.77.0.12]", "ips: [\"fe80::1\"]"}},
		[]string{
			`cluster.yaml:23:11: error: the address fe80::1 is not the address of one machine in a network; write one of its subnet`,
		},
	},
	{
		"a serial that vendors leave empty",
		[]edit{{"cluster.yaml", "serial: PLANT-KAFKA-01", "serial: To be filled by O.E.M."}},
		[]string{
			`cluster.yaml:30:13: error: the serial number "To be filled by O.E.M." is a placeholder that vendors put into many machines; it identifies no machine`,
		},
	},
	{
		"a serial of two nodes",
		[]edit{{"cluster.yaml", "  - name: worker-01\n", "  - name: worker-01\n    serial: plant-kafka-01\n"}},
		[]string{
			`cluster.yaml:31:13: error: the serial number "plant-kafka-01" exists already, at cluster.yaml:22; two nodes that share it could not be told apart`,
		},
	},
	{
		"a UUID that vendors repeat",
		[]edit{{"cluster.yaml", "uuid: 4c4c4544-0043-4a10-8052-b4c04f4d3333", "uuid: 03000200-0400-0500-0006-000700080009"}},
		[]string{
			`cluster.yaml:34:11: error: the UUID "03000200-0400-0500-0006-000700080009" is a placeholder that vendors put into many machines; it identifies no machine`,
		},
	},
	{
		"a UUID that is none",
		[]edit{{"cluster.yaml", "uuid: 4c4c4544-0043-4a10-8052-b4c04f4d3333", "uuid: 4c4c4544"}},
		[]string{
			`cluster.yaml:34:11: error: the UUID "4c4c4544" is not a UUID; write it as 8-4-4-4-12 hexadecimal digits, as in /sys/class/dmi/id/product_uuid`,
		},
	},
	{
		"a UUID of two nodes",
		[]edit{{"cluster.yaml", "  - name: worker-01\n", "  - name: worker-01\n    uuid: 4C4C4544-0043-4A10-8052-B4C04F4D3333\n"}},
		[]string{
			`cluster.yaml:35:11: error: the UUID "4c4c4544-0043-4a10-8052-b4c04f4d3333" exists already, at cluster.yaml:22; two nodes that share it could not be told apart`,
		},
	},
	{
		"a node that only DHCP can tell although its card is known",
		[]edit{
			{"cluster.yaml", "  - name: worker-02\n    macs: [\"52:54:00:77:00:13\"]\n", "  - name: worker-02\n"},
			{"nodes/worker-02.yaml", "disks:", "interfaces:\n  - mac: \"52:54:00:77:00:13\"\n    addresses: [10.77.0.13/24]\ndisks:"},
		},
		[]string{
			`nodes/worker-02.yaml:4:10: warning: node worker-02 is recognised only by the address or host name that DHCP gives it, although its card is known; add macs: ["52:54:00:77:00:13"] to it in cluster.yaml, and it needs no DHCP`,
		},
	},
}
