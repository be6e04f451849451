//go:build e2e

// Package services holds the rendered configuration of each service program against the program itself.
package services

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/config/live"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/test/client"
	"spore/test/testca"
)

// brokerUser is whom brokers run as when root runs the tests: on a node they are started as a user of their own.
const brokerUser = 65534

// example is the cluster of a folder of examples/ as a node sees it.
func example(t *testing.T, folder, node string) (*facts.Cluster, *facts.Node, []byte) {
	t.Helper()
	c, report := cluster.LoadDir("../../examples/" + folder)
	require.NoError(t, report.Err())
	shared, nodes := cluster.Facts(c)
	files, err := cluster.Compile(c)
	require.NoError(t, err)
	for i := range nodes {
		if nodes[i].Name == node {
			return &shared, &nodes[i], files[facts.HostsFile]
		}
	}
	t.Fatalf("examples/%s has no node %s", folder, node)
	return nil, nil, nil
}

// broker is the image's mosquitto with the files that a node makes.
type broker struct {
	t    *testing.T
	kind brokerKind
	// dir has all of its files: its certificate and key in live, what it keeps in state, and its settings in the file
	// conf.
	dir, live, state, conf string
	port                   int
	ca                     *testca.CA
	passwords              map[string]string
	cmd                    *exec.Cmd
	log                    bytes.Buffer
}

func newBroker(t *testing.T, k brokerKind) *broker {
	t.Helper()
	ca, err := testca.New("test")
	require.NoError(t, err)
	cert, key, err := ca.Server("edge-01.plant.example", "127.0.0.1")
	require.NoError(t, err)
	secrets := map[string][]byte{
		k.certificate: cert, k.key: key,
		k.passwords["sensor"]: []byte("sensor password\n"), k.passwords["operator"]: []byte("ü$ #:operator"),
	}
	b := brokerWith(t, k, secrets)
	b.ca, b.passwords = ca, map[string]string{"sensor": "sensor password", "operator": "ü$ #:operator"}
	return b
}

// brokerWith makes a broker with the secrets of its bundle.
func brokerWith(t *testing.T, k brokerKind, secrets map[string][]byte) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	b := k.node(t, k, secrets, port)
	b.t, b.kind, b.port = t, k, port
	b.lay(string(secrets[k.certificate]), string(secrets[k.key]))
	require.NoError(t, os.MkdirAll(b.state, 0o700))
	b.own()
	t.Cleanup(b.kill)
	return b
}

// lay gives it a certificate and key as the agent does, which lays them for a program that reads them again.
func (b *broker) lay(certificate, key string) {
	b.t.Helper()
	group := os.Getgid()
	if os.Getuid() == 0 {
		group = brokerUser
	}
	_, err := live.Lay(b.live, b.kind.program, group, map[string]string{b.kind.certificate: certificate, b.kind.key: key})
	require.NoError(b.t, err)
}

// own gives the files to the user that mosquitto runs as.
func (b *broker) own() {
	if os.Getuid() != 0 {
		return
	}
	require.NoError(b.t, filepath.WalkDir(b.dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(p, brokerUser, brokerUser)
	}))
	for d := b.dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		require.NoError(b.t, os.Chmod(d, 0o755))
	}
}

func (b *broker) start() {
	b.t.Helper()
	_, mosquitto := programOfImage(b.t, "/usr/sbin/mosquitto")
	b.cmd = exec.Command(mosquitto, "-c", b.conf)
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		b.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: brokerUser, Gid: brokerUser}
	}
	require.NoError(b.t, b.cmd.Start())
	require.Eventually(b.t, func() bool {
		c, err := net.Dial("tcp", b.address())
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond, "mosquitto does not listen")
	requireOfImage(b.t, b.cmd.Process.Pid, "/usr/sbin/mosquitto")
}

func (b *broker) kill() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill() // an error means that it has ended
	_ = b.cmd.Wait()         // always "killed"
	b.cmd = nil
	if b.t.Failed() {
		b.t.Log(b.log.String())
	}
}

func (b *broker) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

func (b *broker) dial(user string, change func(*client.MQTTOptions)) (*client.MQTT, error) {
	o := client.MQTTOptions{Address: b.address(), ServerName: "edge-01.plant.example", Roots: b.ca.Pool(), ID: "t-" + user, User: user, Password: b.passwords[user]}
	if change != nil {
		change(&o)
	}
	return client.DialMQTT(o)
}

func TestMosquittoTakesTheRenderedConfiguration(t *testing.T) { eachBroker(t, takesTheConfiguration) }

func takesTheConfiguration(t *testing.T, k brokerKind) {
	b := newBroker(t, k)
	b.start()

	t.Run("users publish and subscribe by their lists", func(t *testing.T) {
		op, err := b.dial("operator", nil)
		require.NoError(t, err)
		defer op.Close()
		require.NoError(t, op.Subscribe("sensors/#"))
		s, err := b.dial("sensor", nil)
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.Publish("sensors/a", "1", false))
		m, err := op.Await("sensors/a", 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, client.Message{Payload: "1"}, m)
	})
	t.Run("a topic that is not on the list is not delivered", func(t *testing.T) {
		op, err := b.dial("operator", nil)
		require.NoError(t, err)
		defer op.Close()
		require.NoError(t, op.Subscribe("commands/#"))
		s, err := b.dial("sensor", nil)
		require.NoError(t, err)
		defer s.Close()
		// The protocol has no refusal for it (MQTT 3.1.1, 3.3.5): the broker takes the message and drops it.
		require.NoError(t, s.Publish("commands/open", "1", false))
		require.NoError(t, op.Publish("commands/last", "1", false))
		_, err = op.Await("commands/last", 10*time.Second)
		require.NoError(t, err)
		require.Empty(t, op.Messages("commands/open"))
	})
	for _, tt := range []struct {
		name, user, want string
		change           func(*client.MQTTOptions)
	}{
		{"a wrong password", "sensor", "not Authorized", func(o *client.MQTTOptions) { o.Password = "x" }},
		{"another user's password", "sensor", "not Authorized", func(o *client.MQTTOptions) { o.Password = b.passwords["operator"] }},
		{"an unknown user", "nobody", "not Authorized", nil},
		{"no name at all", "", "not Authorized", nil},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			_, err := b.dial(tt.user, tt.change)
			require.ErrorContains(t, err, tt.want)
		})
	}
	t.Run("a foreign authority is refused by the client", func(t *testing.T) {
		other, err := testca.New("foreign")
		require.NoError(t, err)
		_, err = b.dial("sensor", func(o *client.MQTTOptions) { o.Roots = other.Pool() })
		require.ErrorContains(t, err, "certificate signed by unknown authority")
	})
	t.Run("mosquitto_pub connects too", func(t *testing.T) {
		ca := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(ca, b.ca.PEM(), 0o600))
		out, err := exec.Command("mosquitto_pub", "-h", "127.0.0.1", "-p", strconv.Itoa(b.port), "--cafile", ca,
			"-u", "sensor", "-P", b.passwords["sensor"], "-t", "sensors/x", "-m", "1", "-q", "1").CombinedOutput()
		require.NoError(t, err, "%s\nrun make deps", out)
	})
}

func TestARetainedMessageOutlivesAKill(t *testing.T) { eachBroker(t, outlivesAKill) }

func outlivesAKill(t *testing.T, k brokerKind) {
	b := newBroker(t, k)
	b.start()
	s, err := b.dial("sensor", nil)
	require.NoError(t, err)
	require.NoError(t, s.Publish("sensors/kept", "42", true))
	s.Close()
	// Saved on the next turn of the broker's loop.
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(filepath.Join(b.state, "mosquitto.db"))
		return err == nil && strings.Contains(string(data), "sensors/kept")
	}, 10*time.Second, 20*time.Millisecond)
	b.kill()
	b.start()
	op, err := b.dial("operator", nil)
	require.NoError(t, err)
	defer op.Close()
	require.NoError(t, op.Subscribe("sensors/#"))
	m, err := op.Await("sensors/kept", 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, client.Message{Payload: "42", Retained: true}, m)
}
