// Package nodeapi holds the commands that ask running nodes to what their API really answers: the server, the table of
// conditions and the reader of the journal of package agent, with keys that `spore pki` made, over TLS on loopback.
package nodeapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/api"
	"spore/agent/clock"
	"spore/agent/health"
	"spore/agent/journal"
	"spore/agent/slot"
	"spore/agent/status"
	"spore/builder/cmd/access"
	"spore/builder/cmd/adopt"
	bundlecmd "spore/builder/cmd/bundle"
	"spore/builder/cmd/clean"
	"spore/builder/cmd/exit"
	healthcmd "spore/builder/cmd/health"
	"spore/builder/cmd/install"
	"spore/builder/cmd/logs"
	keys "spore/builder/cmd/pki"
	"spore/builder/cmd/power"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/reset"
	"spore/builder/cmd/restart"
	statuscmd "spore/builder/cmd/status"
	"spore/builder/cmd/support"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/fleet/clusterhealth"
	"spore/pki"
	"spore/pki/bundle"
	"spore/pki/vault"
	protocol "spore/wire/nodeapi"
)

// desk is an operator's, with a cluster of which some nodes run.
type desk struct {
	t       *testing.T
	dir     string
	cluster facts.Cluster
	nodes   map[string]*facts.Node
	// at is where a node answers.
	at map[string]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), nodes: map[string]*facts.Node{}, at: map[string]string{}}
	require.NoError(t, os.CopyFS(d.path("configs"), os.DirFS("../../cluster/testdata/six-nodes")))
	code, out, errs := d.run(context.Background(), "pki", "init", d.path("configs"), "--plain")
	require.Equal(t, exit.OK, code, "%s%s", out, errs)
	config, report := cluster.Check(os.DirFS(d.path("configs")), cluster.Options{})
	require.NoError(t, report.Err())
	var nodes []facts.Node
	d.cluster, nodes = cluster.Facts(config)
	for i := range nodes {
		d.nodes[nodes[i].Name] = &nodes[i]
		d.at[nodes[i].Name] = held(t) // off, until it is served
	}
	return d
}

// held is an address of the loopback at which nobody listens, and which nobody else is given until the test ends.
func held(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port)
}

// listen listens at an address that is held.
func listen(t *testing.T, at string) net.Listener {
	t.Helper()
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, set)
	}}
	l, err := c.Listen(t.Context(), "tcp", at)
	require.NoError(t, err)
	return l
}

func (d *desk) path(name string) string { return filepath.Join(d.dir, name) }

// run runs the program.
func (d *desk) run(ctx context.Context, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(keys.Command(), access.Command(), statuscmd.Command(), logs.Command(), healthcmd.Command())
	root.AddCommand(power.Reboot(), power.Shutdown(), restart.Command(), reset.Command(), adopt.Command(), support.Command("0.1.0"), bundlecmd.Command())
	root.AddCommand(install.Command(), clean.Command())
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = exit.Run(ctx, root)
	return code, stdout.String(), stderr.String()
}

// ask runs a command that asks nodes.
func (d *desk) ask(command string, args ...string) (code int, out, errs string) {
	all := []string{command, d.path("configs"), "--timeout", "5s"}
	for name, at := range d.at {
		all = append(all, "--address", name+"="+at)
	}
	return d.run(context.Background(), append(all, args...)...)
}

// identity is what a node shows, of a bundle that is made for it.
func (d *desk) identity(node string) protocol.Identity {
	d.t.Helper()
	v, err := vault.Open(d.path("configs.pki"), vault.Keys{})
	require.NoError(d.t, err)
	defer v.Close()
	data, err := v.Tree.BundleFor(&d.cluster, d.nodes[node], time.Now())
	require.NoError(d.t, err)
	signing, err := v.Tree.Public().SigningKeys()
	require.NoError(d.t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: d.cluster.ID, Node: node, Keys: signing})
	require.NoError(d.t, err)
	return protocol.Identity{
		Certificate: []byte(b.Secrets["agent-certificate"]), Key: []byte(b.Secrets["agent-key"]), Authorities: v.Tree.Public().Files()[pki.PublicDir+"/agent.crt"],
	}
}

// serve has a node answer with this status line until the test ends, or stop is called.
func (d *desk) serve(node string, line status.Line, input func(*health.Input)) (stop func()) {
	d.t.Helper()
	line.Spore, line.Cluster, line.Node = 1, d.cluster.Name, node
	id := d.identity(node)
	journalctl := d.path("journalctl-" + node)
	require.NoError(d.t, os.WriteFile(journalctl, []byte(`#!/bin/sh
case "$*" in
*--unit=mosquitto.service*|*--priority=3*) printf '{"__REALTIME_TIMESTAMP":"1795312345678901","SYSLOG_IDENTIFIER":"mosquitto","_PID":"7","MESSAGE":"\\u001b[31mhello"}\n';;
esac
case "$*" in
*--since=@1795312345.678901*) printf '{"__REALTIME_TIMESTAMP":"1795312345678901","SYSLOG_IDENTIFIER":"mosquitto","_PID":"7","MESSAGE":"of the same time"}\n';;
esac
case "$*" in *--follow*) exec sleep 600;; esac
`), 0o755))
	say := func(s string) { d.t.Log(node + ": " + s) }
	answer := func(w http.ResponseWriter, v any) {
		data, err := json.Marshal(v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(data)
	}
	row := func(path string, h http.HandlerFunc) api.Row {
		return api.Row{Method: http.MethodGet, Path: path, Who: protocol.Lookers(), Handle: api.Plain(h)}
	}
	server := &api.Server{
		Node: node, Say: say, Now: time.Now, Identity: func() (protocol.Identity, error) { return id, nil },
		Rows: []api.Row{
			row(protocol.StatusPath, func(w http.ResponseWriter, _ *http.Request) { answer(w, line) }),
			row(protocol.LogsPath, func(w http.ResponseWriter, r *http.Request) {
				(&journal.Reader{Program: journalctl, Say: say}).Answer(w, r, false)
			}),
			row(protocol.HealthPath, func(w http.ResponseWriter, _ *http.Request) {
				in := health.Input{
					Cluster: &d.cluster, Node: d.nodes[node], Now: time.Now(), Line: line, AgentRuns: true,
					CertificateEnds: time.Now().Add(200 * 24 * time.Hour), Var: health.Space{Bytes: 100, FreeBytes: 50},
				}
				if input != nil {
					input(&in)
				}
				answer(w, health.Of(in))
			}),
		},
	}
	l := listen(d.t, d.at[node])
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	var once atomic.Bool
	stop = func() {
		if once.CompareAndSwap(false, true) {
			cancel()
			require.NoError(d.t, <-done)
		}
	}
	d.t.Cleanup(stop)
	return stop
}

// edge is the status line of a node that is as it should be.
func edge() status.Line {
	return fine(status.Line{Roles: []string{"mqtt-broker", "dns-server"}, Addresses: []string{"10.77.0.16"}, Services: map[string]string{"mosquitto.service": "active"}})
}

func TestStatusShowsEachNodeAndWhyOneDoesNotAnswer(t *testing.T) {
	d := newDesk(t)
	updated := edge()
	updated.BuildTime = 1_790_000_000
	updated.Configuration = &slot.Info{RootHash: "617fc5cacd6329937fc5cacd63299361", ClusterHash: "fbab57222e31e539", Serial: 7}
	d.serve("edge-01", updated, nil)
	broker := edge()
	broker.Roles, broker.Waiting, broker.Failed = []string{"kafka-broker"}, map[string]string{"kafka": "waiting for kafka-02"}, []string{"a.service"}
	d.serve("kafka-01", broker, nil)

	code, out, errs := d.ask("status", "--node", "edge-01", "--node", "kafka-01")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, `NODE      SYSTEM   VERSION                                     ROLES                    ADDRESSES   REMARKS
kafka-01  running  -                                           kafka-broker             10.77.0.16  kafka: waiting for kafka-02, a.service failed
edge-01   running  617fc5cacd63 of 2026-09-21 14:13, update 7  mqtt-broker, dns-server  10.77.0.16  -
`, out)

	code, out, errs = d.ask("status", "--node", "edge-01", "--node", "storage-01")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, "storage-01  -        -                                           -                        -           no answer: connect: connection refused\n")
	require.Contains(t, out, "edge-01     running")
	require.Equal(t, "spore status: 1 of 2 nodes do not answer\n", errs)

	code, out, _ = d.ask("status", "--json", "--node", "edge-01", "--node", "storage-01")
	require.Equal(t, exit.Failed, code)
	var nodes []statuscmd.Node
	require.NoError(t, json.Unmarshal([]byte(out), &nodes))
	require.Len(t, nodes, 2)
	require.Equal(t, "no answer: connect: connection refused", nodes[0].Error)
	require.Contains(t, string(nodes[1].Status), `"matched":{"by":"mac"`, "the whole line, and not what the table shows of it")
}

func TestHealthSaysWhatIsNotAsItShouldBe(t *testing.T) {
	d := newDesk(t)
	stop := d.serve("edge-01", edge(), func(in *health.Input) { in.Addresses = []string{"10.77.0.16"} })
	code, out, errs := d.ask("health", "--node", "edge-01")
	require.Equal(t, exit.OK, code, "%s%s", out, errs)
	require.Regexp(t, `(?m)^edge-01    -  +ok     \d+ conditions$`, out)
	code, out, _ = d.ask("health", "--node", "edge-01", "--all")
	require.Equal(t, exit.OK, code)
	require.Contains(t, out, "edge-01    network      ok     10.77.0.16\n")
	require.Contains(t, out, "(cluster)  answers      ok     1 of 1 nodes answer\n")
	stop()

	d.serve("edge-01", edge(), func(in *health.Input) { in.Now, in.Line.Clock = in.Now.Add(-time.Hour), &clock.State{} })
	code, out, errs = d.ask("health", "--node", "edge-01")
	require.Equal(t, exit.OK, code, "a warning is no failure: %s%s", out, errs)
	require.Regexp(t, `edge-01 +clock +warning `, out)
	require.Regexp(t, `\(cluster\) +clocks +warning +edge-01 is 1h0m\ds behind this machine`, out)

	quorum := func(serves bool) func(*health.Input) {
		return func(in *health.Input) {
			in.Quorums = []health.Quorum{{Service: "kafka", Unit: "kafka.service", Members: []string{"kafka-01", "storage-01", "worker-02"}}}
			in.Line.Services = map[string]string{"kafka.service": "active"}
			if !serves {
				in.Line.Waiting = map[string]string{"kafka": "waiting for worker-02 (no answer)"}
			}
		}
	}
	d.serve("kafka-01", edge(), quorum(true))
	leave := d.serve("storage-01", edge(), quorum(true))
	three := []string{"--node", "kafka-01", "--node", "storage-01", "--node", "worker-02"}
	code, out, errs = d.ask("health", three...)
	require.Equal(t, exit.Failed, code)
	require.Equal(t, "spore health: the cluster is not healthy\n", errs)
	require.Regexp(t, `worker-02 +answers +failing +no answer: connect: connection refused`, out)
	require.Regexp(t, `\(cluster\) +answers +failing +2 of 3 nodes answer; not worker-02`, out)
	require.Regexp(t, `\(cluster\) +quorum kafka +warning +2 of 3 members serve; not worker-02`, out)
	leave()
	d.serve("storage-01", edge(), quorum(false))
	code, out, _ = d.ask("health", three...)
	require.Equal(t, exit.Failed, code)
	require.Regexp(t, `storage-01 +quorums +failing +kafka: waiting for worker-02 \(no answer\)`, out)
	require.Regexp(t, `\(cluster\) +nodes +failing +storage-01: not healthy`, out)
	require.Regexp(t, `\(cluster\) +quorum kafka +failing +1 of 3 members serve; not storage-01, worker-02; it needs 2 to decide`, out)
	code, out, _ = d.ask("health", "--node", "kafka-01")
	require.Equal(t, exit.OK, code, "those that were not asked are not judged")
	require.NotContains(t, out, "quorum kafka")

	code, out, _ = d.ask("health", append(three, "--json")...)
	require.Equal(t, exit.Failed, code)
	var found clusterhealth.Cluster
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.False(t, found.Healthy)
	require.Equal(t, "worker-02", found.Nodes[0].Node)
	require.Equal(t, "no answer: connect: connection refused", found.Nodes[0].Error)
	require.True(t, found.Nodes[1].Healthy)
	require.NotEmpty(t, found.Nodes[1].Health.Conditions)
}

func TestANodeThatSaysNothingCostsItsTimeLimitAndNoMore(t *testing.T) {
	d := newDesk(t)
	d.serve("edge-01", edge(), nil)
	for _, name := range []string{"kafka-01", "storage-01", "worker-02"} {
		l := listen(t, d.at[name]) // accepts, and says nothing
		defer l.Close()
	}
	began := time.Now()
	code, out, _ := d.ask("status", "--timeout", "2s", "--node", "edge-01", "--node", "kafka-01", "--node", "storage-01", "--node", "worker-02")
	require.Equal(t, exit.Failed, code)
	require.Less(t, time.Since(began), 5*time.Second, "all are asked at the same time")
	require.Equal(t, 3, strings.Count(out, "no answer in time"), out)
	require.Contains(t, out, "edge-01     running")
}

func TestLogsOfAUnit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	stop := d.serve("edge-01", edge(), nil)
	logs := func(ctx context.Context, args ...string) (int, string, string) {
		return d.run(ctx, append([]string{"logs", d.path("configs"), "--address", "edge-01=" + d.at["edge-01"], "--timeout", "5s"}, args...)...)
	}
	code, out, errs := logs(context.Background(), "edge-01", "mosquitto")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, "2026-11-22 01:52:25.678 mosquitto[7]: \\x1b[31mhello\n", out, "what a terminal would obey does not reach it")
	code, out, _ = logs(context.Background(), "edge-01", "mosquitto.service", "--json")
	require.Equal(t, exit.OK, code)
	require.JSONEq(t, `{"__REALTIME_TIMESTAMP":"1795312345678901","SYSLOG_IDENTIFIER":"mosquitto","_PID":"7","MESSAGE":"\u001b[31mhello"}`, out)
	code, out, errs = logs(context.Background(), "edge-01", "mosqito")
	require.Equal(t, exit.OK, code)
	require.Empty(t, out)
	require.Equal(t, "the journal of edge-01 has no such entry of mosqito.service\n", errs)

	ctx, interrupt := context.WithTimeout(context.Background(), 3*time.Second)
	defer interrupt()
	code, out, errs = logs(ctx, "edge-01", "mosquitto", "--follow")
	require.Equal(t, exit.OK, code, "an interrupt is how it ends: %s", errs)
	require.Contains(t, out, "hello")

	go func() { time.Sleep(2 * time.Second); stop() }()
	code, _, errs = logs(context.Background(), "edge-01", "mosquitto", "--follow")
	require.Equal(t, exit.Failed, code, "a node that goes away is no end of the log")
	require.Contains(t, errs, "spore logs: edge-01") // its connection is reset, or ends in order: that is chance

	for want, args := range map[string][]string{
		"is not a name of a unit":            {"edge-01", "mos*"},
		"10001 lines cannot":                 {"edge-01", "mosquitto", "--lines", "10001"},
		`has no node "edge-02"`:              {"edge-02", "mosquitto"},
		"name a node and a unit":             {},
		"connect: connection refused":        {"edge-01", "mosquitto"},
		"the port of \"edge-01=h:0\" is":     {"edge-01", "mosquitto", "--address", "edge-01=h:0"},
		`the address "edge-01" is not valid`: {"edge-01", "mosquitto", "--address", "edge-01"},
		"the timeout 0s is not valid":        {"edge-01", "mosquitto", "--timeout", "0s"},
	} {
		code, _, errs := logs(context.Background(), args...)
		require.NotEqual(t, exit.OK, code, want)
		require.Contains(t, errs, want)
	}
}

// TestLogsOfManyNodesAreOneList: two nodes answer, the others are off.
func TestLogsOfManyNodesAreOneList(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.serve("edge-01", edge(), nil)
	stop := d.serve("kafka-01", edge(), nil)
	code, out, errs := d.ask("logs", "--node", "edge-01", "--node", "kafka-01", "--priority", "err", "--since", "30d")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, "kafka-01  2026-11-22 01:52:25.678 mosquitto[7]: \\x1b[31mhello\nedge-01   2026-11-22 01:52:25.678 mosquitto[7]: \\x1b[31mhello\n", out)

	code, out, errs = d.ask("logs", "--all", "--unit", "mosquitto", "--json")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "storage-01: no answer: connect: connection refused\n")
	require.Contains(t, errs, "spore logs: 4 of 6 nodes did not answer, or not to the end\n")
	require.Contains(t, out, `"cluster":"plant","node":"kafka-01"}`)
	require.Equal(t, 2, strings.Count(out, "\n"), out)

	code, _, errs = d.ask("logs", "--role", "mqtt-broker", "--role", "press")
	require.Equal(t, exit.Misuse, code)
	require.Contains(t, errs, `no node has the role "press"`)

	code, out, errs = d.ask("logs", "--role", "mqtt-broker", "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "hello", "the unit of the role is asked for")

	file := d.path("plant.log.zst")
	code, out, errs = d.ask("logs", "--node", "edge-01", "--priority", "3", "--output", file)
	require.Equal(t, exit.OK, code, errs)
	require.Empty(t, out)
	packed, err := os.Open(file)
	require.NoError(t, err)
	defer packed.Close()
	r, err := zstd.NewReader(packed)
	require.NoError(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Contains(t, string(data), "hello")

	// A node that goes is asked again, and the others go on.
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	args := []string{d.path("configs"), "--node", "edge-01", "--node", "kafka-01", "--priority", "3", "--follow", "--timeout", "30s"}
	for name, at := range d.at {
		args = append(args, "--address", name+"="+at)
	}
	var shown shared
	cmd := logs.Command()
	cmd.SetArgs(args)
	cmd.SetOut(&shown)
	cmd.SetErr(&shown)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	has := func(text string, times int) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Count(shown.String(), text) == times }, 30*time.Second, 10*time.Millisecond, "%s", &shown)
	}
	has("edge-01   2026", 1)
	has("kafka-01  2026", 1)
	stop()
	has("kafka-01: ", 1)
	require.Contains(t, shown.String(), "it is asked again")
	d.serve("kafka-01", edge(), nil)
	has("kafka-01  2026", 2)
	has("of the same time", 1)
	interrupt()
	require.NoError(t, <-ended, "an interrupt is how it ends")
	require.Equal(t, 2, strings.Count(shown.String(), "kafka-01  2026"), "no line is shown twice")
	require.Equal(t, 1, strings.Count(shown.String(), "edge-01   2026"))
}

// shared is written by one goroutine and read by another.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestAccessIsForARoleAndATime(t *testing.T) {
	d := newDesk(t)
	d.serve("edge-01", edge(), nil)
	code, out, errs := d.run(context.Background(), "access", d.path("configs"), "--user", "anna", "--lifetime", "1h")
	require.Equal(t, exit.OK, code, errs)
	require.Regexp(t, `configs\.access: anna as reader of cluster plant until \d{4}-`, out)
	info, err := os.Stat(d.path("configs.access"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	// The operator's folder is not opened when there is a file.
	require.NoError(t, os.Rename(d.path("configs.pki"), d.path("elsewhere.pki")))
	code, _, errs = d.ask("status", "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Empty(t, errs)
	code, _, errs = d.ask("status", "--node", "edge-01", "--access", d.path("configs.access"))
	require.Equal(t, exit.OK, code, errs)

	// A file that does not help says so, and the folder is taken.
	text, err := os.ReadFile(d.path("configs.access"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(d.path("configs.access"), bytes.Replace(text, []byte(d.cluster.ID), []byte("6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d12"), 1), 0o600))
	code, _, errs = d.ask("status", "--node", "edge-01", "--pki", d.path("elsewhere.pki"))
	require.Equal(t, exit.OK, code, "a folder that is named is taken at once: %s", errs)
	require.Empty(t, errs)
	require.NoError(t, os.Rename(d.path("elsewhere.pki"), d.path("configs.pki")))
	code, _, errs = d.ask("status", "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, errs, "it is for the cluster with the id 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d12")
	require.Contains(t, errs, "taking the operator's folder")
	code, _, errs = d.ask("status", "--node", "edge-01", "--access", d.path("configs.access"))
	require.Equal(t, exit.Failed, code, "and a file that is named is not passed over")
	require.Contains(t, errs, "it is for the cluster with the id")

	for want, args := range map[string][]string{
		`there is no role "root"`: {"--role", "root"}, `the user "an na" is not a name`: {"--user", "an na"},
		"the lifetime 1m0s is out of bounds": {"--lifetime", "1m"}, "has no pki.yaml": {"--pki", d.path("nowhere.pki")},
		"write with -o where to put it": {"--role", "scraper"},
	} {
		code, _, errs := d.run(context.Background(), append([]string{"access", d.path("configs")}, args...)...)
		require.NotEqual(t, exit.OK, code)
		require.Contains(t, errs, want)
	}

	scraper := d.path("prometheus.access")
	code, out, errs = d.run(t.Context(), "access", d.path("configs"), "--role", "scraper", "-o", scraper)
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, " as scraper of cluster ")
	code, _, errs = d.ask("status", "--node", "edge-01", "--access", scraper)
	require.Equal(t, exit.Failed, code, "it is for a program that asks for metrics")
	require.Contains(t, errs, `of "spore:scraper", and not to an operator`)
}

func TestAccessMayBeForSomeNodes(t *testing.T) {
	d := newDesk(t)
	d.serve("edge-01", edge(), nil)
	d.serve("kafka-01", edge(), nil)
	file := d.path("anna.access")
	code, out, errs := d.run(context.Background(), "access", d.path("configs"), "--user", "anna", "--node", "edge-01", "-o", file)
	require.Equal(t, exit.OK, code, errs)
	found := regexp.MustCompile(`anna as reader of cluster plant on edge-01 until \S+, serial number ([0-9a-f]+)\n$`).FindStringSubmatch(out)
	require.NotNil(t, found, out)

	code, out, errs = d.ask("status", "--access", file)
	require.Equal(t, exit.OK, code, "it asks its own nodes alone: %s", errs)
	require.Contains(t, out, "edge-01")
	require.NotContains(t, out, "kafka-01")
	code, _, errs = d.ask("status", "--access", file, "--node", "kafka-01")
	require.Equal(t, exit.Misuse, code)
	require.Contains(t, errs, "the certificate is limited to edge-01")

	// The node itself refuses it, whatever the command thinks.
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	a, err := reach.ParseAccess(text)
	require.NoError(t, err)
	c := protocol.Client{
		Identity: func() (protocol.Identity, error) {
			return protocol.Identity{Certificate: []byte(a.Certificate), Key: []byte(a.Key), Authorities: []byte(a.Authorities)}, nil
		},
		Addresses: func(node string) ([]string, error) { return []string{d.at[node]}, nil },
	}
	_, err = c.Read(t.Context(), "edge-01", protocol.Request{Path: protocol.StatusPath}, 1<<20)
	require.NoError(t, err)
	_, err = c.Read(t.Context(), "kafka-01", protocol.Request{Path: protocol.StatusPath}, 1<<20)
	require.ErrorContains(t, err, "this certificate is limited to edge-01, and this is kafka-01")

	require.NoError(t, os.Remove(d.path("configs.pki/"+vault.PlainFile)), "the list takes no key")
	code, out, errs = d.run(context.Background(), "access", d.path("configs"), "--list")
	require.Equal(t, exit.OK, code, errs)
	require.Regexp(t, `(?m)^`+found[1]+` +anna +reader +edge-01 +\S+ +\S+$`, out)
	code, out, errs = d.run(context.Background(), "access", d.path("configs"), "--list", "--json")
	require.Equal(t, exit.OK, code, errs)
	var list []vault.Issued
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 1)
	code, _, errs = d.run(context.Background(), "access", d.path("configs"), "--node", "edge-1")
	require.Equal(t, exit.Misuse, code)
	require.Contains(t, errs, `has no node "edge-1"`)
}

// A node believes the authority, and not the file: keys of another cluster open nothing.
func TestKeysOfAnotherClusterOpenNothing(t *testing.T) {
	d, other := newDesk(t), newDesk(t)
	d.serve("edge-01", edge(), nil)
	code, _, errs := d.ask("status", "--node", "edge-01", "--pki", other.path("configs.pki"))
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "1 of 1 nodes do not answer")
	v, err := vault.Open(other.path("configs.pki"), vault.Keys{})
	require.NoError(t, err)
	defer v.Close()
	made, err := v.Tree.Access(&other.cluster, pki.NodeAdmin, "mallory", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	c := protocol.Client{
		Identity: func() (protocol.Identity, error) {
			return protocol.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: d.identity("edge-01").Authorities}, nil
		},
		Addresses: func(string) ([]string, error) { return []string{d.at["edge-01"]}, nil },
	}
	_, err = c.Read(context.Background(), "edge-01", protocol.Request{Path: protocol.StatusPath}, 1000)
	require.ErrorContains(t, err, "no answer")
}

// Somebody who only looks cannot do what an administrator may; the certificate says who it is.
func TestAReadersCertificateSaysSo(t *testing.T) {
	d := newDesk(t)
	for _, role := range []string{"reader", "admin"} {
		path := d.path(role)
		code, _, errs := d.run(context.Background(), "access", d.path("configs"), "--role", role, "-o", path, "--user", "anna")
		require.Equal(t, exit.OK, code, errs)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(data), fmt.Sprintf(`"role": "spore:%s"`, role))
	}
}
