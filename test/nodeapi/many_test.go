package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/agent/health"
	"spore/builder/cmd/reach"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/test/program"
	"spore/wire/machine"
	protocol "spore/wire/nodeapi"
)

// many is how many nodes there are. What the first down are asked is swallowed, and the last down refuse connections.
const (
	many = 200
	down = 40
)

// manyTimeout is how long each is asked, and manySpare what all together may take beyond it. With 40 that swallow and
// 32 that are asked at once, whoever waited for those would take twice the time limit.
const (
	manyTimeout = 10 * time.Second
	manySpare   = 4 * time.Second
)

// Bounds of a command that asks them all: CPU, and memory in KiB.
const (
	manyCPU    = time.Second
	manyMemory = 100 << 10
)

func TestAskingTwoHundredNodesCostsUnderASecond(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes the keys of 200 nodes")
	}
	dir := t.TempDir()
	configs := filepath.Join(dir, "configs")
	require.NoError(t, os.MkdirAll(filepath.Join(configs, "services"), 0o755))
	var text strings.Builder
	text.WriteString("name: plant\nid: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11\ndomain: plant.example\nnetwork: {nodeSubnets: [10.78.0.0/16], gateways: [10.78.0.1], nameservers: [10.78.0.1]}\nservices: [dns]\nnodes:\n")
	for i := range many {
		fmt.Fprintf(&text, "  - {name: edge-%03d, ips: [10.78.%d.%d], roles: [dns-server]}\n", i, i/200, i%200+10)
	}
	require.NoError(t, os.WriteFile(filepath.Join(configs, "cluster.yaml"), []byte(text.String()), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(configs, "services", "dns.yaml"), []byte("forwarders: [10.78.0.1]\n"), 0o644))
	config, report := cluster.Check(os.DirFS(configs), cluster.Options{})
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	tree := pki.New(&c)
	o := pki.Options{Now: time.Now(), Random: rand.Reader}
	_, err := tree.Update(&c, nodes, o)
	require.NoError(t, err)
	made, err := tree.Access(&c, pki.NodeOperator, "anna", time.Hour, o)
	require.NoError(t, err)
	access, err := reach.Access{
		Cluster: c.ID, Person: "anna", Role: protocol.Operator, Ends: made.Ends,
		Certificate: made.Certificate, Key: string(made.Key), Authorities: string(made.Authority),
	}.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(configs+".access", access, 0o600))

	var addresses []string
	for i := range nodes {
		addresses = append(addresses, "--address", nodes[i].Name+"="+manyServe(t, &c, &nodes[i], tree, i))
	}
	program, err := program.Spore("../..")
	require.NoError(t, err)
	// Each waits for those that are down, and uses a fifth of a second.
	t.Run("commands", func(t *testing.T) {
		for _, command := range [][]string{{"status"}, {"health"}, {"support", "--summary"}, {"top", "--once"}} {
			t.Run(strings.Join(command, " "), func(t *testing.T) {
				t.Parallel()
				args := append(append(command[:1:1], configs), append(command[1:], "--timeout", manyTimeout.String())...)
				cmd := exec.Command(program, append(args, addresses...)...)
				var out, errs bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &errs
				began := time.Now()
				err := cmd.Run()
				took := time.Since(began)
				require.Error(t, err, "%d nodes do not answer", 2*down)
				require.Regexp(t, `(?m)^edge-000:? .*no answer in time`, out.String()+errs.String())
				require.Regexp(t, `(?m)^edge-199:? .*connection refused`, out.String()+errs.String())
				require.Len(t, regexp.MustCompile(`(?m)^edge-\d+ .*(running|1\.00/4|ok +[0-9]+ conditions)`).FindAllString(out.String(), -1), many-2*down, out.String())
				require.Less(t, took, manyTimeout+manySpare, "those that are down cost the others no time")
				used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
				t.Logf("%s of %d nodes: %.2f s of CPU, %d MiB, %.1f s", strings.Join(command, " "), many, used.Seconds(), memory>>10, took.Seconds())
				require.Less(t, used, manyCPU)
				require.Less(t, memory, int64(manyMemory))
			})
		}
	})
	t.Run("dashboard", func(t *testing.T) {
		manyWatched(t, exec.Command(program, append([]string{"dashboard", configs}, addresses...)...))
	})
}

// manyWatched has ten browsers look at the page of all nodes.
func manyWatched(t *testing.T, cmd *exec.Cmd) {
	printed, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stopped := sync.OnceFunc(func() { _, _ = cmd.Process.Signal(os.Interrupt), cmd.Wait() })
	defer stopped()
	address, err := bufio.NewReader(printed).ReadString('\n')
	require.NoError(t, err)
	at, err := url.Parse(strings.TrimSpace(address))
	require.NoError(t, err)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := http.Client{Jar: jar}
	get := func(ctx context.Context, path string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath(path).String(), nil)
		require.NoError(t, err)
		res, err := browser.Do(r)
		require.NoError(t, err)
		return res
	}
	res := get(t.Context(), "")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "/", res.Request.URL.Path)
	require.NoError(t, res.Body.Close())

	at.Path = "/"
	ctx, close := context.WithCancel(t.Context())
	defer close()
	var open sync.WaitGroup
	defer open.Wait()
	defer close()
	events := make(chan int, 10)
	for range cap(events) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("events").String()+"?page=/", nil)
		require.NoError(t, err)
		res, err := browser.Do(r)
		require.NoError(t, err)
		open.Go(func() {
			defer res.Body.Close()
			n := 0
			lines := bufio.NewScanner(res.Body)
			lines.Buffer(nil, 4<<20)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "event: ") {
					n++
				}
			}
			events <- n
		})
	}
	seen := func() string {
		began := time.Now()
		res := get(t.Context(), "/")
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 5*time.Second)
		return string(page)
	}
	require.Eventually(t, func() bool {
		page := seen()
		return strings.Count(page, `class="tile ok"`) == many-2*down && strings.Count(page, "no answer in time") >= down &&
			strings.Count(page, "connection refused") >= down
	}, time.Minute, time.Second, "each node is shown as it is")
	// The first questions have handshakes; then connections stay.
	const measured = 15 * time.Second
	before := cpuTime(t, cmd.Process.Pid)
	time.Sleep(measured)
	used := cpuTime(t, cmd.Process.Pid) - before
	aMinute := time.Duration(float64(used) * float64(time.Minute) / float64(measured))
	memory := memoryPeak(t, cmd.Process.Pid)
	t.Logf("ten who look at %d nodes: %.2f s of CPU a minute, %d MiB", many, aMinute.Seconds(), memory>>10)
	require.Less(t, aMinute, manyCPU)
	require.Less(t, memory, manyMemory, "spore-dashboard.service has more than twice as much")
	stopped()
	for range cap(events) {
		require.Positive(t, <-events)
	}
}

// memoryPeak is the most memory that a process has had, in KiB (proc_pid_status(5)).
func memoryPeak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib
}

// cpuTime is what a process has used (proc_pid_stat(5), utime and stime, in ticks of 10 ms).
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, i := range []int{11, 12} {
		n, err := strconv.Atoi(fields[i])
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// manyServe has node i answer on the loopback, and returns where. One that swallows takes connections and says nothing.
func manyServe(t *testing.T, c *facts.Cluster, n *facts.Node, tree *pki.Tree, i int) string {
	if i >= many-down {
		return held(t)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	if i < down {
		return l.Addr().String()
	}
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	signing, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: n.Name, Keys: signing})
	require.NoError(t, err)
	id := protocol.Identity{
		Certificate: []byte(b.Secrets["agent-certificate"]), Key: []byte(b.Secrets["agent-key"]), Authorities: tree.Public().Files()[pki.PublicDir+"/agent.crt"],
	}
	line := edge()
	line.Spore, line.Cluster, line.Node = 1, c.Name, n.Name
	row := func(path string, of any) api.Row {
		answer, err := json.Marshal(of)
		require.NoError(t, err)
		return api.Row{Method: http.MethodGet, Path: path, Who: protocol.Lookers(), Handle: func(w http.ResponseWriter, _ *http.Request, _ protocol.Caller) {
			_, _ = w.Write(answer)
		}}
	}
	server := &api.Server{
		Say: func(string) {}, Now: time.Now, Identity: func() (protocol.Identity, error) { return id, nil },
		Rows: []api.Row{row(protocol.StatusPath, line), row(protocol.HealthPath, health.Of(health.Input{
			Cluster: c, Node: n, Now: time.Now(), Line: line, AgentRuns: true,
			CertificateEnds: time.Now().Add(200 * 24 * time.Hour), Var: health.Space{Bytes: 100, FreeBytes: 50},
		})), manyTop(t)},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String()
}

// manyTop answers what a machine does now, at once.
func manyTop(t *testing.T) api.Row {
	load, err := json.Marshal(machine.Load{Seconds: 1, Uptime: 3600, CPU: machine.CPU{Processors: 4, Idle: 90}, Average: [3]float64{1, 1, 1}, Tasks: 100})
	require.NoError(t, err)
	v, found := protocol.FindVerb("top")
	require.True(t, found)
	return api.Row{
		Method: http.MethodPost, Path: protocol.VerbsPath + v.Name, Who: v.Who, Body: protocol.MaxOrder, AtOnce: 1,
		Handle: func(w http.ResponseWriter, _ *http.Request, _ protocol.Caller) {
			e := json.NewEncoder(w)
			_ = e.Encode(protocol.Event{Result: load})
			_ = e.Encode(protocol.Event{Done: "looked"})
		},
	}
}
