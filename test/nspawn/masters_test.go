//go:build e2e

package nspawn

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/builder/vm"
	"spore/pki"
	etcdclient "spore/services/kubernetes/etcd/client"
)

const (
	// balancer is where each node finds the API.
	balancer = "127.0.0.1:6444"
	// mastersLimit bounds what three control planes on a busy machine take to agree on something.
	mastersLimit = 4 * time.Minute
	// quietForMaster is how long a lonely master is watched doing nothing.
	quietForMaster = 20 * time.Second
	// failoverLimit is how long nothing may be written when the master that leads loses power. With slowMachine: 3, etcd
	// elects after three seconds without a heartbeat, and the balancer notices within 18 (three checks, one in six
	// seconds) that an API server does not answer.
	failoverLimit = time.Minute
	// ledgerPath is where the tests write.
	ledgerPath = "/api/v1/namespaces/default/configmaps"
)

// withoutCGroups is what needs controllers of control groups, or a kernel of its own, and is not there in a container:
// kubelet and containerd put pods into control groups, calico-node and kube-proxy load rules into the kernel. Nothing
// of these tests is in a pod.
var withoutCGroups = []string{"containerd.service", "kubernetes-images.service", "kubelet.service", "kube-proxy.service", "calico-node.service"}

// withoutAPI is what needs etcd. Where the members of etcd are what matters, the nodes do without it, and the test with
// a twentieth of the time.
var withoutAPI = []string{
	"kube-apiserver.service", "kube-controller-manager.service", "kube-scheduler.service", "cluster-dns.service", "calico-controllers.service",
	"kubernetes-bootstrap.service", "kubernetes-api.service", "kube-balancer.service", "etcd-snapshot.service",
}

// masters is a cluster with several masters.
type masters struct {
	*Lab
	client *pki.Admin
	// keys are how many were put into etcd.
	keys int
}

// etcd is a client of the etcd of a node, and etcdOf of that of another with the certificate of this one.
func (l *Lab) etcd(n *Node) *clientv3.Client { return l.etcdOf(n, n) }

func (l *Lab) etcdOf(asking, n *Node) *clientv3.Client {
	l.t.Helper()
	secret := func(ref string) []byte {
		return []byte(asking.MustExec("cat", "/run/spore/secrets/etcd-members/"+ref))
	}
	c, err := etcdclient.Connect(etcdclient.Identity{
		Certificate: secret("etcd-agent-certificate"), Key: secret("etcd-agent-key"), Authorities: l.Keys.Public().Files()[pki.PublicDir+"/etcd.crt"],
	}, 3, etcdclient.URL(n.IP()))
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	return c
}

// member is one of `spore-agent etcd show --json`.
type member struct {
	Name, ID, Problem        string
	Peers                    []string
	Learner, Leader, Started bool
}

// api is a client of the API that asks from a node, by its balancer.
func (m *masters) api(from *Node) *http.Client {
	m.t.Helper()
	roots := x509.NewCertPool()
	require.True(m.t, roots.AppendCertsFromPEM(m.client.Authority))
	pair, err := tls.X509KeyPair([]byte(m.client.Certificate), []byte(m.client.Key))
	require.NoError(m.t, err)
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "kubernetes"},
		DisableKeepAlives: true, // each request finds out anew who answers
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return from.Dial(ctx, network, balancer)
		},
	}}
}

func ask(c *http.Client, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, "https://kubernetes"+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, res.Status, data)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}

// book writes objects, one after the other, and keeps which of them the API acknowledged.
type book struct {
	mu    sync.Mutex
	acked map[string]time.Time
	// gap is the longest time between two of them.
	gap  time.Duration
	last time.Time
	err  error
	stop chan struct{}
	done chan struct{}
}

// writeBook begins to write through the balancer of a node. Names begin with a prefix.
func (m *masters) writeBook(from *Node, prefix string) *book {
	b := &book{acked: map[string]time.Time{}, stop: make(chan struct{}), done: make(chan struct{}), last: time.Now()}
	c := m.api(from)
	go func() {
		defer close(b.done)
		for i := 0; ; i++ {
			select {
			case <-b.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			name := fmt.Sprintf("%s-%d", prefix, i)
			err := ask(c, http.MethodPost, ledgerPath, map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]string{"n": strconv.Itoa(i)}}, nil)
			b.note(name, err)
		}
	}()
	return b
}

func (b *book) note(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err = err; err != nil {
		return
	}
	now := time.Now()
	b.gap, b.last = max(b.gap, now.Sub(b.last)), now
	b.acked[name] = now
}

func (b *book) count() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acked), b.err
}

// more waits until so many more are acknowledged.
func (m *masters) more(b *book, n int) {
	m.t.Helper()
	before, _ := b.count()
	m.within(fmt.Sprintf("%d more objects are written", n), func() error {
		now, err := b.count()
		if now < before+n {
			return fmt.Errorf("%d of them are, the last one with %v", now-before, err)
		}
		return nil
	})
}

// end stops writing, and returns what was acknowledged.
func (b *book) end() map[string]time.Time {
	close(b.stop)
	<-b.done
	return b.acked
}

// within tries until there is no error any more.
func (m *masters) within(what string, try func() error) {
	m.t.Helper()
	for end := time.Now().Add(mastersLimit); ; time.Sleep(250 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			require.NoError(m.t, err, "%s, after %s", what, mastersLimit)
		}
	}
}

// holds requires that everything that was acknowledged is there, asked from a node.
func (m *masters) holds(from *Node, acked map[string]time.Time) {
	m.t.Helper()
	c := m.api(from)
	have := map[string]bool{}
	m.within("the objects can be listed", func() error {
		clear(have)
		next := ""
		for {
			var page struct {
				Metadata struct{ Continue string }
				Items    []struct{ Metadata struct{ Name string } }
			}
			if err := ask(c, http.MethodGet, ledgerPath+"?limit=500&continue="+url.QueryEscape(next), nil, &page); err != nil {
				return err
			}
			for _, i := range page.Items {
				have[i.Metadata.Name] = true
			}
			if next = page.Metadata.Continue; next == "" {
				return nil
			}
		}
	})
	var lost []string
	for name := range acked {
		if !have[name] {
			lost = append(lost, name)
		}
	}
	require.Empty(m.t, lost, "acknowledged objects of %d that are lost", len(acked))
}

// members asks the etcd of a node who the members are.
func (m *masters) members(of *Node) ([]member, error) {
	out, err := of.Exec("spore-agent", "etcd", "show", "--json")
	if err != nil {
		return nil, err
	}
	var list []member
	return list, json.Unmarshal([]byte(out), &list)
}

// voters waits until these masters are the members of etcd, and all of them vote and are well.
func (m *masters) voters(names ...string) map[string]member {
	m.t.Helper()
	out := map[string]member{}
	m.within("the members of etcd are "+strings.Join(names, ", "), func() error {
		list, err := m.members(m.Node(names[0]))
		if err != nil {
			return err
		}
		clear(out)
		leads := ""
		for _, e := range list {
			out[e.Name] = e
			if e.Learner || !e.Started || e.Problem != "" || !slices.Contains(names, e.Name) {
				return fmt.Errorf("a member is as follows: %+v", e)
			}
			if e.Leader {
				leads = e.Name
			}
		}
		if len(list) != len(names) || leads == "" {
			return fmt.Errorf("the members are %+v", list)
		}
		return nil
	})
	return out
}

// leader is the node whose etcd leads.
func (m *masters) leader(all map[string]member) *Node {
	m.t.Helper()
	for name, e := range all {
		if e.Leader {
			return m.Node(name)
		}
	}
	require.FailNow(m.t, "nobody leads")
	return nil
}

// awaits waits until a node says that etcd waits for each of those.
func (m *masters) awaits(n *Node, unit string, names ...string) string {
	m.t.Helper()
	s := n.Await("etcd waits for "+strings.Join(names, " and "), func(s vm.Status) bool {
		for _, name := range names {
			if !strings.Contains(waiting(s), name) {
				return false
			}
		}
		return true
	})
	require.NotEqual(m.t, "active", s.Services[unit], s.Raw)
	m.t.Logf("%s: %s", n.Facts.Name, waiting(s))
	return waiting(s)
}

// data is where a node has what etcd promised.
func data(n *Node) string { return filepath.Join(n.Var(), "lib", "etcd", "member", "wal") }

// silent watches a node whose etcd must not run.
func (m *masters) silent(n *Node, long time.Duration) {
	m.t.Helper()
	n.silent(long, data(n), "2379")
}

func newMasters(t *testing.T, without ...string) *masters {
	t.Helper()
	m := &masters{Lab: New(t, Options{Source: "../..", Configs: "testdata/masters", Masked: append(without, withoutCGroups...)})}
	admin, err := m.Keys.Admin(&m.Cluster, "test", pki.KubernetesLife, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	m.client = admin
	return m
}

// TestThreeMasters has three masters serve the API while one of them goes, and comes back with nothing.
func TestThreeMasters(t *testing.T) {
	m := newMasters(t)
	one, two, worker := m.Node("master-1"), m.Node("master-2"), m.Node("worker-1")
	acked := map[string]time.Time{}
	keep := func(b *book) {
		for name, at := range b.end() {
			acked[name] = at
		}
	}
	m.StartAll()
	first := m.voters("master-1", "master-2", "master-3")

	m.Step("each listens where its rows say, and nowhere else", m.listenWhereTheirRowsSay)
	m.Step("each API server listens as its environment file says", func(t *testing.T) {
		for _, name := range []string{"master-1", "master-2", "master-3"} {
			n := m.Node(name)
			n.runsWithItsFile(t, "kube-apiserver", []string{
				"KUBE_APISERVER_ADVERTISE_ADDRESS=" + n.IP(), "KUBE_APISERVER_BIND_ADDRESS=0.0.0.0",
				"KUBE_APISERVER_SECURE_PORT=6443", "KUBE_APISERVER_SERVICE_CLUSTER_IP_RANGE=10.96.0.0/16",
			}, []string{"--advertise-address=" + n.IP(), "--bind-address=0.0.0.0", "--secure-port=6443", "--service-cluster-ip-range=10.96.0.0/16"})
		}
	})
	m.Step("the leader loses power, and the API answers again through the balancer", func(t *testing.T) {
		lost := m.leader(first)
		b := m.writeBook(worker, "leader")
		m.more(b, 50+m.random.IntN(100))
		lost.PowerLoss()
		m.more(b, 100)
		t.Logf("%s, which led, lost power; the longest time in which nothing was written: %.2f s", lost.Facts.Name, b.gap.Seconds())
		require.Less(t, b.gap, failoverLimit)
		keep(b)
		m.holds(worker, acked)
		lost.Start()
		lost.Running()
		require.Equal(t, ids(first), ids(m.voters("master-1", "master-2", "master-3")), "it is the same member")
	})
	m.Step("an API server alone fails, and its own node goes on through the others", func(t *testing.T) {
		b := m.writeBook(one, "server")
		m.more(b, 20)
		one.MustExec("systemctl", "kill", "--signal=SIGKILL", "kube-apiserver.service")
		m.more(b, 50)
		t.Logf("the longest time in which nothing was written: %.2f s", b.gap.Seconds())
		require.Less(t, b.gap, failoverLimit)
		keep(b)
		m.holds(worker, acked)
	})
	m.Step("a master that was wiped is taken in again while the others serve, as another member", func(t *testing.T) {
		b := m.writeBook(worker, "wiped")
		m.more(b, 50)
		two.PowerLoss()
		two.WipeState()
		two.NewBundle()
		two.Start()
		two.Running()
		now := m.voters("master-1", "master-2", "master-3")
		m.more(b, 50)
		keep(b)
		t.Logf("on master-2:\n%s\n%s", two.MustExec("spore-agent", "etcd", "show"), two.MustExec("journalctl", "--no-hostname", "-o", "cat", "-b", "-u", "etcd", "-u", "etcd-members", "-g", "spore-"))
		t.Logf("the longest time in which nothing was written: %.2f s", b.gap.Seconds())
		require.NotEqual(t, first["master-2"].ID, now["master-2"].ID, "what it was is gone")
		require.Equal(t, first["master-1"].ID, now["master-1"].ID)
		require.Equal(t, first["master-3"].ID, now["master-3"].ID)
		m.holds(two, acked)
		require.Greater(t, len(acked), 300)
	})
	m.Step("no journal has a secret, and no audit log", m.journalsHaveNoSecret)
}

// TestTheMembersOfEtcd has masters form etcd, lose each other and their disks, and be replaced by configuration.
func TestTheMembersOfEtcd(t *testing.T) {
	m := newMasters(t, withoutAPI...)
	one, two, three, worker := m.Node("master-1"), m.Node("master-2"), m.Node("master-3"), m.Node("worker-1")
	all := []string{"master-1", "master-2", "master-3"}

	m.Step("no master forms etcd before all are there, and each says for whom it waits", func(t *testing.T) {
		three.Start()
		m.awaits(three, "etcd.service", "master-1", "master-2")
		one.Start()
		m.awaits(one, "etcd.service", "master-2")
		m.silent(three, 5*time.Second)
		m.silent(one, 5*time.Second)
		t.Logf("on master-1:\n%s", one.MustExec("spore-agent", "formation", "show"))
		two.Start()
		worker.Start()
		for _, n := range m.Nodes() {
			n.Running()
		}
		m.voters(all...)
		m.put(two)
	})
	m.Step("all lose power amid acknowledged keys, and one that was wiped waits alone, and says for whom", func(t *testing.T) {
		before := m.voters(all...)
		m.cutAmidPuts(one, two, three)
		one.WipeState()
		one.NewBundle()
		one.Start()
		m.awaits(one, "etcd.service", "master-2", "master-3")
		m.silent(one, quietForMaster)
		two.Start()
		// The other one has its data and no majority, so nobody can be let in.
		m.within("it knows that it is to join", func() error {
			_, err := one.Exec("journalctl", "-b", "-u", "etcd", "-g", "joins: master-2 is or was part")
			return err
		})
		m.silent(one, 5*time.Second)
		three.Start()
		for _, n := range []*Node{one, two, three} {
			n.Running()
		}
		now := m.voters(all...)
		t.Logf("on master-1:\n%s\n%s", one.MustExec("spore-agent", "etcd", "show"), one.MustExec("journalctl", "--no-hostname", "-o", "cat", "-b", "-u", "etcd", "-u", "etcd-members", "-g", "spore-"))
		require.NotEqual(t, before["master-1"].ID, now["master-1"].ID, "what it was is gone")
		require.Equal(t, before["master-2"].ID, now["master-2"].ID)
		m.holdsKeys(one)
	})
	m.Step("all lose power amid acknowledged keys, and come back in another order", func(t *testing.T) {
		before := m.voters(all...)
		m.cutAmidPuts(one, two, three)
		two.Start()
		one.Start()
		two.Running()
		one.Running()
		m.holdsKeys(two) // two are enough
		three.Start()
		three.Running()
		require.Equal(t, ids(before), ids(m.voters(all...)))
		m.put(three)
		m.holdsKeys(one)
	})
	m.Step("a master of a new configuration comes in, one that is none in it goes, and one has another address", func(t *testing.T) {
		before := m.voters(all...)
		m.Reconfigure("testdata/masters-changed")
		worker.Stop()
		worker.Start()
		// It may not come in before the others know it.
		m.awaits(worker, "etcd.service", "master-1", "403")
		for _, n := range []*Node{one, two} {
			n.Stop()
			n.Start()
			n.Running()
		}
		worker.Running()
		m.voters("master-1", "master-2", "worker-1")
		m.holdsKeys(worker)
		// The one that went has the former configuration still.
		m.within("the one that went says why it does not come back", func() error {
			out, err := three.Exec("spore-agent", "status", "--json")
			if err != nil {
				return err
			}
			if !strings.Contains(out, "in which this node is a master") {
				return errors.New(out)
			}
			return nil
		})
		require.NoDirExists(t, data(three))
		t.Logf("on master-3:\n%s", three.MustExec("sh", "-c", "systemctl status --no-pager --lines=8 etcd; true"))
		three.Stop()
		three.Start()
		three.Running()
		now := m.voters("master-1", "master-2", "worker-1")
		require.Equal(t, before["master-2"].ID, now["master-2"].ID, "it is the same member")
		require.Equal(t, []string{"https://10.82.0.32:2380"}, now["master-2"].Peers)
	})
	m.Step("masters that all lost etcd form nothing but by force", func(t *testing.T) {
		nodes := []*Node{one, two, worker}
		for _, n := range nodes {
			n.MustExec("systemctl", "stop", "etcd.service")
			n.MustExec("rm", "-r", "/var/lib/etcd/member")
		}
		for _, n := range nodes {
			n.MustExec("systemctl", "start", "--no-block", "etcd.service")
		}
		m.awaits(one, "etcd.service", "master-2", "worker-1")
		m.silent(one, 5*time.Second)
		out, err := one.Exec("spore-agent", "etcd", "bootstrap", "--force")
		require.Error(t, err)
		require.Contains(t, out, "--lose master-1,master-2,worker-1", "it names whose data would be given up")
		t.Logf("refused:\n%s\ndone:\n%s", out, one.MustExec("spore-agent", "etcd", "bootstrap", "--force", "--lose", "master-1,master-2,worker-1"))
		m.voters("master-1", "master-2", "worker-1")
		m.keys = 0
		m.put(two)
		m.holdsKeys(worker)
	})
}

func ids(all map[string]member) map[string]string {
	out := map[string]string{}
	for name, e := range all {
		out[name] = e.ID
	}
	return out
}

// TestEveryOrderOfPowerForms has etcd form in each order in which three masters are switched on, and come back in each.
func TestEveryOrderOfPowerForms(t *testing.T) {
	if os.Getenv("SPORE_SOAK") == "" {
		t.Skip("elsewhere: `make soak` runs it, by SPORE_SOAK=1")
	}
	m := newMasters(t, withoutAPI...)
	all := []*Node{m.Node("master-1"), m.Node("master-2"), m.Node("master-3")}
	names := []string{"master-1", "master-2", "master-3"}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		m.Step(fmt.Sprint(order), func(t *testing.T) {
			for _, formed := range []bool{false, true} {
				for i, which := range order {
					all[which].Start()
					if !formed && i < 2 {
						m.awaits(all[which], "etcd.service", names[order[2]])
					}
				}
				for _, n := range all {
					n.Running()
				}
				m.voters(names...)
				m.put(all[order[2]])
				m.holdsKeys(all[order[0]])
				m.PowerLoss(all...)
			}
			m.keys = 0
			for _, n := range all {
				n.WipeState()
				n.NewBundle()
			}
		})
	}
}
