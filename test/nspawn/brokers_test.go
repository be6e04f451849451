//go:build e2e

package nspawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"spore/builder/vm"
	"spore/services/kafka"
	"spore/test/client"
	"spore/test/faults"
)

const (
	// ledger is the topic that the tests produce to, and its user.
	ledger         = "ledger"
	ledgerPassword = "ledger #1"
	adminPassword  = "admin #1"
	clientPort     = "9092"
	// kafkaLimit bounds what three JVMs on a busy machine take to agree on something.
	kafkaLimit = 4 * time.Minute
	// quietForVoter is how long a lonely voter is watched doing nothing.
	quietForVoter = 20 * time.Second
)

// brokers is a running cluster of Kafka.
type brokers struct {
	*Lab
	client *kgo.Client
	admin  *kadm.Client
}

// as is a user of the cluster.
func (b *brokers) as(user, password string) client.KafkaOptions {
	o := client.KafkaOptions{Roots: b.Authority("kafka"), User: user, Password: password}
	for _, n := range b.Nodes() {
		o.Seeds = append(o.Seeds, net.JoinHostPort(n.IP(), clientPort))
	}
	return o
}

func (b *brokers) ledger() client.KafkaOptions { return b.as(ledger, ledgerPassword) }

// within tries until there is no error any more.
func (b *brokers) within(what string, try func(ctx context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kafkaLimit)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			require.NoError(b.t, err, "%s, after %s", what, kafkaLimit)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// inSync waits until each partition of the ledger has all three copies in sync.
func (b *brokers) inSync() {
	b.t.Helper()
	b.within("all copies are in sync", func(ctx context.Context) error {
		topics, err := b.admin.ListTopics(ctx, ledger)
		if err != nil {
			return err
		}
		for _, p := range topics[ledger].Partitions {
			if len(p.ISR) != 3 {
				return fmt.Errorf("partition %d has only %v in sync", p.Partition, p.ISR)
			}
		}
		return topics[ledger].Err
	})
}

// leaders is how many partitions of the ledger each node leads.
func (b *brokers) leaders() map[*Node]int {
	b.t.Helper()
	out := map[*Node]int{}
	b.within("the ledger has leaders", func(ctx context.Context) error {
		clear(out)
		topics, err := b.admin.ListTopics(ctx, ledger)
		if err != nil {
			return err
		}
		for _, p := range topics[ledger].Partitions {
			if p.Leader < 0 {
				return fmt.Errorf("partition %d has no leader", p.Partition)
			}
			out[b.byID(p.Leader)]++
		}
		return topics[ledger].Err
	})
	return out
}

func (b *brokers) byID(id int32) *Node {
	b.t.Helper()
	for _, n := range b.Nodes() {
		if kafka.ID(n.Facts.Name) == id {
			return n
		}
	}
	require.FailNow(b.t, fmt.Sprintf("no node has the id %d", id))
	return nil
}

// quorum is what the controllers say of themselves.
type quorum struct {
	leader int32
	// voters has the directory id of each voter, by its node id.
	voters map[int32][16]byte
	// behind is how many records of the metadata the slowest voter lacks.
	behind int64
}

// quorum asks the controllers who they are.
func (b *brokers) quorum(ctx context.Context) (quorum, error) {
	r := kmsg.NewPtrDescribeQuorumRequest()
	r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	answer, err := r.RequestWith(ctx, b.client)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return quorum{}, fmt.Errorf("ask for the quorum: %w", err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return quorum{}, errors.New("ask for the quorum: no answer")
	}
	p := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return quorum{}, fmt.Errorf("ask for the quorum: %w", err)
	}
	q := quorum{leader: p.LeaderID, voters: map[int32][16]byte{}}
	for _, v := range p.CurrentVoters {
		q.voters[v.ReplicaID] = v.ReplicaDirectoryID
		q.behind = max(q.behind, p.HighWatermark-v.LogEndOffset)
	}
	if len(q.voters) != len(p.CurrentVoters) {
		return q, fmt.Errorf("a node is a voter twice: %+v", p.CurrentVoters)
	}
	return q, nil
}

// threeVoters waits until all three nodes are voters and know all that is decided.
func (b *brokers) threeVoters() quorum {
	b.t.Helper()
	var q quorum
	b.within("all three controllers vote", func(ctx context.Context) (err error) {
		if q, err = b.quorum(ctx); err != nil {
			return err
		}
		for _, n := range b.Nodes() {
			if _, ok := q.voters[kafka.ID(n.Facts.Name)]; !ok {
				return fmt.Errorf("%s is not among the voters %v", n.Facts.Name, q.voters)
			}
		}
		if len(q.voters) != 3 || q.behind > 10 {
			return fmt.Errorf("there are %d voters, of which one is %d records behind", len(q.voters), q.behind)
		}
		return nil
	})
	return q
}

// clusterID is the id that a broker says its cluster has.
func (b *brokers) clusterID() string {
	b.t.Helper()
	id := ""
	b.within("a broker answers", func(ctx context.Context) error {
		m, err := b.admin.BrokerMetadata(ctx)
		id = m.Cluster
		return err
	})
	return id
}

// holds requires that everything that was acknowledged is in the topic.
func (b *brokers) holds(acked map[int]bool) {
	b.t.Helper()
	var have map[int]int
	b.within("the ledger can be read", func(ctx context.Context) (err error) {
		have, err = client.ReadLedger(ctx, b.ledger(), ledger)
		return err
	})
	var lost []int
	for _, number := range slices.Sorted(maps.Keys(acked)) {
		if have[number] == 0 {
			lost = append(lost, number)
		}
	}
	require.Empty(b.t, lost, "acknowledged records of %d that are lost", len(acked))
}

// acknowledged waits until a ledger has so many more records acknowledged.
func (b *brokers) acknowledged(l *client.Ledger, more int) {
	b.t.Helper()
	before, err := l.Acknowledged()
	require.NoError(b.t, err)
	b.within(fmt.Sprintf("%d more records are acknowledged", more), func(context.Context) error {
		now, err := l.Acknowledged()
		require.NoError(b.t, err)
		if now < before+more {
			return fmt.Errorf("%d of them are", now-before)
		}
		return nil
	})
}

// cutAmidRecords takes the power from all brokers at once while records are produced, from number first on. It adds
// what was acknowledged, and returns the next number.
func (b *brokers) cutAmidRecords(acked map[int]bool, first int) int {
	b.t.Helper()
	l, err := client.StartLedger(b.ledger(), ledger, first)
	require.NoError(b.t, err)
	began := time.Now()
	b.acknowledged(l, 500+b.random.IntN(2000))
	b.PowerLoss(b.Nodes()...)
	more := l.Stop()
	b.t.Logf("all brokers lost power after %.1f s with %d acknowledged records", time.Since(began).Seconds(), len(more))
	maps.Copy(acked, more)
	return l.Next()
}

// waiting is what a status line says that the node waits for; empty when it does not.
func waiting(s vm.Status) string {
	var line struct {
		Waiting json.RawMessage `json:"waiting"`
	}
	_ = json.Unmarshal([]byte(s.Raw), &line) // It was read once already.
	return string(line.Waiting)
}

// waitsFor requires that a node says that it waits for each of those, and that the unit has not started.
func waitsFor(t *testing.T, s vm.Status, unit string, names ...string) {
	t.Helper()
	require.NotEqual(t, "active", s.Services[unit], s.Raw)
	for _, name := range names {
		require.Contains(t, waiting(s), name, s.Raw)
	}
}

// classArchive is the file that the JVM was told to map, or to write when it ends.
func (n *Node) classArchive() string {
	n.lab.t.Helper()
	_, path, found := strings.Cut(n.MustExec("cat", "/run/kafka/archive.args"), "-XX:SharedArchiveFile=")
	require.True(n.lab.t, found)
	path, _, _ = strings.Cut(path, "\n")
	return path
}

// mapped are the files that a unit's process has in its memory, as proc(5) lists them.
func (n *Node) mapped(unit string) string {
	n.lab.t.Helper()
	return n.MustExec("cat", "/proc/"+n.process(unit)+"/maps")
}

// killInStart kills the main process of a unit while ExecStartPost= waits for it to serve.
func (n *Node) killInStart(unit string) {
	n.lab.t.Helper()
	require.Eventually(n.lab.t, func() bool {
		text, err := n.Exec("systemctl", "show", unit, "-p", "SubState", "-p", "MainPID", "--value")
		fields := strings.Fields(text)
		if err != nil || !slices.Contains(fields, "start-post") {
			return false
		}
		_, err = n.Exec("systemctl", "kill", "--kill-whom=main", "--signal=KILL", unit)
		return err == nil
	}, bootLimit, 100*time.Millisecond, "%s starts %s", n.Facts.Name, unit)
}

// TestThreeBrokers runs three brokers that are controllers too.
func TestThreeBrokers(t *testing.T) {
	b := &brokers{Lab: New(t, Options{Source: "../..", Configs: "testdata/brokers", Secrets: map[string]string{
		"kafka-password-ledger": ledgerPassword, "kafka-password-admin": adminPassword,
	}})}
	b.StartAll()
	var err error
	b.client, err = client.NewKafka(b.as("admin", adminPassword))
	require.NoError(t, err)
	t.Cleanup(b.client.Close)
	b.admin = kadm.NewClient(b.client)
	first := b.threeVoters()
	id := b.clusterID()
	b.within("the ledger can be made", func(ctx context.Context) error {
		made, err := b.admin.CreateTopic(ctx, 6, -1, nil, ledger)
		return errors.Join(err, made.Err)
	})
	b.inSync()
	// All records that were ever acknowledged.
	acked := map[int]bool{}
	next := 0

	b.Step("each listens where its rows say, and nowhere else", b.listenWhereTheirRowsSay)
	b.Step("an operator sees topics, and moves copies off a broker, although the move is cut off once", func(t *testing.T) {
		out, said, ok := b.spore(t.Context(), "kafka topics", "--node", "kafka-2")
		require.True(t, ok, said)
		require.Regexp(t, `(?m)^`+ledger+` +6 +3 +0 +0$`, out)
		require.Contains(t, said, "all copies are in sync")
		out, said, ok = b.spore(t.Context(), "kafka lag")
		require.True(t, ok, said)
		require.Contains(t, out, "RECORDS BEHIND")
		out, said, ok = b.spore(t.Context(), "kafka quorum")
		require.True(t, ok, said)
		require.Regexp(t, `(?m)^kafka-[123] +leads +0 +-$`, out)
		require.Regexp(t, `(?m)^kafka-3 +up$`, out)
		_, said, ok = b.spore(t.Context(), "kafka move", "kafka-3")
		require.False(t, ok)
		require.Contains(t, said, "each of them has a copy already")
		const scratch = "scratch"
		b.within("another topic can be made", func(ctx context.Context) error {
			made, err := b.admin.CreateTopic(ctx, 3, 2, nil, scratch)
			return errors.Join(err, made.Err)
		})
		b.cutOff(b.Node("kafka-1"), time.Duration(b.random.IntN(1500))*time.Millisecond, "kafka move", "kafka-3", "--shrink", "--node", "kafka-1")
		began := time.Now()
		_, said, ok = b.spore(t.Context(), "kafka move", "kafka-3", "--shrink")
		require.True(t, ok, said)
		faults.Took(t, time.Since(began))
		b.within("kafka-3 has no copy", func(ctx context.Context) error {
			topics, err := b.admin.ListTopics(ctx)
			if err != nil {
				return err
			}
			for _, topic := range topics {
				for _, p := range topic.Partitions {
					if slices.Contains(p.Replicas, kafka.ID("kafka-3")) {
						return fmt.Errorf("%s-%d has", topic.Topic, p.Partition)
					}
				}
			}
			return nil
		})
		// Back to a copy on each, which the rest of the test is about.
		b.within("the topics are made anew", func(ctx context.Context) error {
			if _, err := b.admin.DeleteTopics(ctx, scratch, ledger); err != nil {
				return err
			}
			made, err := b.admin.CreateTopic(ctx, 6, -1, nil, ledger)
			return errors.Join(err, made.Err)
		})
		b.inSync()
	})
	b.Step("each runs with the heap of its environment file", func(t *testing.T) {
		for _, n := range b.Nodes() {
			n.runsWithItsFile(t, "kafka",
				[]string{"KAFKA_HEAP_OPTS=-Xmx384m", `KAFKA_JVM_PERFORMANCE_OPTS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"`},
				[]string{"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "kafka.Kafka"})
		}
	})
	b.Step("who is not known is refused", func(t *testing.T) {
		for name, c := range map[string]struct {
			o    client.KafkaOptions
			want string
		}{
			"a wrong password":  {b.as(ledger, "wrong"), "SASL_AUTHENTICATION_FAILED"},
			"an unknown user":   {b.as("nobody", ledgerPassword), "SASL_AUTHENTICATION_FAILED"},
			"another authority": {client.KafkaOptions{Seeds: b.ledger().Seeds, Roots: b.Authority("agent"), User: ledger, Password: ledgerPassword}, "unknown authority"},
		} {
			t.Run(name, func(t *testing.T) {
				c2, err := client.NewKafka(c.o, kgo.RequestRetries(0))
				require.NoError(t, err)
				defer c2.Close()
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				require.ErrorContains(t, c2.Ping(ctx), c.want)
			})
		}
	})
	var lost *Node
	var shown time.Time
	b.Step("one has the metrics of all", func(t *testing.T) { shown = b.metricsReachAll(t) })
	b.Step("a broker loses power amid acknowledged records, and none is lost", func(t *testing.T) {
		l, err := client.StartLedger(b.ledger(), ledger, next)
		require.NoError(t, err)
		b.acknowledged(l, 500+b.random.IntN(2000))
		// The one that leads the controllers, and its part of the ledger.
		q, err := b.quorum(t.Context())
		require.NoError(t, err)
		lost = b.byID(q.leader)
		require.NotZero(t, b.leaders()[lost], "it leads some of the ledger")
		lost.PowerLoss()
		b.acknowledged(l, 2000)
		maps.Copy(acked, l.Stop())
		next = l.Next()
		require.Zero(t, b.leaders()[lost])
		b.holds(acked)

		lost.Start()
		lost.Running()
		b.inSync()
		require.Equal(t, first.voters, b.threeVoters().voters, "it is the same voter")
	})
	b.Step("what it caught up with is whole", func(t *testing.T) {
		// Another one goes, so that what it led is read from the one that was away.
		lost = b.Nodes()[(slices.Index(b.Nodes(), lost)+1)%3]
		l, err := client.StartLedger(b.ledger(), ledger, next)
		require.NoError(t, err)
		b.acknowledged(l, 500)
		lost.PowerLoss()
		b.acknowledged(l, 500)
		maps.Copy(acked, l.Stop())
		next = l.Next()
		b.holds(acked)
		lost.Start()
		lost.Running()
		b.inSync()
	})
	b.Step("one keeps the metrics of all, also over losses of power", func(t *testing.T) { b.metricsAreKept(t, shown) })
	b.Step("no journal has a secret", b.journalsHaveNoSecret)
	b.Step("a broker that was switched off in order starts from the archive of classes that it wrote then", func(t *testing.T) {
		// It has lost power or was never off, and a JVM that is killed writes none.
		n := lost
		archive := n.classArchive()
		require.NotContains(t, n.mapped("kafka.service"), archive)
		n.Stop()
		n.Start()
		n.killInStart("kafka.service") // whose start goes on with another process
		n.Running()
		require.Equal(t, archive, n.classArchive(), "nothing changed that it is made of")
		require.Contains(t, n.mapped("kafka.service"), archive)
		b.inSync()
		b.holds(acked)
	})
	wiped := b.Node("kafka-1") // The first by name: the one that would write the record of a first formation.
	b.Step("a controller that was wiped joins again, as another voter", func(t *testing.T) {
		wiped.PowerLoss()
		wiped.WipeState()
		wiped.NewBundle()
		wiped.Start()
		wiped.Running()
		b.inSync()
		q := b.threeVoters()
		self := kafka.ID(wiped.Facts.Name)
		for node, directory := range q.voters {
			if node == self {
				require.NotEqual(t, first.voters[node], directory, "what it was is gone")
			} else {
				require.Equal(t, first.voters[node], directory)
			}
		}
		require.Equal(t, id, b.clusterID())
		b.holds(acked)
	})
	b.Step("a controller that was wiped waits alone, and says for whom", func(t *testing.T) {
		next = b.cutAmidRecords(acked, next)
		wiped.WipeState()
		wiped.NewBundle()
		wiped.Start()
		s := wiped.Await("a controller that waits", func(s vm.Status) bool { return waiting(s) != "" })
		waitsFor(t, s, "kafka.service", "kafka-2", "kafka-3")
		metadata := filepath.Join(wiped.Var(), "lib", "kafka", "metadata", "__cluster_metadata-0")
		controller := net.JoinHostPort(wiped.IP(), "9094")
		wiped.silent(quietForVoter, metadata, "9094")
		b.Node("kafka-2").Start()
		b.Node("kafka-3").Start()
		for _, n := range b.Nodes() {
			n.Running()
		}
		b.inSync()
		b.threeVoters()
		require.DirExists(t, metadata)
		conn, err := net.DialTimeout("tcp", controller, time.Minute)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Equal(t, id, b.clusterID())
		b.holds(acked)
	})
	b.Step("all of them lose power at once amid acknowledged records, and none is lost", func(t *testing.T) {
		b.cutAmidRecords(acked, next)
		b.StartAll()
		b.inSync()
		b.holds(acked)
		require.Greater(t, len(acked), 5000)
	})
}
