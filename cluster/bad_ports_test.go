package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// badPorts holds ports of settings that something else on the same node has.
var badPorts = []badInput{
	{
		"MQTT on the port of the node's API",
		[]edit{{"services/mqtt.yaml", "port: 8883", "port: 8643"}},
		[]string{
			`services/mqtt.yaml:7:7: error: port 8643/tcp is not free on node edge-01: api has 8643/tcp there for the node's API, as on every node; write another port, such as 8883`,
		},
	},
	{
		"MQTT on the port of the DNS server",
		[]edit{{"services/mqtt.yaml", "port: 8883", "port: 53"}},
		[]string{
			`services/mqtt.yaml:7:7: error: port 53/tcp is not free on node edge-01: coredns has 53/tcp there for DNS, by the role dns-server at cluster.yaml:41:26; write another port, such as 8883`,
		},
	},
	{
		"MQTT on a port of the API servers, on a master alone",
		[]edit{
			{"services/mqtt.yaml", "port: 8883", "port: 6443"},
			{"cluster.yaml", "roles: [master]", "roles: [master, mqtt-broker]"},
		},
		[]string{
			`services/mqtt.yaml:7:7: error: port 6443/tcp is not free on node master-01: kube-apiserver has 6443/tcp there for the Kubernetes API, by the role master at cluster.yaml:20:13; write another port, such as 8883`,
		},
	},
	{
		"MQTT on a port that only the loopback interface has",
		[]edit{
			{"services/mqtt.yaml", "port: 8883", "port: 10248"},
			{"cluster.yaml", "roles: [worker]\n", "roles: [mqtt-broker, worker]\n"},
			{"cluster.yaml", "roles: [worker, ceph-osd]", "roles: [worker, ceph-osd, mqtt-broker]"},
		},
		[]string{
			`services/mqtt.yaml:7:7: error: port 10248/tcp is not free on the nodes worker-01 and worker-02: kubelet has 127.0.0.1:10248/tcp there for health, by the role worker at cluster.yaml:24:26; write another port, such as 8883`,
		},
	},
	{
		"MQTT on a port of etcd, which has it twice",
		[]edit{
			{"services/mqtt.yaml", "port: 8883", "port: 2379"},
			{"cluster.yaml", "roles: [master]", "roles: [mqtt-broker, control-plane]"},
		},
		[]string{
			`services/mqtt.yaml:7:7: error: port 2379/tcp is not free on node master-01: etcd has 2379/tcp there for clients of etcd, by the role control-plane at cluster.yaml:20:26; write another port, such as 8883`,
		},
	},
	{
		"MQTT among the ports of OSDs",
		[]edit{
			{"services/mqtt.yaml", "port: 8883", "port: 7568"},
			{"cluster.yaml", "roles: [worker, ceph-osd]", "roles: [worker, ceph-osd, mqtt-broker]"},
		},
		[]string{
			`services/mqtt.yaml:7:7: error: port 7568/tcp is not free on node worker-02: ceph-osd has 6800-7568/tcp there for OSDs of Ceph, by the role ceph-osd at cluster.yaml:28:21; write another port, such as 8883`,
		},
	},
	{
		"MQTT among the ports of Services, and several brokers",
		[]edit{
			{"services/mqtt.yaml", "port: 8883", "port: 30000"},
			{"cluster.yaml", "roles: [master]", "roles: [master, mqtt-broker]"},
			{"cluster.yaml", "roles: [worker]\n", "roles: [worker, mqtt-broker]\n"},
			{"cluster.yaml", "roles: [worker, ceph-osd]", "roles: [worker, ceph-osd, mqtt-broker]"},
			{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [worker, mqtt-broker, dns-server]"},
		},
		[]string{
			`services/mqtt.yaml:7:7: error: port 30000/tcp is not free on the nodes master-01, worker-01, worker-02 and 1 more: kube-proxy has 30000-32767/tcp there for Services of the type NodePort, by the role master at cluster.yaml:20:13; write another port, such as 8883`,
		},
	},
	{
		"MQTT on the port of the controllers of a broker that is one",
		[]edit{
			{"services/mqtt.yaml", "port: 8883", "port: 9094"},
			{"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-broker, mqtt-broker]"},
		},
		[]string{
			`services/mqtt.yaml:7:7: error: port 9094/tcp is not free on node kafka-01: kafka has 9094/tcp there for controllers of Kafka, by the role kafka-broker at cluster.yaml:32:13; write another port, such as 8883`,
		},
	},
}

// What is free on the nodes that have brokers is taken, whatever others have.
func TestPortsThatAreFree(t *testing.T) {
	for name, tc := range map[string]struct {
		port  int
		edits []edit
	}{
		"the default":                                {8883, nil},
		"a port of UDP alone":                        {4789, []edit{{"cluster.yaml", "roles: [worker]\n", "roles: [worker, mqtt-broker]\n"}}},
		"the time's":                                 {123, nil},
		"the API server's, on another node":          {6443, nil},
		"etcd's, on another node":                    {2379, nil},
		"the DNS server's, on another node":          {53, []edit{{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [dns-server]"}, {"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-broker, mqtt-broker]"}}},
		"one below those of OSDs":                    {6799, []edit{{"cluster.yaml", "roles: [ceph-mon, ceph-osd]", "roles: [ceph-mon, ceph-osd, mqtt-broker]"}}},
		"one above those of OSDs":                    {7569, []edit{{"cluster.yaml", "roles: [ceph-mon, ceph-osd]", "roles: [ceph-mon, ceph-osd, mqtt-broker]"}}},
		"one above those of Services":                {32768, []edit{{"cluster.yaml", "roles: [worker]\n", "roles: [worker, mqtt-broker]\n"}}},
		"the brokers', on a controller that is none": {9092, []edit{{"cluster.yaml", "roles: [worker]\n", "roles: [worker, kafka-controller, mqtt-broker]\n"}}},
		"the controllers', on a broker that is none": {9094, []edit{{"cluster.yaml", "roles: [worker]\n", "roles: [worker, kafka-controller]\n"}, {"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-broker, mqtt-broker]"}}},
	} {
		t.Run(name, func(t *testing.T) {
			files := goodFolder(t)
			apply(t, files, append(tc.edits, edit{"services/mqtt.yaml", "port: 8883", fmt.Sprintf("port: %d", tc.port)}))
			_, report := Check(files, Options{})
			require.Empty(t, strings.TrimSpace(serious(report)))
		})
	}
}
