//go:build e2e

package services

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"spore/agent/render"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services"
	"spore/services/kafka"
	"spore/services/kafka/kraft"
	kafkanode "spore/services/kafka/node"
	"spore/services/rendering"
	"spore/test/imageroot"
)

// kafkaLab is a cluster of Kafka whose nodes are addresses of the loopback interface. Java and Kafka are those of an image,
// with rendered configuration and the secrets of their nodes' bundles.
type kafkaLab struct {
	t       *testing.T
	ctx     context.Context
	root    *imageroot.Root
	java    string // the image's
	dir     string
	cluster *facts.Cluster
	hosts   []byte
	tree    *pki.Tree
	nodes   []*kafkaNode
	known   []facts.Node
}

type kafkaNode struct {
	*kafkaLab
	facts.Node
	dir     string // its /var/lib, /run and credentials
	secrets map[string]string
	log     bytes.Buffer
	cmd     *exec.Cmd
	done    chan error
}

// newKafkaLab makes a cluster of a services/kafka.yaml and nodes with these roles.
func newKafkaLab(t *testing.T, settings string, roles ...string) *kafkaLab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	l := &kafkaLab{t: t, ctx: ctx, dir: t.TempDir()}
	l.root, l.java = programOfImage(t, "/usr/bin/java")
	l.configure(settings, roles...)
	return l
}

// configure gives the cluster another configuration; nodes keep their data.
func (l *kafkaLab) configure(settings string, roles ...string) {
	l.t.Helper()
	var b strings.Builder
	b.WriteString("name: plant\nid: 0b9c4f62-7d53-4a1e-8f7c-4d1f2a3b5c6d\ndomain: plant.example\nnetwork:\n  nodeSubnets: [10.77.71.0/24]\nservices: [kafka]\nnodes:\n")
	for i, r := range roles {
		fmt.Fprintf(&b, "  - name: kafka-%02d\n    serial: K%d\n    ips: [10.77.71.%d]\n    roles: [%s]\n", i+1, i+1, i+1, r)
	}
	c, report := cluster.Load(fstest.MapFS{
		"cluster.yaml": {Data: []byte(b.String())}, "services/kafka.yaml": {Data: []byte(settings)}, "image.yaml": {Data: []byte("kernel: cloud\n")},
	})
	require.NoError(l.t, report.Err())
	shared, nodes := cluster.Facts(c)
	files, err := cluster.Compile(c)
	require.NoError(l.t, err)
	for i := range nodes { // No configuration takes addresses of loopback.
		nodes[i].IPs = []string{fmt.Sprintf("127.0.71.%d", i+1)}
	}
	l.cluster, l.known, l.hosts = &shared, nodes, bytes.ReplaceAll(files[facts.HostsFile], []byte("10.77.71."), []byte("127.0.71."))
	if l.tree == nil {
		l.tree = pki.New(&shared)
	}
	_, err = l.tree.Update(&shared, nodes, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(l.t, err)
	for name, data := range l.tree.Public().Files() {
		path := filepath.Join(l.dir, name)
		require.NoError(l.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(l.t, os.WriteFile(path, data, 0o644))
	}
	for i := range nodes {
		if i == len(l.nodes) {
			n := &kafkaNode{kafkaLab: l, dir: filepath.Join(l.dir, nodes[i].Name)}
			for _, d := range []string{"lib", "run"} {
				require.NoError(l.t, os.MkdirAll(filepath.Join(n.dir, d), 0o700))
			}
			l.nodes = append(l.nodes, n)
			l.t.Cleanup(n.kill)
		}
		l.nodes[i].Node = nodes[i]
		l.nodes[i].takeBundle()
	}
}

// takeBundle opens the node's bundle as it is now.
func (n *kafkaNode) takeBundle() {
	now := time.Now()
	data, err := n.tree.BundleFor(n.cluster, &n.Node, now)
	require.NoError(n.t, err)
	keys, err := n.tree.Public().SigningKeys()
	require.NoError(n.t, err)
	got, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: n.cluster.ID, Node: n.Name, Keys: keys})
	require.NoError(n.t, err)
	n.secrets = got.Secrets
}

// render writes what `spore-agent render kafka` would, with this node's own places.
func (n *kafkaNode) render() {
	n.t.Helper()
	run := filepath.Join(n.dir, "run")
	files, err := render.Render("kafka", rendering.Input{
		Cluster: n.cluster, Node: &n.Node, Hosts: bytes.NewReader(n.hosts), Memory: 1 << 30, Dir: run,
		Secret: func(ref string) ([]byte, error) {
			s, ok := n.secrets[ref]
			if !ok {
				return nil, fmt.Errorf("no secret %s", ref)
			}
			return []byte(s), nil
		},
	})
	require.NoError(n.t, err)
	places := strings.NewReplacer(
		"/var/lib/kafka", filepath.Join(n.dir, "lib"), "/usr/share/kafka", n.root.At("/usr/share/kafka"),
		"/run/spore/trust", filepath.Join(n.kafkaLab.dir, pki.PublicDir), "CLIENT://:", "CLIENT://"+n.IPs[0]+":",
	)
	for name, f := range files {
		files[name] = rendering.File{Data: []byte(places.Replace(string(f.Data))), Mode: f.Mode}
	}
	require.NoError(n.t, render.Write(run, files))
}

// at is where a path below /var/lib/kafka is.
func (n *kafkaNode) at(path string) string {
	return strings.Replace(path, "/var/lib/kafka", filepath.Join(n.dir, "lib"), 1)
}

func (n *kafkaNode) storage() *kraft.Storage {
	s := &kraft.Storage{Metadata: filepath.Join(n.dir, "lib/metadata"), Cluster: n.secrets["kafka-cluster-id"], Node: kafka.ID(n.Name)}
	if slices.Contains(kafka.Brokers(n.cluster), n.Name) {
		disks, data := kafkanode.Logs(&n.Node)
		for _, d := range disks {
			s.Disks = append(s.Disks, n.at(d))
		}
		if data != "" {
			s.Data = n.at(data)
		}
	}
	return s
}

// tool runs Kafka's StorageTool.
func (n *kafkaNode) tool(ctx context.Context, arguments []string) error {
	cmd := exec.CommandContext(ctx, n.root.At("/usr/bin/kafka-storage"), arguments...)
	cmd.Env = []string{"PATH=" + filepath.Dir(n.java) + ":/usr/bin:/bin", "LANG=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// voters are the controllers, each of its first incarnation.
func (l *kafkaLab) voters() []kraft.Voter {
	var out []kraft.Voter
	for _, n := range l.nodes {
		if slices.Contains(kafka.Controllers(l.cluster), n.Name) {
			out = append(out, kraft.Voter{
				Node: kafka.ID(n.Name), Address: net.JoinHostPort(n.IPs[0], strconv.Itoa(kafka.ControllerPort)),
				Directory: kraft.DirectoryID(n.secrets["kafka-cluster-id"], n.Name, "first"),
			})
		}
	}
	return out
}

// format makes the storage of a controller that forms, or of a node that joins.
func (n *kafkaNode) format(voters []kraft.Voter) {
	n.t.Helper()
	n.render()
	s := n.storage()
	require.NoError(n.t, s.Check())
	require.NoError(n.t, s.Clear())
	run := filepath.Join(n.dir, "run")
	require.NoError(n.t, s.Format(n.ctx, voters, filepath.Join(run, "server.properties"), filepath.Join(run, "format.properties"), n.tool))
	require.NoFileExists(n.t, filepath.Join(run, "format.properties"))
}

// start starts Kafka as its unit does.
func (n *kafkaNode) start() {
	n.t.Helper()
	n.render()
	require.NoError(n.t, os.MkdirAll(filepath.Join(n.dir, "lib/cds"), 0o700))
	run := filepath.Join(n.dir, "run")
	n.cmd = exec.Command(n.java, append(n.options(), "@"+filepath.Join(run, "jvm.args"), "kafka.Kafka", filepath.Join(run, "server.properties"))...)
	n.cmd.Stdout, n.cmd.Stderr = &n.log, &n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(n.t, n.cmd.Start())
	n.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait(); close(done) }(n.cmd, n.done)
}

// options are the words that its unit takes from kafka.env.
func (n *kafkaNode) options() []string {
	var out []string
	for line := range strings.Lines(string(services.Environment(n.cluster, &n.Node, 1<<30)["kafka.env"])) {
		_, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		out = append(out, strings.Fields(strings.Trim(value, `"`))...)
	}
	require.NotEmpty(n.t, out)
	return out
}

// ready waits until it serves, as ExecStartPost does.
func (n *kafkaNode) ready() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.ctx, 2*time.Minute)
	defer cancel()
	port, ready := kafka.ControllerPort, kraft.ControllerReady
	if slices.Contains(kafka.Brokers(n.cluster), n.Name) {
		port, ready = kafka.BrokerPort, func(ctx context.Context, c *kraft.Conn) error {
			return kraft.BrokerReady(ctx, c, kafka.ID(n.Name))
		}
	}
	go func() {
		select {
		case <-n.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := kraft.Await(ctx, n.Name, func(s string) { n.t.Log(s) }, func(ctx context.Context) error {
		c, err := kraft.Dial(ctx, net.JoinHostPort(n.IPs[0], strconv.Itoa(port)), n.identity())
		if err != nil {
			return err
		}
		defer c.Close()
		return ready(ctx, c)
	})
	if err != nil {
		n.t.Logf("log of %s:\n%s", n.Name, n.log.String())
	}
	require.NoError(n.t, err)
	requireOfImage(n.t, n.cmd.Process.Pid, "/usr/bin/java")
}

// identity is the node's own certificate.
func (n *kafkaNode) identity() *tls.Config {
	pair, err := tls.X509KeyPair([]byte(n.secrets["kafka-broker-certificate"]), []byte(n.secrets["kafka-broker-key"]))
	require.NoError(n.t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: n.roots("kafka")}
}

func (l *kafkaLab) roots(authority string) *x509.CertPool {
	p := x509.NewCertPool()
	require.True(l.t, p.AppendCertsFromPEM(l.tree.Public().Files()[pki.PublicDir+"/"+authority+".crt"]))
	return p
}

// bootstrap gives Kafka its users and rights, as `spore-agent kafka` does.
func (n *kafkaNode) bootstrap() kraft.Done {
	n.t.Helper()
	users := map[string]kraft.Credential{}
	refs := map[string]string{kafka.Admin: "kafka-scram-admin"}
	for _, u := range kafka.Of(n.cluster.Services).Users {
		refs[u.Name] = u.Password.SecretRef
	}
	for name, ref := range refs {
		c, err := kraft.ParseCredential([]byte(n.secrets[ref]))
		require.NoError(n.t, err, ref)
		users[name] = c
	}
	rules, err := kraft.Rules(kafka.Of(n.cluster.Services).Users)
	require.NoError(n.t, err)
	c, err := kraft.Dial(n.ctx, net.JoinHostPort(n.IPs[0], strconv.Itoa(kafka.BrokerPort)), n.identity())
	require.NoError(n.t, err)
	defer c.Close()
	done, err := c.Apply(n.ctx, users, rules)
	require.NoError(n.t, err)
	return done
}

// setDefaults sets what the metadata keeps of the configuration, as `spore-agent kafka` does.
func (n *kafkaNode) setDefaults() []string {
	n.t.Helper()
	c, err := kraft.Dial(n.ctx, net.JoinHostPort(n.IPs[0], strconv.Itoa(kafka.BrokerPort)), n.identity())
	require.NoError(n.t, err)
	defer c.Close()
	_, inSync := kafka.Replication(n.cluster)
	changed, err := c.SetDefaults(n.ctx, map[string]string{"min.insync.replicas": strconv.Itoa(inSync)})
	require.NoError(n.t, err)
	return changed
}

// minInSync is how many copies a topic's acknowledged records have at least.
func (l *kafkaLab) minInSync(topic string) string {
	l.t.Helper()
	r, err := kadm.NewClient(l.as("admin")).DescribeTopicConfigs(l.ctx, topic)
	require.NoError(l.t, err)
	for _, c := range r[0].Configs {
		if c.Key == "min.insync.replicas" {
			return c.MaybeValue()
		}
	}
	return ""
}

// stop ends Kafka as systemd does.
func (n *kafkaNode) stop() {
	n.t.Helper()
	require.NoError(n.t, n.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-n.done:
		require.Equal(n.t, 143, n.cmd.ProcessState.ExitCode(), "as SuccessExitStatus= of the unit has it")
	case <-time.After(2 * time.Minute):
		require.Fail(n.t, "Kafka does not end", n.log.String())
	}
	n.cmd = nil
}

func (n *kafkaNode) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		<-n.done
		n.cmd = nil
	}
}

// password is what the operator has of a user.
func (l *kafkaLab) password(user string) string {
	id := "kafka-password-admin"
	if user != kafka.Admin {
		id = "kafka-password/kafka-password-" + user
	}
	s := l.tree.Secrets[id]
	require.NotNil(l.t, s, id)
	return string(s.Value)
}

// client is a client outside the cluster, with all brokers for seeds.
func (l *kafkaLab) client(user, password string, options ...kgo.Opt) *kgo.Client {
	l.t.Helper()
	var seeds []string
	for _, n := range l.nodes {
		if slices.Contains(kafka.Brokers(l.cluster), n.Name) {
			seeds = append(seeds, net.JoinHostPort(n.IPs[0], strconv.Itoa(kafka.ClientPort)))
		}
	}
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.DialTLSConfig(&tls.Config{RootCAs: l.roots("kafka")}),
		kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), kgo.RetryTimeout(20 * time.Second),
	}, options...)...)
	require.NoError(l.t, err)
	l.t.Cleanup(c.Close)
	return c
}

// as is a client with the right password.
func (l *kafkaLab) as(user string, options ...kgo.Opt) *kgo.Client {
	return l.client(user, l.password(user), options...)
}

// topic makes a topic.
func (l *kafkaLab) topic(name string, partitions int32) {
	l.t.Helper()
	r, err := kadm.NewClient(l.as("admin")).CreateTopic(l.ctx, partitions, -1, nil, name)
	require.NoError(l.t, err)
	require.NoError(l.t, r.Err)
}

// produce writes records with acks=all.
func (l *kafkaLab) produce(c *kgo.Client, topic string, values ...string) error {
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	return c.ProduceSync(l.ctx, records...).FirstErr()
}

// consume reads n records from the beginning.
func (l *kafkaLab) consume(user, topic string, n int) []string {
	l.t.Helper()
	c := l.as(user, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	defer cancel()
	var out []string
	for len(out) < n {
		f := c.PollFetches(ctx)
		require.NoError(l.t, f.Err(), "%d of %d records", len(out), n)
		f.EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
	}
	slices.Sort(out)
	return out
}

// anonymous is a client that does not say who it is.
func (l *kafkaLab) anonymous() *kgo.Client {
	c, err := kgo.NewClient(kgo.SeedBrokers(net.JoinHostPort(l.nodes[0].IPs[0], strconv.Itoa(kafka.ClientPort))),
		kgo.DialTLSConfig(&tls.Config{RootCAs: l.roots("kafka")}), kgo.RetryTimeout(5*time.Second))
	require.NoError(l.t, err)
	l.t.Cleanup(c.Close)
	return c
}

// agentIdentity is a certificate of the node that is of another authority. It is shown although the listener names the authorities
// that it takes; a client of Go would show none, and be refused for that.
func (l *kafkaLab) agentIdentity(n *kafkaNode) *tls.Config {
	pair, err := tls.X509KeyPair([]byte(n.secrets["agent-certificate"]), []byte(n.secrets["agent-key"]))
	require.NoError(l.t, err)
	return &tls.Config{RootCAs: l.roots("kafka"), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
}

// refusal is the error of a client that asks a listener for brokers and controllers. What it has written when it is refused may have
// the server reset the connection, and the reason is lost; it then asks again.
func (l *kafkaLab) refusal(address string, config *tls.Config) error {
	for {
		c, err := kraft.Dial(l.ctx, address, config)
		if err == nil { // TLS 1.3: the client is done before the server looks at its certificate
			err = kraft.ControllerReady(l.ctx, c)
			c.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) || l.ctx.Err() != nil {
			return err
		}
	}
}

// bring gives a secret another value, and nodes the bundles with it.
func (l *kafkaLab) bring(secret, value string) {
	_, err := l.tree.Update(l.cluster, l.known, pki.Options{Now: time.Now(), Random: rand.Reader, Given: map[string]pki.Hidden{secret: pki.Hidden(value)}})
	require.NoError(l.t, err)
	for _, n := range l.nodes {
		n.takeBundle()
	}
}

// quorum lists the directory ids of the voters, with their nodes.
func (l *kafkaLab) quorum() map[string]int32 {
	q := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	q.Topics = append(q.Topics, topic)
	r, err := q.RequestWith(l.ctx, l.as("admin"))
	require.NoError(l.t, err)
	out := map[string]int32{}
	for _, v := range r.Topics[0].Partitions[0].CurrentVoters {
		out[base64.RawURLEncoding.EncodeToString(v.ReplicaDirectoryID[:])] = v.ReplicaID
	}
	return out
}
