package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/logs"
)

// logging gives the edge node a store of logs.
func logging(settings string) []edit {
	return []edit{
		{"cluster.yaml", "services: [kubernetes, ceph, kafka, mqtt, dns]", "services: [kubernetes, ceph, kafka, mqtt, dns, logs]"},
		{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, logs-store]"},
		{"services/logs.yaml", "", settings},
	}
}

// given are receivers of services/logs.yaml, from line 2.
func given(rows string) []edit { return logging("give:\n" + rows) }

var badLogs = []badInput{
	{"no days, and sizes that are none", logging("days: 0\nsize: 20\nqueue: 1MiB\n"), []string{
		`services/logs.yaml:1:7: error: days 0 is out of bounds; write 1 to 3660`,
		`services/logs.yaml:2:7: error: size is a number where a text belongs; put it into quotes: "20"`,
		`services/logs.yaml:3:8: error: the queue 1MiB is less than 64MiB; write more`,
	}},
	{"hardly any room, and more than there is", logging("days: 3661\nsize: 64MiB\nqueue: 2TiB\n"), []string{
		`services/logs.yaml:1:7: error: days 3661 is out of bounds; write 1 to 3660`,
		`services/logs.yaml:2:7: error: the size 64MiB is less than 512MiB; write more`,
		`services/logs.yaml:3:8: error: the queue 2TiB is more than 1TiB; write less`,
	}},
	{"names that are none, and twice", given("- {name: Plant, file: {size: 1GiB}}\n- {name: a, file: {size: 1GiB}}\n- {name: a, file: {size: 1GiB}}\n- {file: {size: 1GiB}}\n"), []string{
		`services/logs.yaml:2:10: error: the name "Plant" is not valid; write 1 to 32 lower-case letters, digits and -, with a letter or digit at both ends`,
		`services/logs.yaml:4:10: error: the receiver "a" exists already, at services/logs.yaml:3; each receiver has one entry`,
		`services/logs.yaml:5:3: error: the key "name" is missing; add it and write a text`,
	}},
	{"three stores", append(logging("days: 7\n"),
		edit{"cluster.yaml", "roles: [worker]\n", "roles: [worker, logs-store]\n"}, edit{"cluster.yaml", "roles: [kafka-broker]\n", "roles: [kafka-broker, logs]\n"}), []string{
		`cluster.yaml:41:12: error: edge-01 is node 3 with the role logs-store; at most 2 are possible, of which each gets everything`,
	}},
	{"in no way, and in two", given("- {name: a}\n- {name: b, file: {size: 1GiB}, syslog: {address: 'a.example:514', transport: udp}}\n"), []string{
		`services/logs.yaml:2:3: error: a receiver has one of syslog, loki, elasticsearch and file, and this one has 0`,
		`services/logs.yaml:3:3: error: a receiver has one of syslog, loki, elasticsearch and file, and this one has 2`,
	}},
	{"sources and priorities", given("- {name: a, sources: [journal, journal, pods], priority: warn, file: {size: 1KiB}}\n- {name: b, priority: '4', file: {}}\n"), []string{
		`services/logs.yaml:2:32: error: the source "journal" exists already, at services/logs.yaml:2; remove one`,
		`services/logs.yaml:2:41: error: the source "pods" is unknown; did you mean "pod"?`,
		`services/logs.yaml:2:58: error: the priority "warn" is unknown; write emerg, alert, crit, err, warning, notice, info or debug`,
		`services/logs.yaml:2:77: error: the size 1KiB is less than 1MiB; write more`,
		`services/logs.yaml:3:23: error: the priority "4" is unknown; write emerg, alert, crit, err, warning, notice, info or debug`,
		`services/logs.yaml:3:34: error: the key "size" is missing; add it and write a text`,
	}},
	{"syslog", given("- {name: a, syslog: {address: 'log:0', transport: smoke}}\n- {name: b, syslog: {address: 'log:514', transport: tcp, ca: x}}\n- {name: c, syslog: {address: 'log:6514', ca: x}}\n- {name: d, syslog: {}}\n"), []string{
		`services/logs.yaml:2:31: error: the address "log:0" has a port that is none; write a name or an address with a port, such as log.plant.example:6514`,
		`services/logs.yaml:2:51: error: the transport "smoke" is unknown; write tls, tcp or udp`,
		`services/logs.yaml:3:62: error: tcp has no certificates; remove ca, or write transport: tls`,
		`services/logs.yaml:4:47: error: ca is not PEM of certificates; write one or more blocks of -----BEGIN CERTIFICATE-----`,
		`services/logs.yaml:5:21: error: the key "address" is missing; add it and write a text`,
	}},
	{"loki", given("- {name: a, loki: {url: 'ftp://a.example'}}\n- {name: b, loki: {url: 'http://a:b@a.example'}}\n- {name: c, loki: {url: 'http://a.example', tenant: 'a b', user: u, ca: x}}\n" +
		"- {name: d, loki: {url: 'https://a.example?x=y', password: {secretRef: x}}}\n- {name: e, loki: {url: 'http://a.example', user: u, password: {secretRef: X}, token: {secretRef: t}}}\n"), []string{
		`services/logs.yaml:2:25: error: the url begins with neither http:// nor https://; write one such as https://loki.plant.example:3100`,
		`services/logs.yaml:3:25: error: the url has a user or a password in it, which have keys of their own; write one such as https://loki.plant.example:3100`,
		`services/logs.yaml:3:26: error: this line holds a URL with a user and password; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		`services/logs.yaml:4:19: error: there is a user and no password; add password: {secretRef: …}`,
		`services/logs.yaml:4:53: error: the tenant "a b" is not valid; write 1 to 150 letters, digits, ., _ and -`,
		`services/logs.yaml:4:73: error: http has no certificates; remove ca, or write https://`,
		`services/logs.yaml:5:19: error: there is a password and no user; add user`,
		`services/logs.yaml:5:25: error: the url has a query; write one such as https://loki.plant.example:3100, without it`,
		`services/logs.yaml:6:25: warning: the password or the token goes over the network in clear text; write https:// where the server has it`,
		`services/logs.yaml:6:76: error: password: secretRef "X" is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as mqtt-tls-key`,
		`services/logs.yaml:6:87: error: there are a user and token; write one of them`,
	}},
	{"elasticsearch", given("- {name: a, elasticsearch: {url: 'https://a.example', index: 'Logs*'}}\n- {name: b, elasticsearch: {url: 'http://a.example', index: logs, apiKey: {secretRef: k}, user: 'a b', password: {secretRef: x}}}\n- {name: c, elasticsearch: {index: logs, password: swordfish}}\n"), []string{
		`services/logs.yaml:2:62: error: the index "Logs*" is not valid; write 1 to 200 lower-case letters, digits, ., _ and -, the first a letter or digit`,
		`services/logs.yaml:3:34: warning: the password or the apiKey goes over the network in clear text; write https:// where the server has it`,
		`services/logs.yaml:3:75: error: there are a user and apiKey; write one of them`,
		`services/logs.yaml:3:97: error: the user "a b" is not valid; write 1 to 128 letters, digits, ., _, @ and -, the first a letter or digit`,
		`services/logs.yaml:4:28: error: the key "url" is missing; add it and write a text`,
		`services/logs.yaml:4:52: error: password holds a literal secret; it would be readable in every image: write ` + "`" + `password: {secretRef: NAME}` + "`" + ` and put the secret into the bundle under NAME`,
	}},
}

func TestLogsAreGivenToMany(t *testing.T) {
	files := goodFolder(t)
	apply(t, files, given("- {name: a, sources: [pod], priority: err, syslog: {address: 'log:514', transport: udp}}\n"+
		"- {name: b, loki: {url: 'https://a.example:3100', tenant: t, user: u, password: {secretRef: loki}}}\n"+
		"- {name: c, elasticsearch: {url: 'https://a.example:9200/x', index: logs, apiKey: {secretRef: search}}}\n- {name: d, file: {size: 1GiB}}\n"))
	c, report := Check(files, Options{})
	require.NoError(t, report.Err())
	require.Empty(t, report)
	s := logs.Of(c.Services)
	require.Len(t, s.Give, 4)
	require.Equal(t, []string{"pod"}, s.Give[0].Of())
	require.Equal(t, 3, s.Give[0].Least())
	require.Equal(t, 7, s.Give[1].Least())
	require.EqualValues(t, 1<<30, s.Give[3].File.Bytes())
}
