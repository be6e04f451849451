package cluster

var badKafka = []badInput{
	{
		"more copies than brokers",
		[]edit{{"services/kafka.yaml", "replicationFactor: 1", "replicationFactor: 3"}},
		[]string{
			`services/kafka.yaml:2:20: error: replicationFactor 3 needs as many brokers, and there are 1; lower it, or give more nodes the role kafka-broker`,
		},
	},
	{
		"more replicas in sync than copies",
		[]edit{{"services/kafka.yaml", "minInsyncReplicas: 1", "minInsyncReplicas: 2"}},
		[]string{
			`services/kafka.yaml:3:20: error: minInsyncReplicas 2 is more than replicationFactor 1, so nothing could be written; lower it`,
		},
	},
	{
		"more replicas in sync than copies by default",
		[]edit{{"services/kafka.yaml", "replicationFactor: 1\nminInsyncReplicas: 1", "minInsyncReplicas: 2"}},
		[]string{
			`services/kafka.yaml:2:20: error: minInsyncReplicas 2 is more than replicationFactor 1, so nothing could be written; lower it`,
		},
	},
	{
		"a negative number of copies",
		[]edit{{"services/kafka.yaml", "replicationFactor: 1", "replicationFactor: -1"}},
		[]string{
			`services/kafka.yaml:2:1: error: replicationFactor and minInsyncReplicas count brokers; write 1 or more, or leave them out`,
		},
	},
	{
		"one copy, acknowledged from memory",
		[]edit{{"services/kafka.yaml", "minInsyncReplicas: 1", "acknowledgeFromMemory: true"}},
		[]string{
			`services/kafka.yaml:3:24: warning: with one copy of a topic each power cut takes records that were acknowledged; leave acknowledgeFromMemory out`,
		},
	},
	{
		"every broker is needed for each write",
		[]edit{
			{"cluster.yaml", "roles: [worker]\n", "roles: [worker, kafka-broker]\n"},
			{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, kafka-broker]"},
			{"services/kafka.yaml", "replicationFactor: 1\nminInsyncReplicas: 1", "minInsyncReplicas: 3"},
		},
		[]string{
			`services/kafka.yaml:2:20: warning: with minInsyncReplicas equal to replicationFactor (3) one broker that is down stops all writes; have one less`,
		},
	},
	{
		"three brokers and one copy",
		[]edit{
			{"cluster.yaml", "roles: [worker]\n", "roles: [worker, kafka-broker]\n"},
			{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, kafka-broker]"},
		},
		[]string{
			`services/kafka.yaml:2:20: warning: with replicationFactor 1 a broker that is down takes its part of every topic with it; write 3, or leave it out`,
		},
	},
	{
		"two controllers apart from the broker",
		[]edit{
			{"cluster.yaml", "roles: [worker]\n", "roles: [worker, kafka-controller]\n"},
			{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, kafka-controller]"},
		},
		[]string{
			`cluster.yaml:15:30: warning: 2 KRaft controllers: their quorum is 2 and lost as soon as 1 fails, as with 1; use 1 or 3`,
		},
	},
	{
		"a controller and no broker",
		[]edit{
			{"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-controller]"},
			{"nodes/kafka-01.yaml", "  - {use: kafka, selector: {byID: nvme-SAMSUNG_MZVL2512_S64KNX0R}}\n", ""},
		},
		[]string{
			`cluster.yaml:15:30: error: there are nodes with the role kafka-controller but no node with kafka-broker; give it to the nodes that shall keep the data`,
		},
	},
	{
		"a broker without an address",
		[]edit{{"cluster.yaml", "    ips: [10.77.0.14]\n", ""}},
		[]string{
			`cluster.yaml:29:5: error: node kafka-01 is part of Kafka and has no ips, so the others and its clients could not find it; add its address`,
		},
	},
	{
		"the controllers by their old name",
		[]edit{{"services/kafka.yaml", "replicationFactor: 1", "controllers: [kafka-01]\nreplicationFactor: 1"}},
		[]string{
			`services/kafka.yaml:2:1: error: unknown key "controllers"; known keys: replicationFactor, minInsyncReplicas, acknowledgeFromMemory, heap, users`,
		},
	},
	{
		"a heap that is too small",
		[]edit{{"services/kafka.yaml", "minInsyncReplicas: 1", "heap: 64"}},
		[]string{
			`services/kafka.yaml:3:7: error: the heap 64 is out of bounds; write 256 to 31744`,
		},
	},
	{
		"the user that there is by itself",
		[]edit{{"services/kafka.yaml", "name: sensor", "name: admin"}},
		[]string{
			`services/kafka.yaml:5:11: error: the user admin always exists, with every right; its password is the secret kafka-password-admin: choose another name`,
		},
	},
	{
		"a user with the name of the nodes",
		[]edit{{"services/kafka.yaml", "name: sensor", "name: spore:kafka-brokers"}},
		[]string{
			`services/kafka.yaml:5:11: error: the user name "spore:kafka-brokers" is not valid; write 1 to 64 letters, digits, -, _, . and @, the first a letter or digit`,
		},
	},
	{
		"a user twice",
		[]edit{{"services/kafka.yaml", "name: historian", "name: sensor"}},
		[]string{
			`services/kafka.yaml:9:11: error: the user "sensor" exists already, at services/kafka.yaml:5; each user has one entry`,
		},
	},
	{
		"two users with one password",
		[]edit{{"services/kafka.yaml", "kafka-password-historian", "kafka-password-sensor"}},
		[]string{
			`services/kafka.yaml:10:15: warning: the users sensor and historian share the bundle entry "kafka-password-sensor", so they have the same password`,
		},
	},
	{
		"the password of admin for a user",
		[]edit{{"services/kafka.yaml", "kafka-password-sensor", "kafka-password-admin"}},
		[]string{
			`services/kafka.yaml:6:15: error: the password of sensor is a bundle entry that something else uses already, "kafka-password-admin"; give it its own entry`,
		},
	},
	{
		"the password of a user of MQTT",
		[]edit{{"services/kafka.yaml", "kafka-password-sensor", "mqtt-password-sensor"}},
		[]string{
			`services/kafka.yaml:6:15: error: the password of sensor is a bundle entry that something else uses already, "mqtt-password-sensor"; give it its own entry`,
		},
	},
	{
		"a literal password",
		[]edit{{"services/kafka.yaml", "password: {secretRef: kafka-password-sensor}", "password: hunter2"}},
		[]string{
			"services/kafka.yaml:6:15: error: password holds a literal secret; it would be readable in every image: write `password: {secretRef: NAME}` and put the secret into the bundle under NAME",
		},
	},
	{
		"a user who may do nothing",
		[]edit{{"services/kafka.yaml", "    acl:\n      - {topic: measurements., prefix: true, operations: [write, describe]}\n", ""}},
		[]string{
			`services/kafka.yaml:5:5: warning: the user sensor may connect but neither read nor write; add acl: [{topic: …, operations: [read]}]`,
		},
	},
	{
		"an entry about nothing",
		[]edit{{"services/kafka.yaml", "{group: historian, operations: [read]}", "{operations: [read]}"}},
		[]string{
			`services/kafka.yaml:13:9: error: the entry has 0 resources; write exactly one of topic, group, transactionalID and cluster: true, and further entries for others`,
		},
	},
	{
		"an entry about two things",
		[]edit{{"services/kafka.yaml", "{group: historian, operations: [read]}", "{group: historian, topic: a, operations: [read]}"}},
		[]string{
			`services/kafka.yaml:13:9: error: the entry has 2 resources; write exactly one of topic, group, transactionalID and cluster: true, and further entries for others`,
		},
	},
	{
		"an operation that the resource does not have",
		[]edit{{"services/kafka.yaml", "{group: historian, operations: [read]}", "{group: historian, operations: [write]}"}},
		[]string{
			`services/kafka.yaml:13:41: error: the operation on a group "write" is unknown; write all, read, describe, delete, describe-configs or alter-configs`,
		},
	},
	{
		"an operation twice",
		[]edit{{"services/kafka.yaml", "operations: [write, describe]", "operations: [write, write]"}},
		[]string{
			`services/kafka.yaml:8:66: error: the operation "write" exists already, at services/kafka.yaml:8; remove one`,
		},
	},
	{
		"no operation",
		[]edit{{"services/kafka.yaml", "{group: historian, operations: [read]}", "{group: historian, operations: []}"}},
		[]string{
			`services/kafka.yaml:13:40: error: the entry allows nothing; write operations such as [read], or remove it`,
		},
	},
	{
		"a resource twice",
		[]edit{{"services/kafka.yaml", "{group: historian, operations: [read]}", "{topic: measurements., prefix: true, operations: [delete]}"}},
		[]string{
			`services/kafka.yaml:13:9: error: the entry for "topic measurements.*" exists already, at services/kafka.yaml:12; put all operations into one entry`,
		},
	},
	{
		"a topic with a wildcard",
		[]edit{{"services/kafka.yaml", "topic: measurements., prefix: true, operations: [write", "topic: measurements.*, operations: [write"}},
		[]string{
			`services/kafka.yaml:8:17: error: the topic "measurements.*" is not valid; write up to 249 letters, digits, -, _ and ., without wildcards: prefix: true means every name that begins so`,
		},
	},
	{
		"a group with a wildcard",
		[]edit{{"services/kafka.yaml", "group: historian", "group: historian*"}},
		[]string{
			`services/kafka.yaml:13:17: warning: in Kafka "historian*" is a name with a * in it; for every name that begins so, write the beginning and prefix: true`,
		},
	},
	{
		"a prefix of everything",
		[]edit{{"services/kafka.yaml", "group: historian", "group: \"*\", prefix: true"}},
		[]string{
			`services/kafka.yaml:13:30: error: prefix needs a name to begin with; remove it`,
		},
	},
	{
		"two nodes with one node.id",
		[]edit{
			{"cluster.yaml", "name: worker-01", "name: kafka-5684"},
			{"cluster.yaml", "roles: [worker]\n", "roles: [kafka-controller]\n"},
			{"cluster.yaml", "name: kafka-01", "name: kafka-53171"},
			{"nodes/kafka-01.yaml", "", remove},
		},
		[]string{
			`cluster.yaml:29:11: error: the names kafka-5684 and kafka-53171 have the same hash and so the same node.id 1304214316 in Kafka; choose another name for one of them`,
		},
	},
	{
		"a rack that is not a name",
		[]edit{{"nodes/kafka-01.yaml", "disks:", "rack: hall 1\ndisks:"}},
		[]string{
			`nodes/kafka-01.yaml:3:7: error: the rack "hall 1" is not valid; write 1 to 63 letters, digits, -, _ and ., the first and last a letter or digit`,
		},
	},
	{
		"a rack of a node without Kafka",
		[]edit{{"nodes/worker-02.yaml", "disks:", "rack: hall-1\ndisks:"}},
		[]string{
			`nodes/worker-02.yaml:3:7: warning: the rack is for Kafka, and node worker-02 has no role kafka-broker; remove it`,
		},
	},
}
