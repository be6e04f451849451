//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	plan "spore/builder/rehearsal"
	"spore/builder/vm"
	"spore/test/chance"
	"spore/test/client"
	"spore/test/powercut"
)

const (
	kafkaIP    = "10.77.0.14"
	kafkaMAC   = "52:54:00:77:00:14"
	kafkaTopic = "measurements.line-1"
	// kafkaAddress is what the broker tells its clients to connect to.
	kafkaAddress = kafkaIP + ":9092"
	// kafkaDiskSize is that of the data disk in bytes.
	kafkaDiskSize = 2 << 30
	// kafkaLimit bounds what a client waits for an emulated broker.
	kafkaLimit = 5 * time.Minute
	// kafkaRecords are acknowledged before the power goes.
	kafkaRecords = 300
)

// kafkaPasswords are those of the users. The sensor writes, and the historian reads.
var kafkaPasswords = map[string]string{"admin": "admin #1", "sensor": "sensor-pässword", "historian": "historian's"}

// kafkaMachine is kafka-01 of configs/.
type kafkaMachine struct {
	*plant
	t      *testing.T
	bundle []byte
	boots  []kafkaBoot
}

// kafkaBoot is a boot until Kafka serves.
type kafkaBoot struct {
	what   string
	line   vm.Line
	status vm.Status
}

func newKafkaMachine(t *testing.T) *kafkaMachine {
	t.Helper()
	secrets := map[string]string{}
	for user, password := range kafkaPasswords {
		secrets["kafka-password-"+user] = password
	}
	p, err := buildPlant("configs", t.TempDir(), secrets, "disk")
	require.NoError(t, err)
	return &kafkaMachine{plant: p, t: t, bundle: p.bundle(t, "kafka-01")}
}

// disks are a boot disk with the image and a blank data disk.
func (k *kafkaMachine) disks() (system, data string) {
	dir := k.t.TempDir()
	system, data = filepath.Join(dir, "system.img"), filepath.Join(dir, "data.img")
	require.NoError(k.t, vm.Copy(k.image, system, diskSize))
	f, err := os.Create(data)
	require.NoError(k.t, err)
	require.NoError(k.t, f.Truncate(kafkaDiskSize))
	require.NoError(k.t, f.Close())
	return system, data
}

// memory is what spore boot gives the machine, in MiB.
func (k *kafkaMachine) memory() int {
	k.t.Helper()
	n, err := k.node("kafka-01")
	require.NoError(k.t, err)
	return plan.Memory(&k.cluster, n)
}

// boot starts the machine; a log of the writes to each disk goes beside it where logged is set.
func (k *kafkaMachine) boot(name, system, data string, logged bool) *guest {
	k.t.Helper()
	c := vm.Config{
		Name: name, Memory: k.memory(), SMBIOS: vm.SMBIOS{Serial: "KAFKA-TEST", UUID: "3a5b8f0e-0000-4000-8000-000000000041", Credentials: map[string][]byte{"spore.bundle": k.bundle}},
		// The data is behind a controller whose driver nothing else needs.
		Disks: []vm.Disk{bootDisk(system), {Path: data, Serial: "KAFKA-01-DATA", Bus: "sata"}},
		NICs:  []vm.NIC{{MAC: kafkaMAC, Net: network, DHCPStart: "10.77.0.60", Forwards: []vm.Forward{{Protocol: "tcp", Guest: kafkaIP + ":9092"}}}},
	}
	if logged {
		for i := range c.Disks {
			c.Disks[i].WriteLog = c.Disks[i].Path + ".writes"
		}
	}
	return boot(k.t, c)
}

// serving waits until Kafka serves on a system in which nothing failed.
func (k *kafkaMachine) serving(g *guest, what string) vm.Status {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*kafkaLimit) // JVMs are slow in emulation
	defer cancel()
	s, line, mark, err := g.Console.AwaitStatus(ctx, g.mark, "a status line of a running system", func(s vm.Status) bool {
		return s.System == "running" && s.Times["running"] > 0
	})
	require.NoError(k.t, err)
	g.mark = mark
	require.Empty(k.t, s.Failed, s.Raw)
	require.Equal(k.t, "active", s.Services["kafka.service"], s.Raw)
	require.Equal(k.t, []string{"kafka-broker"}, s.Roles)
	require.Empty(k.t, s.Held)
	k.boots = append(k.boots, kafkaBoot{what, line, s})
	return s
}

// bounded is a context for what clients ask of one boot. The boots themselves have bounds of their own.
func (k *kafkaMachine) bounded() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*kafkaLimit)
	k.t.Cleanup(cancel)
	return ctx
}

// as is a user who comes through the forwarded port.
func (k *kafkaMachine) as(g *guest, user, password string) client.KafkaOptions {
	k.t.Helper()
	address, err := g.Address("tcp", kafkaIP+":9092")
	require.NoError(k.t, err)
	return client.KafkaOptions{
		Seeds: []string{kafkaAddress}, Roots: k.authority(k.t, "kafka"), User: user, Password: password,
		Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
			if to != kafkaAddress {
				return nil, fmt.Errorf("the broker has its clients connect to %s", to)
			}
			return (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, network, address)
		},
	}
}

// topic makes the topic, as the administrator.
func (k *kafkaMachine) topic(ctx context.Context, g *guest) {
	k.t.Helper()
	c, err := client.NewKafka(k.as(g, "admin", kafkaPasswords["admin"]))
	require.NoError(k.t, err)
	defer c.Close()
	_, err = kadm.NewClient(c).CreateTopic(ctx, 1, -1, nil, kafkaTopic)
	if !errors.Is(err, kerr.TopicAlreadyExists) { // The client asks again when a slow broker does not answer in time.
		require.NoError(k.t, err)
	}
}

// One Kafka node serves clients outside, with the disk that it prepares at its first start.
func TestOneKafkaNodeServes(t *testing.T) {
	inTurn(t)
	k := newKafkaMachine(t)
	system, data := k.disks()
	g := k.boot("kafka-first", system, data, false)
	k.serving(g, "first boot, which forms the cluster")
	ctx := k.bounded()
	sensor, historian := k.as(g, "sensor", kafkaPasswords["sensor"]), k.as(g, "historian", kafkaPasswords["historian"])

	t.Run("a topic is made, written and read", func(t *testing.T) {
		k.topic(ctx, g)
		s, err := client.NewKafka(sensor)
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.ProduceSync(ctx, &kgo.Record{Topic: kafkaTopic, Value: []byte("0")}).FirstErr())
		got, err := client.ReadLedger(k.bounded(), historian, kafkaTopic)
		require.NoError(t, err)
		require.Equal(t, map[int]int{0: 1}, got)
	})
	t.Run("a wrong user and a foreign authority are refused", func(t *testing.T) {
		stranger, wrong, foreign := sensor, sensor, sensor
		stranger.User, wrong.Password, foreign.Roots = "stranger", "wrong", k.authority(t, "agent")
		for name, tt := range map[string]struct {
			as   client.KafkaOptions
			want string
		}{
			"a user that there is not": {stranger, "SASL_AUTHENTICATION_FAILED"},
			"a wrong password":         {wrong, "SASL_AUTHENTICATION_FAILED"},
			"a foreign authority":      {foreign, "x509"},
		} {
			c, err := client.NewKafka(tt.as, kgo.RetryTimeout(time.Minute))
			require.NoError(t, err)
			short, cancel := context.WithTimeout(ctx, kafkaLimit)
			require.ErrorContains(t, c.Ping(short), tt.want, name)
			cancel()
			c.Close()
		}
	})
	g.off()
	k.report()
}

// One Kafka node loses power in acknowledged production, with a disk that loses what it was not told to flush. That
// brokers lose nothing with what they have synced is shown by TestThreeBrokers (test/nspawn) in each run.
func TestOneKafkaNodeKeepsWhatItAcknowledgedAfterAPowerCut(t *testing.T) {
	inTurn(t)
	if os.Getenv("SPORE_SOAK") == "" {
		t.Skip("elsewhere: `make soak` runs it, by SPORE_SOAK")
	}
	k := newKafkaMachine(t)
	system, data := k.disks()
	g := k.boot("kafka-first", system, data, true)
	k.serving(g, "first boot, which forms the cluster")
	k.topic(k.bounded(), g)
	ledger, err := client.StartLedger(k.as(g, "sensor", kafkaPasswords["sensor"]), kafkaTopic, 0)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		n, err := ledger.Acknowledged()
		require.NoError(t, err)
		return n >= kafkaRecords
	}, kafkaLimit, 50*time.Millisecond, "%d records are acknowledged", kafkaRecords)
	g.off() // While records are under way.
	acknowledged := ledger.Stop()

	// The power goes with the last write that the disks were sent. Of those that they had not been told to flush, some are
	// lost.
	seed := chance.Seed(t)
	systemLog, dataLog := readLog(t, system+".writes"), readLog(t, data+".writes")
	afterSystem, afterData := k.disks()
	for log, path := range map[*powercut.Log]string{systemLog: afterSystem, dataLog: afterData} {
		cut := log.CutAtEnd(seed)
		t.Logf("%s: %s", filepath.Base(path), cut)
		replay(t, log, cut, path)
	}

	g = k.boot("kafka-after-cut", afterSystem, afterData, false)
	k.serving(g, "boot after the power cut, without the archive")
	got, err := client.ReadLedger(k.bounded(), k.as(g, "historian", kafkaPasswords["historian"]), kafkaTopic)
	require.NoError(t, err)
	for number := range acknowledged {
		require.Contains(t, got, number, "record %d was acknowledged", number)
	}
	t.Logf("%d records were acknowledged, %d are there", len(acknowledged), len(got))
	g.off()
	k.report()
}

// report prints what each boot took until Kafka served, and what it took of that by itself.
func (k *kafkaMachine) report() {
	text := "\nKafka on one emulated machine\n\n| boot | kafka.service active, s since its kernel's start | wall s / CPU-s of QEMU so far |\n|---|---|---|\n"
	for _, b := range k.boots {
		text += fmt.Sprintf("| %s | %.0f | %.0f / %.0f |\n", b.what, b.status.Times["running"], b.line.Wall.Seconds(), b.line.CPU.Seconds())
	}
	fmt.Print(text)
	writeResult("kafka.md", text)
}
