package cluster

// badServices holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badServices = []badInput{
	{
		"a port out of bounds",
		[]edit{{"services/mqtt.yaml", "port: 8883", "port: 88830"}},
		[]string{
			`services/mqtt.yaml:7:7: error: the port 88830 is out of bounds; write 1 to 65535`,
		},
	},
	{
		"no users",
		[]edit{{"services/mqtt.yaml", "users:\n  - name: sensor\n    password: {secretRef: mqtt-password-sensor}\n    acl:\n      - {topic: \"sensors/#\", access: write}\n\n  - name: operator\n    password: {secretRef: mqtt-password-operator}\n    acl:\n      - {topic: \"sensors/#\", access: readwrite}\n      - {topic: \"commands/#\", access: readwrite}\n", "users: []\n"}},
		[]string{
			`services/mqtt.yaml:16:8: error: there are no users, so nobody could connect; add one with name, password and acl`,
		},
	},
	{
		"a user twice",
		[]edit{{"services/mqtt.yaml", "name: operator", "name: sensor"}},
		[]string{
			`services/mqtt.yaml:22:11: error: the user "sensor" exists already, at services/mqtt.yaml:17; each user has one entry`,
		},
	},
	{
		"a user name with a colon",
		[]edit{{"services/mqtt.yaml", "name: operator", "name: \"op:erator\""}},
		[]string{
			`services/mqtt.yaml:22:11: error: the user name "op:erator" is not valid; write 1 to 64 letters, digits, -, _, . and @, the first a letter or digit`,
		},
	},
	{
		"two users with one password",
		[]edit{{"services/mqtt.yaml", "mqtt-password-operator", "mqtt-password-sensor"}},
		[]string{
			`services/mqtt.yaml:23:15: warning: the users sensor and operator share the bundle entry "mqtt-password-sensor"; each of them knows the password of the other`,
		},
	},
	{
		"a password that is the key",
		[]edit{{"services/mqtt.yaml", "mqtt-password-operator", "mqtt-tls-key"}},
		[]string{
			`services/mqtt.yaml:23:15: error: the password of operator is the same bundle entry as the listener's key or certificate; give it one of its own`,
		},
	},
	{
		"a key that is the certificate",
		[]edit{{"services/mqtt.yaml", "key: {secretRef: mqtt-tls-key}", "key: {secretRef: mqtt-tls-certificate}"}},
		[]string{
			`services/mqtt.yaml:12:8: error: the key and the certificate are the same bundle entry "mqtt-tls-certificate"; they are two`,
		},
	},
	{
		"a user who may do nothing",
		[]edit{{"services/mqtt.yaml", "    acl:\n      - {topic: \"sensors/#\", access: write}\n", ""}},
		[]string{
			`services/mqtt.yaml:17:5: warning: the user sensor may connect but neither read nor write; add acl: [{topic: …, access: read}]`,
		},
	},
	{
		"an access that does not exist",
		[]edit{{"services/mqtt.yaml", "access: write}", "access: publish}"}},
		[]string{
			`services/mqtt.yaml:20:38: error: the access "publish" is unknown; write read, write, readwrite or deny`,
		},
	},
	{
		"a misspelt access",
		[]edit{{"services/mqtt.yaml", "access: write}", "access: wirte}"}},
		[]string{
			`services/mqtt.yaml:20:38: error: the access "wirte" is unknown; did you mean "write"?`,
		},
	},
	{
		"a # in the middle of a topic",
		[]edit{{"services/mqtt.yaml", "\"commands/#\"", "\"commands/#/x\""}},
		[]string{
			`services/mqtt.yaml:26:17: error: the topic filter "commands/#/x" has # where it does not belong; # stands alone as the last level, as in sensors/#`,
		},
	},
	{
		"a + inside a level of a topic",
		[]edit{{"services/mqtt.yaml", "\"commands/#\"", "\"commands/a+\""}},
		[]string{
			`services/mqtt.yaml:26:17: error: the topic filter "commands/a+" has + inside a level; + stands for a whole level, as in sensors/+/temperature`,
		},
	},
	{
		"an empty topic",
		[]edit{{"services/mqtt.yaml", "\"commands/#\"", "\"\""}},
		[]string{
			`services/mqtt.yaml:26:17: error: the topic filter "" is empty; write one such as sensors/#`,
		},
	},
	{
		"a topic twice",
		[]edit{{"services/mqtt.yaml", "\"commands/#\"", "\"sensors/#\""}},
		[]string{
			`services/mqtt.yaml:26:17: error: the topic filter "sensors/#" exists already, at services/mqtt.yaml:25; mosquitto would use one of them; keep one`,
		},
	},
	{
		"a negative limit",
		[]edit{{"services/mqtt.yaml", "port: 8883", "maxConnections: -2"}},
		[]string{
			`services/mqtt.yaml:7:17: error: maxConnections -2 is out of bounds; write -1 for no limit, or the number of clients`,
		},
	},
	{
		"a message larger than MQTT has",
		[]edit{{"services/mqtt.yaml", "port: 8883", "messageSizeLimit: 300000000"}},
		[]string{
			`services/mqtt.yaml:7:19: error: messageSizeLimit 300000000 is out of bounds; write 0 to 268435455`,
		},
	},
	{
		"a forwarder that is no address",
		[]edit{{"services/dns.yaml", "forwarders: [10.77.0.3]", "forwarders: [dns.example]"}},
		[]string{
			`services/dns.yaml:7:14: error: the forwarder "dns.example" is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length`,
		},
	},
	{
		"a forwarder that is the DNS server itself",
		[]edit{{"services/dns.yaml", "forwarders: [10.77.0.3]", "forwarders: [10.77.0.16]"}},
		[]string{
			`services/dns.yaml:7:14: error: the DNS servers would forward foreign names to 10.77.0.16, which is the DNS server edge-01: a loop; name a resolver outside the cluster in forwarders of services/dns.yaml`,
		},
	},
	{
		"a forwarder by default that is the DNS server itself",
		[]edit{{"services/dns.yaml", "forwarders: [10.77.0.3]\n", ""}},
		[]string{
			`cluster.yaml:10:17: error: the DNS servers would forward foreign names to 10.77.0.16, which is the DNS server edge-01: a loop; name a resolver outside the cluster in forwarders of services/dns.yaml`,
		},
	},
	{
		"no forwarder at all",
		[]edit{
			{"services/dns.yaml", "forwarders: [10.77.0.3]\n", ""},
			{"cluster.yaml", "  nameservers: [10.77.0.16]\n", ""},
		},
		[]string{
			`services/dns.yaml:9:1: warning: there are neither forwarders here nor network.nameservers in cluster.yaml, so only names of the cluster are answered; add forwarders where others are wanted`,
		},
	},
	{
		"a ttl out of bounds",
		[]edit{{"services/dns.yaml", "ttl: 60", "ttl: -1"}},
		[]string{
			`services/dns.yaml:10:6: error: the ttl -1 is out of bounds; write 0 to 604800`,
		},
	},
	{
		"clients that are no networks",
		[]edit{{"services/dns.yaml", "ttl: 60", "clients: [192.168.20.7, \"192.168.20.7/24\", \"::ffff:192.168.20.0/120\", plant]"}},
		[]string{
			`services/dns.yaml:10:11: error: the client network "192.168.20.7" is not a network; write address/length such as 192.168.20.0/24, with /32 or /128 for one machine`,
			`services/dns.yaml:10:25: error: the client network 192.168.20.7/24 is an address inside a network; write the network itself, 192.168.20.0/24`,
			`services/dns.yaml:10:44: error: the client network "::ffff:192.168.20.0/120" is not in plain form; write IPv4 networks such as 192.168.20.0/24`,
			`services/dns.yaml:10:71: error: the client network "plant" is not a network; write address/length such as 192.168.20.0/24, with /32 or /128 for one machine`,
		},
	},
	{
		"clients twice, among the nodes, and everybody",
		[]edit{{"services/dns.yaml", "ttl: 60", "clients: [192.168.20.0/24, 192.168.20.0/24, 10.77.0.128/25, 10.244.0.0/16, \"::/0\"]"}},
		[]string{
			`services/dns.yaml:10:28: error: the client network "192.168.20.0/24" exists already, at services/dns.yaml:10; remove one`,
			`services/dns.yaml:10:45: warning: the client network 10.77.0.128/25 lies in 10.77.0.0/24, whose machines are answered anyway; remove it`,
			`services/dns.yaml:10:61: warning: the client network 10.244.0.0/16 lies in 10.244.0.0/16, whose machines are answered anyway; remove it`,
			`services/dns.yaml:10:76: warning: the client network ::/0 contains every address: an attacker can have the DNS servers send answers to others; name the networks that ask`,
		},
	},
	{
		"a record with the name of a node",
		[]edit{{"services/dns.yaml", "name: mqtt", "name: master-01"}},
		[]string{
			`services/dns.yaml:14:11: error: the name "master-01" exists already, at cluster.yaml:17; a name has one record (with all its addresses), and nodes have theirs by themselves`,
		},
	},
	{
		"a record that names the domain",
		[]edit{{"services/dns.yaml", "name: mqtt", "name: mqtt.plant.example"}},
		[]string{
			`services/dns.yaml:14:11: error: the record "mqtt.plant.example" names the domain; names here are inside it: write "mqtt"`,
		},
	},
	{
		"a record that is no DNS name",
		[]edit{{"services/dns.yaml", "name: mqtt", "name: mqtt_broker"}},
		[]string{
			`services/dns.yaml:14:11: error: the record "mqtt_broker" is not a DNS name; write labels of lower-case letters, digits and - with dots between`,
		},
	},
	{
		"a record of nothing",
		[]edit{{"services/dns.yaml", "    cname: edge-01\n", ""}},
		[]string{
			`services/dns.yaml:14:5: error: the record has nothing; write addresses: [10.77.0.20], or cname: and another name`,
		},
	},
	{
		"a record with addresses and an alias",
		[]edit{{"services/dns.yaml", "cname: edge-01", "cname: edge-01\n    addresses: [10.77.0.16]"}},
		[]string{
			`services/dns.yaml:14:5: error: the record has addresses and a cname; an alias has nothing beside it (RFC 1034, section 3.6.2): keep one`,
		},
	},
	{
		"an alias of nothing",
		[]edit{{"services/dns.yaml", "cname: edge-01", "cname: edge-1"}},
		[]string{
			`services/dns.yaml:15:12: error: the cname "edge-1" is not a name of the domain; did you mean "edge-01"?`,
		},
	},
	{
		"an alias of itself",
		[]edit{{"services/dns.yaml", "cname: edge-01", "cname: mqtt"}},
		[]string{
			`services/dns.yaml:15:12: error: the cname "mqtt" points to itself; write the name that has the addresses`,
		},
	},
	{
		"an alias of an alias",
		[]edit{{"services/dns.yaml", "    cname: edge-01", "    cname: edge-01\n  - name: broker\n    cname: mqtt"}},
		[]string{
			`services/dns.yaml:17:12: error: the cname "mqtt" is an alias itself; point to the name that has the addresses`,
		},
	},
	{
		"an alias of a node without an address",
		[]edit{
			{"cluster.yaml", "    ips: [10.77.0.14]\n", ""},
			{"services/dns.yaml", "cname: edge-01", "cname: kafka-01"},
		},
		[]string{
			`cluster.yaml:29:5: error: node kafka-01 is part of Kafka and has no ips, so the others and its clients could not find it; add its address`,
			`services/dns.yaml:15:12: error: the cname "kafka-01" is node kafka-01, which has no address in cluster.yaml, so the alias leads nowhere; add ips to the node`,
		},
	},
	{
		"a record twice",
		[]edit{{"services/dns.yaml", "    cname: edge-01", "    cname: edge-01\n  - name: mqtt\n    addresses: [10.77.0.16]"}},
		[]string{
			`services/dns.yaml:16:11: error: the name "mqtt" exists already, at services/dns.yaml:14; a name has one record (with all its addresses), and nodes have theirs by themselves`,
		},
	},
}
