package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kafka"
	"spore/services/rendering"
	"spore/services/rendering/renderingtest"
)

const kafkaHosts = `10.77.0.31 kafka-01.lab.internal kafka-01
10.77.0.32 kafka-02.lab.internal kafka-02
10.77.0.33 kafka-03.lab.internal kafka-03
fd77::34 kafka-04.lab.internal kafka-04
`

// kafkaInput is a node of a cluster with these brokers and controllers.
func kafkaInput(node string, brokers, controllers []string) rendering.Input {
	n := &facts.Node{Name: node, IPs: []string{map[string]string{"kafka-01": "10.77.0.31", "kafka-02": "10.77.0.32", "kafka-03": "10.77.0.33", "kafka-04": "fd77::34"}[node]}}
	return rendering.Input{
		Cluster: &facts.Cluster{
			ID: "6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", Domain: "lab.internal",
			Members:  map[string][]string{"kafka-broker": brokers, "kafka-controller": controllers},
			Services: spec.Services{&kafka.Settings{}},
		},
		Node: n, Hosts: strings.NewReader(kafkaHosts), Dir: "/run/kafka", Memory: 1 << 30,
		Secret: func(ref string) ([]byte, error) { return []byte("content of " + ref + "\n\n"), nil },
	}
}

func TestKafka(t *testing.T) {
	three, one := []string{"kafka-01", "kafka-02", "kafka-03"}, []string{"kafka-01"}
	withDisks := kafkaInput("kafka-01", one, nil)
	withDisks.Node.Disks = []spec.Disk{{Use: "state"}, {Use: "kafka"}, {Use: "kafka"}}
	withDisks.Node.Rack = "hall-1"
	large := kafkaInput("kafka-04", []string{"kafka-04"}, three)
	large.Memory = 64 << 30
	large.Cluster.Services.Set(&kafka.Settings{ReplicationFactor: 1})
	fromMemory := kafkaInput("kafka-02", three, nil)
	kafka.Of(fromMemory.Cluster.Services).AcknowledgeFromMemory = true
	for name, in := range map[string]rendering.Input{
		"kafka-from-memory":        fromMemory,
		"kafka-one-with-disks":     withDisks,
		"kafka-of-three":           kafkaInput("kafka-02", three, nil),
		"kafka-controller-alone":   kafkaInput("kafka-01", []string{"kafka-04"}, three),
		"kafka-broker-alone-large": large,
	} {
		t.Run(name, func(t *testing.T) {
			files, err := kafkaFiles(in)
			require.NoError(t, err)
			for file, f := range files {
				require.Equal(t, os.FileMode(0o600), f.Mode, file)
			}
			renderingtest.Golden(t, name, files)
		})
	}
}

// The heap itself is in kafka.env (package facts).
func TestTheCleanersBufferGoesByTheHeap(t *testing.T) {
	for _, tt := range []struct {
		name   string
		memory uint64
		heap   int
		want   string
	}{
		{"a small machine", 512 << 20, 0, "log.cleaner.dedupe.buffer.size=4194304\n"},
		{"a large machine", 256 << 30, 0, "log.cleaner.dedupe.buffer.size=100663296\n"},
		{"as kafka.yaml says", 8 << 30, 12 << 10, "log.cleaner.dedupe.buffer.size=134217728\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := kafkaInput("kafka-01", []string{"kafka-01"}, nil)
			in.Memory, kafka.Of(in.Cluster.Services).Heap = tt.memory, tt.heap
			files, err := kafkaFiles(in)
			require.NoError(t, err)
			require.Contains(t, string(files["server.properties"].Data), tt.want)
		})
	}
	in := kafkaInput("kafka-01", []string{"kafka-01"}, nil)
	in.Memory = 0
	files, err := kafkaFiles(in)
	require.NoError(t, err)
	require.NotContains(t, string(files["server.properties"].Data), "log.cleaner.dedupe.buffer.size", "nobody knows the memory: Kafka has its own default")
}

// Nodes that are there accept a new one with the configuration that they have.
func TestANewBrokerChangesNothingOfTheControllers(t *testing.T) {
	controllers := []string{"kafka-01", "kafka-02", "kafka-03"}
	before, err := kafkaFiles(kafkaInput("kafka-01", controllers, controllers))
	require.NoError(t, err)
	after, err := kafkaFiles(kafkaInput("kafka-01", append([]string{"kafka-04"}, controllers...), controllers))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestKafkaRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*rendering.Input)
	}{
		{"a cluster without kafka", "add services/kafka.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kafka") }},
		{"a node without a role", "none of the roles kafka-broker and kafka-controller", func(in *rendering.Input) { in.Node.Name = "kafka-03" }},
		{"no address", "the node has no address yet", func(in *rendering.Input) { in.Node.IPs = nil }},
		{"another controller without an address", "node kafka-02 of role kafka-broker has no address in cluster.yaml", func(in *rendering.Input) { in.Hosts = strings.NewReader("10.77.0.31 kafka-01\n") }},
		{"no certificate", "certificate of the listeners: none", func(in *rendering.Input) { in.Secret = func(string) ([]byte, error) { return nil, errors.New("none") } }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := kafkaInput("kafka-01", []string{"kafka-01", "kafka-02"}, nil)
			tt.change(&in)
			_, err := kafkaFiles(in)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestRenderingTwiceGivesTheSameBytes(t *testing.T) {
	input := func() rendering.Input { return kafkaInput("kafka-01", []string{"kafka-01"}, nil) }
	a, err := kafkaFiles(input())
	require.NoError(t, err)
	b, err := kafkaFiles(input())
	require.NoError(t, err)
	require.Equal(t, a, b)
}
