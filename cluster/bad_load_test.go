package cluster

// badLoad holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badLoad = []badInput{
	{
		"a misspelt key",
		[]edit{{"cluster.yaml", "domain: plant", "doman: plant"}},
		[]string{
			`cluster.yaml:6:1: error: unknown key "doman"; did you mean "domain"?`,
		},
	},
	{
		"a key of another level",
		[]edit{{"cluster.yaml", "name: plant\n", "name: plant\ngateway: 10.77.0.2\n"}},
		[]string{
			`cluster.yaml:5:1: error: unknown key "gateway"; known keys: name, id, domain, network, trialMinutes, trialSettle, updates, enroll, withdrawn, logRights, services, state, nodes`,
		},
	},
	{
		"a misspelt key deep down",
		[]edit{{"nodes/storage-01.yaml", "members:", "member:"}},
		[]string{
			`nodes/storage-01.yaml:6:7: error: unknown key "member"; did you mean "members"?`,
		},
	},
	{
		"a key twice",
		[]edit{{"cluster.yaml", "domain: plant.example\n", "domain: plant.example\ndomain: other.example\n"}},
		[]string{
			`cluster.yaml:7:1: error: the key "domain" is here twice, first in line 6; keep one of them`,
		},
	},
	{
		"a text where a list belongs",
		[]edit{{"cluster.yaml", "[10.77.0.0/24]", "10.77.0.0/24"}},
		[]string{
			`cluster.yaml:8:16: error: nodeSubnets is a text where a list belongs; write [10.77.0.0/24]`,
		},
	},
	{
		"a list where a text belongs",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: [plant.example]"}},
		[]string{
			`cluster.yaml:6:9: error: domain is a list; write a text`,
		},
	},
	{
		"a number where a text belongs",
		[]edit{{"cluster.yaml", "serial: PLANT-KAFKA-01", "serial: 0123456"}},
		[]string{
			`cluster.yaml:30:13: error: serial is a number where a text belongs; put it into quotes: "0123456"`,
		},
	},
	{
		"a text where a number belongs",
		[]edit{{"nodes/storage-01.yaml", "id: 20", "id: twenty"}},
		[]string{
			`nodes/storage-01.yaml:11:16: error: id is not a whole number of at most nine digits; write one such as 1500`,
		},
	},
	{
		"a number that is too large",
		[]edit{{"nodes/storage-01.yaml", "id: 20", "id: 99999999999"}},
		[]string{
			`nodes/storage-01.yaml:11:16: error: id is not a whole number of at most nine digits; write one such as 1500`,
		},
	},
	{
		"yes where true belongs",
		[]edit{{"image.yaml", "microcode: false", "microcode: yes"}},
		[]string{
			`image.yaml:15:12: error: microcode is a text; write true or false`,
		},
	},
	{
		"a key without a value",
		[]edit{{"cluster.yaml", "  gateways: [10.77.0.2]", "  gateways:"}},
		[]string{
			`cluster.yaml:9:12: error: gateways has no value; write [] for an empty list, or remove the key`,
		},
	},
	{
		"a missing key",
		[]edit{{"nodes/worker-02.yaml", "node: worker-02\n", ""}},
		[]string{
			`nodes/worker-02.yaml:2:1: error: the key "node" is missing; add it and write a text`,
		},
	},
	{
		"missing keys of a node",
		[]edit{{"cluster.yaml", "    roles: [mqtt-broker, dns-server]\n", ""}},
		[]string{
			`cluster.yaml:15:37: warning: no node has a role of the service mqtt; give one the role mqtt-broker, or remove the service`,
			`cluster.yaml:15:43: warning: no node has a role of the service dns; give one the role dns-server, or remove the service`,
			`cluster.yaml:38:5: error: the key "roles" is missing; add it and write [] for an empty list`,
			`cluster.yaml:40:11: error: the address 10.77.0.16 is in network.nameservers, but node edge-01 has no role dns-server: nothing would answer; add the role or correct the address`,
		},
	},
	{
		"a number as the value of a kernel parameter",
		[]edit{{"nodes/kafka-01.yaml", "\"262144\"", "262144"}},
		[]string{
			`nodes/kafka-01.yaml:7:21: error: vm.max_map_count is a number where a text belongs; put it into quotes: "262144"`,
		},
	},
	{
		"a list where a mapping belongs",
		[]edit{{"nodes/storage-01.yaml", "    vlan: {id: 20, parent: bond0}", "    vlan: [20, bond0]"}},
		[]string{
			`nodes/storage-01.yaml:11:11: error: vlan is a list where a mapping belongs; write its keys below it, indented: id, parent`,
		},
	},
	{
		"a mapping that is a text",
		[]edit{
			{"cluster.yaml", "network:\n  nodeSubnets: [10.77.0.0/24]\n", "network: 10.77.0.0/24\n"},
			{"cluster.yaml", "  gateways: [10.77.0.2]\n  nameservers: [10.77.0.16]\n  ntpServers: [10.77.0.2]\n  podCIDRs: [10.244.0.0/16]\n  serviceCIDRs: [10.96.0.0/16]\n  controlPlaneEndpoint: 10.77.0.100\n", ""},
			{"cluster.yaml", "services: [kubernetes, ceph, kafka, mqtt, dns]", "services: [ceph, kafka, mqtt, dns]"},
			{"cluster.yaml", "roles: [master]", "roles: []"},
			{"cluster.yaml", "roles: [worker]", "roles: []"},
			{"cluster.yaml", "roles: [worker, ceph-osd]", "roles: [ceph-osd]"},
			{"nodes/worker-02.yaml", "labels:\n  plant.example/hall: north\ntaints: [\"plant.example/storage=yes:PreferNoSchedule\"]\n", ""},
			{"services/kubernetes.yaml", "", remove},
		},
		[]string{
			`cluster.yaml:7:10: error: network is a text where a mapping belongs; write its keys below it, indented: nodeSubnets, gateways, nameservers, ntpServers, podCIDRs, serviceCIDRs, controlPlaneEndpoint`,
		},
	},
	{
		"an alias",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: &d plant.example"}},
		[]string{
			`cluster.yaml:6:9: error: domain uses an anchor or alias; write the value out`,
		},
	},
	{
		"an alias bomb",
		[]edit{{"cluster.yaml", "services: [kubernetes, ceph, kafka, mqtt, dns]", "services: &a [mqtt, dns]\nbomb: [*a, *a, *a, *a]\n"}},
		[]string{
			`cluster.yaml:15:11: error: services uses an anchor or alias; write the value out`,
			`cluster.yaml:16:1: error: unknown key "bomb"; known keys: name, id, domain, network, trialMinutes, trialSettle, updates, enroll, withdrawn, logRights, services, state, nodes`,
		},
	},
	{
		"a merge key",
		[]edit{{"nodes/worker-02.yaml", "labels:\n", "labels:\n  <<: {a: b}\n"}},
		[]string{
			`nodes/worker-02.yaml:6:3: error: this key is not a plain text; write the keys out, without anchors and merges`,
		},
	},
	{
		"a file that is a list",
		[]edit{{"services/ceph.yaml", "", "- poolSize: 2\n"}},
		[]string{
			"services/ceph.yaml:1:1: error: the file is not a mapping; write keys with values, as in `spore init`",
		},
	},
	{
		"two documents in a file",
		[]edit{{"services/ceph.yaml", "failureDomain: host\n", "failureDomain: host\n---\npoolSize: 3\n"}},
		[]string{
			`services/ceph.yaml:4:1: error: a second YAML document begins here; a file holds one: remove the --- line`,
		},
	},
	{
		"an empty file of a service that needs settings",
		[]edit{{"services/mqtt.yaml", "", "# nothing yet\n"}},
		[]string{
			`services/mqtt.yaml:1:1: error: the file is empty; it needs at least the key "tls"`,
			`services/mqtt.yaml:1:1: error: the file is empty; it needs at least the key "users"`,
		},
	},
	{
		"a tab as indentation",
		[]edit{{"services/ceph.yaml", "failureDomain", "\tfailureDomain"}},
		[]string{
			`services/ceph.yaml:3:2: error: not valid YAML: found a tab character that violates indentation; indent with spaces`,
		},
	},
	{
		"wrong indentation",
		[]edit{{"cluster.yaml", "    ips: [10.77.0.14]", "   ips: [10.77.0.14]"}},
		[]string{
			`cluster.yaml:31:4: error: not valid YAML: did not find expected '-' indicator; indent it like its neighbours`,
		},
	},
	{
		"a bracket that is left open",
		[]edit{
			{"nodes/worker-02.yaml", "taints: [\"plant", "taints: [\"plant.example/a:NoExecute\", \"plant"},
			{"nodes/worker-02.yaml", "NoSchedule\"]", "NoSchedule\""},
		},
		[]string{
			`nodes/worker-02.yaml:7:1: error: not valid YAML: did not find expected ',' or ']'; close the bracket or quote that is open here`,
		},
	},
	{
		"a colon in a text without quotes",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host: two"}},
		[]string{
			`services/ceph.yaml:3:1: error: not valid YAML: mapping values are not allowed in this context; indent it like the keys beside it, or put a text with a colon into quotes`,
		},
	},
	{
		"a text that begins with a star",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: *"}},
		[]string{
			`services/ceph.yaml:3:1: error: not valid YAML: did not find expected alphabetic or numeric character; put the text into quotes`,
		},
	},
	{
		"a character that YAML reserves",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: @host"}},
		[]string{
			`services/ceph.yaml:3:1: error: not valid YAML: found character that cannot start any token; put the text into quotes`,
		},
	},
	{
		"bytes that are not UTF-8",
		[]edit{{"services/ceph.yaml", "host", "h\xf6st"}},
		[]string{
			`services/ceph.yaml:3:17: error: the byte 0xf6 is not UTF-8; save the file as UTF-8`,
		},
	},
	{
		"a control character",
		[]edit{{"services/ceph.yaml", "host", "ho\x07st"}},
		[]string{
			`services/ceph.yaml:3:18: error: the control character 0x07 does not belong in YAML; remove it`,
		},
	},
	{
		"no cluster.yaml",
		[]edit{{"cluster.yaml", "", remove}},
		[]string{
			"cluster.yaml:1:1: error: cannot be read: file does not exist; name the folder that holds it, or make one with `spore init`",
		},
	},
	{
		"a file that nothing reads",
		[]edit{{"clsuter.yaml", "", "a: b\n"}},
		[]string{
			`clsuter.yaml:1:1: error: nothing reads this file; the folder holds cluster.yaml, image.yaml, accounts.yaml, overlay.yaml, services/, nodes/, roles/, programs/, overlay/, units/ and manifests/; did you mean "cluster.yaml"?`,
		},
	},
	{
		"a directory that nothing reads",
		[]edit{{"service/x.yaml", "", "a: b\n"}},
		[]string{
			`service:1:1: error: nothing reads this directory; did you mean "services"?`,
		},
	},
	{
		"a file with the wrong ending",
		[]edit{{"nodes/worker-01.yml", "", "node: worker-01\n"}},
		[]string{
			`nodes/worker-01.yml:1:1: error: files end in .yaml; rename it to worker-01.yaml`,
		},
	},
	{
		"settings of a service that does not exist",
		[]edit{{"services/mqqt.yaml", "", "port: 1\n"}},
		[]string{
			`services/mqqt.yaml:1:1: error: there is no service "mqqt"; did you mean "mqtt"?`,
		},
	},
	{
		"mistakes in several files are found in one run",
		[]edit{
			{"cluster.yaml", "domain: plant", "doman: plant"},
			{"services/mqtt.yaml", "port: 8883", "port: 0x"},
			{"services/dns.yaml", "ttl: 60", "tll: 60"},
			{"nodes/storage-01.yaml", "id: 20", "id: 5000"},
		},
		[]string{
			`cluster.yaml:6:1: error: unknown key "doman"; did you mean "domain"?`,
			`nodes/storage-01.yaml:11:16: error: the VLAN id 5000 is out of bounds; write 1 to 4094`,
			`services/dns.yaml:10:1: error: unknown key "tll"; did you mean "ttl"?`,
			`services/mqtt.yaml:7:7: error: port is not a whole number of at most nine digits; write one such as 1500`,
		},
	},
}
