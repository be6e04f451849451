package cluster

// observed gives the edge node a store.
func observed(settings string) []edit {
	return []edit{
		{"cluster.yaml", "services: [kubernetes, ceph, kafka, mqtt, dns]", "services: [kubernetes, ceph, kafka, mqtt, dns, metrics]"},
		{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, metrics-store]"},
		{"services/metrics.yaml", "", settings},
	}
}

var badMetrics = []badInput{
	{"two disks for a store", append(observed("days: 30\n"), edit{
		"nodes/edge-01.yaml", "", "node: edge-01\ndisks:\n  - {use: metrics, selector: {serial: S1}}\n  - {use: metrics, selector: {serial: S2}}\n",
	}), []string{
		`nodes/edge-01.yaml:4:11: error: this is the second metrics disk; a node has one`,
	}},
	{"an encrypted disk for a store", append(observed("days: 30\n"), edit{
		"nodes/edge-01.yaml", "", "node: edge-01\ndisks:\n  - {use: metrics, encrypt: true, selector: {serial: S1}}\n",
	}), []string{
		`nodes/edge-01.yaml:3:29: error: only disks for osd are encrypted; remove encrypt`,
	}},
	{"no days", observed("days: 0\n"), []string{
		`services/metrics.yaml:1:7: error: days 0 is out of bounds; write 1 to 3660`,
	}},
	{"a look each second", observed("interval: 1\n"), []string{
		`services/metrics.yaml:1:11: error: the interval 1 is out of bounds; write 5 to 60`,
	}},
	{"a size without a unit", observed("size: '20'\n"), []string{
		`services/metrics.yaml:1:7: error: the size "20" is not a size; write a number with KiB, MiB, GiB or TiB, such as 64MiB`,
	}},
	{"a size with hardly any room", observed("size: 64MiB\n"), []string{
		`services/metrics.yaml:1:7: error: the size 64MiB is less than 256MiB; write more`,
	}},
	{"jobs of the store's own, twice, and with no name", observed("scrape:\n- {name: node, targets: [a.example:1]}\n- {name: press, targets: [a.example:1]}\n- {name: press, targets: [a.example:2]}\n- {name: 'p q', targets: [a.example:1]}\n"), []string{
		`services/metrics.yaml:2:10: error: the name node is of what the store asks anyway; take another`,
		`services/metrics.yaml:4:10: error: the job "press" exists already, at services/metrics.yaml:3; a job has one entry, with all its targets`,
		`services/metrics.yaml:5:10: error: the name "p q" is not valid; write 1 to 63 letters, digits, -, _ and ., the first a letter or digit`,
	}},
	{"targets that are none", observed("scrape:\n- {name: a, targets: [press-1, 'press-1:0', 'http://x:80/', 'x_y:9', 'fe80::1%eth0:9', 'x:9', 'X:9']}\n- {name: b, targets: []}\n"), []string{
		`services/metrics.yaml:2:23: error: the target "press-1" has no port; write an address or a name with a port, such as plc-7.plant.example:9100`,
		`services/metrics.yaml:2:32: error: the target "press-1:0" has a port that is none; write an address or a name with a port, such as plc-7.plant.example:9100`,
		`services/metrics.yaml:2:45: error: the target "http://x:80/" has no port; write an address or a name with a port, such as plc-7.plant.example:9100`,
		`services/metrics.yaml:2:61: error: the target "x_y:9" has a host that is none; write an address or a name with a port, such as plc-7.plant.example:9100`,
		`services/metrics.yaml:2:70: error: the target "fe80::1%eth0:9" has no port; write an address or a name with a port, such as plc-7.plant.example:9100`,
		`services/metrics.yaml:2:95: error: the target "x:9" exists already, at services/metrics.yaml:2; remove one`,
		`services/metrics.yaml:3:3: error: the job has no targets; add one, such as plc-7.plant.example:9100`,
	}},
	{"a password in a path", observed("scrape:\n- {name: a, targets: ['x:9'], path: '/m?token=swordfish', scheme: ftp, series: 0}\n"), []string{
		`services/metrics.yaml:2:37: error: the path has a query; write one such as /metrics, without it`,
		`services/metrics.yaml:2:41: error: this line holds a literal secret; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		`services/metrics.yaml:2:67: error: the scheme "ftp" is unknown; did you mean "http"?`,
		`services/metrics.yaml:2:80: error: series 0 is out of bounds; write 1 to 100000`,
	}},
}
