//go:build e2e

package services

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"spore/cluster/spec"
	"spore/services/kafka"
	"spore/services/kafka/kraft"
	kafkanode "spore/services/kafka/node"
)

const kafkaUsers = `
users:
  - name: sensor
    password: {secretRef: kafka-password-sensor}
    acl:
      - {topic: measurements., prefix: true, operations: [write, describe]}
  - name: historian
    password: {secretRef: kafka-password-historian}
    acl:
      - {topic: measurements., prefix: true, operations: [read, describe]}
      - {group: historian, operations: [read]}
`

func TestOneKafkaNode(t *testing.T) {
	l := newKafkaLab(t, kafkaUsers, "kafka-broker")
	n := l.nodes[0]
	n.format(l.voters())
	n.start()
	n.ready()
	require.Equal(t, kraft.Done{Users: 3, Allowed: 5}, n.bootstrap())
	require.Equal(t, kraft.Done{Users: 3}, n.bootstrap(), "the second time changes nothing")
	l.topic("measurements.hall", 1)
	l.topic("secret", 1)

	t.Run("users do what kafka.yaml allows", func(t *testing.T) {
		require.NoError(t, l.produce(l.as("sensor"), "measurements.hall", "a", "b", "c"))
		require.Equal(t, []string{"a", "b", "c"}, l.consume("historian", "measurements.hall", 3))
		require.Equal(t, []string{"a", "b", "c"}, l.consume("admin", "measurements.hall", 3))
	})
	t.Run("a group's offsets are kept", func(t *testing.T) {
		c := l.as("historian", kgo.ConsumeTopics("measurements.hall"), kgo.ConsumerGroup("historian"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
		defer cancel()
		f := c.PollFetches(ctx)
		require.NoError(t, f.Err())
		require.Equal(t, 3, f.NumRecords())
		require.NoError(t, c.CommitUncommittedOffsets(ctx))
	})
	t.Run("the page has what a client is told", func(t *testing.T) { l.onPage(t, n) })
	t.Run("and nothing else", func(t *testing.T) {
		require.ErrorIs(t, l.produce(l.as("sensor", kgo.UnknownTopicRetries(0)), "secret", "x"), kerr.TopicAuthorizationFailed)
		require.ErrorIs(t, l.produce(l.as("historian"), "measurements.hall", "x"), kerr.ClusterAuthorizationFailed, "not even a producer's id")
		r, err := kadm.NewClient(l.as("sensor")).CreateTopic(l.ctx, 1, 1, nil, "mine")
		require.ErrorIs(t, r.Err, kerr.TopicAuthorizationFailed, "%v", err)
		created, err := kadm.NewClient(l.as("sensor")).CreateACLs(l.ctx, kadm.NewACLs().Topics("secret").Allow("User:sensor").Operations(kadm.OpRead))
		require.NoError(t, err)
		require.ErrorIs(t, created[0].Err, kerr.ClusterAuthorizationFailed)
	})
	t.Run("a topic that nobody made is not made by asking for it", func(t *testing.T) {
		require.ErrorIs(t, l.produce(l.as("admin", kgo.UnknownTopicRetries(1)), "never-made", "x"), kerr.UnknownTopicOrPartition)
	})
	t.Run("who is refused", func(t *testing.T) {
		foreign := func(c *tls.Config) kgo.Opt { return kgo.DialTLSConfig(c) }
		for name, tt := range map[string]struct {
			client *kgo.Client
			want   string
		}{
			"a wrong password":            {l.client("sensor", l.password("sensor")+"x"), "SASL_AUTHENTICATION_FAILED"},
			"another's password":          {l.client("sensor", l.password("historian")), "SASL_AUTHENTICATION_FAILED"},
			"a user that there is not":    {l.client("nobody", l.password("sensor")), "SASL_AUTHENTICATION_FAILED"},
			"the nodes' name as a user":   {l.client("spore:kafka-brokers", l.password("admin")), "SASL_AUTHENTICATION_FAILED"},
			"a client of another CA":      {l.as("sensor", foreign(&tls.Config{RootCAs: l.roots("agent")})), "x509"},
			"no password at all":          {l.anonymous(), "SASL"},
			"a client of another address": {l.as("sensor", foreign(&tls.Config{RootCAs: l.roots("kafka"), ServerName: "10.77.0.99"})), "x509"},
		} {
			ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
			err := tt.client.Ping(ctx)
			cancel()
			require.ErrorContains(t, err, tt.want, name)
		}
	})
	t.Run("the listeners of brokers and controllers take nodes' certificates only", func(t *testing.T) {
		for _, port := range []int{kafka.BrokerPort, kafka.ControllerPort} {
			// The alerts of RFC 8446, section 6.2, in Go's words.
			for name, tt := range map[string]struct {
				config *tls.Config
				want   string
			}{
				"none":        {&tls.Config{RootCAs: l.roots("kafka")}, "remote error: tls: certificate required"},
				"the agent's": {l.agentIdentity(n), "remote error: tls: unknown certificate"},
			} {
				require.ErrorContains(t, l.refusal(net.JoinHostPort(n.IPs[0], strconv.Itoa(port)), tt.config), tt.want, "%s at port %d", name, port)
			}
		}
	})
	t.Run("data, users and rights outlive a restart", func(t *testing.T) {
		n.stop()
		n.start()
		n.ready()
		require.Equal(t, []string{"a", "b", "c"}, l.consume("historian", "measurements.hall", 3))
	})
	t.Run("a broker that is killed has all that was acknowledged", func(t *testing.T) {
		require.NoError(t, l.produce(l.as("sensor"), "measurements.hall", "d"))
		n.kill()
		n.start()
		n.ready()
		require.Equal(t, []string{"a", "b", "c", "d"}, l.consume("historian", "measurements.hall", 4))
	})
	t.Run("who is not in kafka.yaml is gone, and so are rights", func(t *testing.T) {
		_, err := kadm.NewClient(l.as("admin")).CreateACLs(l.ctx, kadm.NewACLs().Topics("secret").Allow("User:sensor").Operations(kadm.OpRead))
		require.NoError(t, err)
		l.configure("users:\n  - name: sensor\n    password: {secretRef: kafka-password-sensor}\n    acl:\n      - {topic: measurements., prefix: true, operations: [write]}\n  - name: new\n    password: {secretRef: kafka-password-new}\n    acl: [{topic: \"*\", operations: [all]}]\n", "kafka-broker")
		require.Equal(t, kraft.Done{Users: 3, Dropped: []string{"historian"}, Allowed: 1, Withdrawn: 5}, n.bootstrap())
		ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
		defer cancel()
		require.ErrorContains(t, l.as("historian").Ping(ctx), "SASL_AUTHENTICATION_FAILED")
		require.NoError(t, l.produce(l.as("new"), "secret", "x"))
		require.NoError(t, l.produce(l.as("sensor"), "measurements.hall", "e"))
	})
	t.Run("a password that the operator changes", func(t *testing.T) {
		old := l.password("sensor")
		l.bring("kafka-password-sensor", "another one")
		n.bootstrap()
		ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
		defer cancel()
		// The controller has the new password by now; the broker has it once it has read the metadata log so far.
		var err error
		for err == nil {
			err = l.client("sensor", old).Ping(ctx)
		}
		require.ErrorContains(t, err, "SASL_AUTHENTICATION_FAILED")
		require.NoError(t, l.client("sensor", "another one").Ping(ctx))
	})
}

// A formatting that was cut off at any point is done again, and the data that was there before is not touched.
func TestFormattingGoesOnAfterAKill(t *testing.T) {
	l := newKafkaLab(t, "{}", "kafka-broker")
	n := l.nodes[0]
	n.format(l.voters())
	meta := filepath.Join(n.dir, "lib/metadata/meta.properties")
	before, err := kraft.ReadMeta(filepath.Dir(meta))
	require.NoError(t, err)
	require.Equal(t, l.voters()[0].Directory, before.Directory)

	for name, harm := range map[string]func(){
		"nothing was written":   func() { require.NoError(t, os.RemoveAll(filepath.Dir(meta))) },
		"its last file is away": func() { require.NoError(t, os.Remove(meta)) },
		"what it began with is away": func() {
			require.NoError(t, os.Remove(filepath.Join(filepath.Dir(meta), "bootstrap.checkpoint")))
		},
		"the voters are half there": func() {
			found, err := filepath.Glob(filepath.Join(filepath.Dir(meta), "__cluster_metadata-0/*.checkpoint"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.NoError(t, os.Truncate(found[0], 10))
		},
	} {
		harm()
		n.format(l.voters())
		again, err := kraft.ReadMeta(filepath.Dir(meta))
		require.NoError(t, err, name)
		require.Equal(t, before, again, name)
	}
	n.start()
	n.ready()
	n.bootstrap()
	l.topic("t", 1)
	n.stop()
	require.ErrorContains(t, n.storage().Clear(), "holds a metadata log although its formatting was never finished")
}

// A data disk that is away stops nothing, and one that is new is taken.
func TestADiskThatIsAwayAndComesLater(t *testing.T) {
	l := newKafkaLab(t, "{}", "kafka-broker")
	n := l.nodes[0]
	n.Disks = []spec.Disk{{Use: "kafka"}, {Use: "kafka"}}
	logs, _ := kafkanode.Logs(&n.Node)
	first, second := n.at(logs[0]), n.at(logs[1])
	require.NoError(t, os.MkdirAll(first, 0o700))
	require.NoError(t, os.WriteFile(filepath.Dir(second), nil, 0o600), "where nobody can make a directory, as the user kafka cannot on a node")
	n.format(l.voters())
	n.start()
	n.ready()
	n.bootstrap()
	l.topic("t", 4)
	require.NoError(t, l.produce(l.as("admin"), "t", "a", "b"))
	n.stop()

	require.NoError(t, os.Remove(filepath.Dir(second)))
	require.NoError(t, os.MkdirAll(second, 0o700))
	before, err := kraft.ReadMeta(first)
	require.NoError(t, err)
	left, err := n.storage().Unformatted()
	require.NoError(t, err)
	require.Equal(t, []string{second}, left)
	run := filepath.Join(n.dir, "run")
	require.NoError(t, n.storage().Format(l.ctx, nil, filepath.Join(run, "server.properties"), filepath.Join(run, "format.properties"), n.tool))
	after, err := kraft.ReadMeta(first)
	require.NoError(t, err)
	require.Equal(t, before, after, "what is formatted stays")
	n.start()
	n.ready()
	m, err := kraft.ReadMeta(second)
	require.NoError(t, err)
	require.NotNil(t, m)
	require.Equal(t, n.secrets["kafka-cluster-id"], m.Cluster)
	require.NoError(t, n.storage().Check())
	l.topic("u", 4)
	// The broker makes the folders when it hears of the topic, and that is after the one who made it has his answer.
	require.Eventually(t, func() bool {
		used, err := filepath.Glob(filepath.Join(second, "u-*"))
		return err == nil && len(used) > 0
	}, time.Minute, 100*time.Millisecond, "it has partitions of its own")
	require.Equal(t, []string{"a", "b"}, l.consume("admin", "t", 2))
}

// A controller and a broker apart; a second broker comes without anything new on those that are there.
func TestANewBrokerNeedsNothingOfTheOthers(t *testing.T) {
	l := newKafkaLab(t, "{}", "kafka-controller", "kafka-broker")
	l.nodes[0].format(l.voters())
	l.nodes[1].format(nil)
	for _, n := range l.nodes {
		n.start()
	}
	for _, n := range l.nodes {
		n.ready()
	}
	require.NoDirExists(t, filepath.Join(l.nodes[0].dir, "lib/data"), "a controller keeps no partitions")
	l.nodes[1].bootstrap()
	l.topic("first", 1)
	require.NoError(t, l.produce(l.as("admin"), "first", "a", "b"))

	l.configure("{}", "kafka-controller", "kafka-broker", "kafka-broker")
	second := l.nodes[2]
	second.format(nil)
	second.start()
	second.ready()
	require.Equal(t, kraft.Done{Users: 1}, second.bootstrap())
	require.Equal(t, "1", l.minInSync("first"), "what the controllers saw first")
	l.configure("minInsyncReplicas: 2\n", "kafka-controller", "kafka-broker", "kafka-broker")
	require.Equal(t, []string{"min.insync.replicas"}, second.setDefaults())
	require.Eventually(t, func() bool { return len(second.setDefaults()) == 0 }, time.Minute, time.Second, "the broker has heard of it, and nothing is left to do")
	require.Equal(t, "2", l.minInSync("first"), "the file counts, also when it changes")
	admin := kadm.NewClient(l.as("admin"))
	r, err := admin.CreateTopic(l.ctx, 1, 2, nil, "copied")
	require.NoError(t, err)
	require.NoError(t, r.Err)
	require.NoError(t, l.produce(l.as("admin"), "copied", "c", "d"))
	require.Eventually(t, func() bool {
		topics, err := admin.ListTopics(l.ctx, "copied")
		return err == nil && len(topics["copied"].Partitions[0].ISR) == 2
	}, time.Minute, 500*time.Millisecond, "the brokers give each other copies")
}

// Three controllers: one that loses its data comes back as another voter, and the former one is gone.
func TestAWipedControllerTakesItsPlaceAgain(t *testing.T) {
	l := newKafkaLab(t, "{}", "kafka-broker", "kafka-broker", "kafka-broker")
	for _, n := range l.nodes {
		n.format(l.voters())
	}
	for _, n := range l.nodes {
		n.start()
	}
	for _, n := range l.nodes {
		n.ready()
	}
	l.nodes[0].bootstrap()
	l.topic("kept", 3)
	require.NoError(t, l.produce(l.as("admin"), "kept", "a", "b", "c"))

	wiped := l.nodes[2]
	former := l.voters()[2].Directory
	wiped.kill()
	require.NoError(t, os.RemoveAll(filepath.Join(wiped.dir, "lib")))
	require.NoError(t, os.MkdirAll(filepath.Join(wiped.dir, "lib"), 0o700))
	wiped.format(nil)
	wiped.start()
	wiped.ready()
	require.Eventually(t, func() bool {
		ids := l.quorum()
		_, gone := ids[former]
		return !gone && len(ids) == 3
	}, 2*time.Minute, time.Second, "the former voter is replaced")
	require.Equal(t, []string{"a", "b", "c"}, l.consume("admin", "kept", 3))

	// The other two are needed no more: with one of them away, the new voter makes the majority.
	l.nodes[0].kill()
	l.topic("made-by-two", 1)
}
