package formation

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services/dns"
	"spore/services/kafka"
	"spore/wire/nodeapi"
)

// lab is a cluster of brokers, of which the last node is a DNS server, with the keys that `spore pki` makes for it.
type lab struct {
	t       *testing.T
	cluster *facts.Cluster
	tree    *pki.Tree
	bundles map[string]map[string]string
	// dirs holds each node's files, listeners its loopback address.
	dirs      map[string]string
	listeners map[string]string
}

var members = []string{"c-1", "c-2", "c-3"}

func newLab(t *testing.T) *lab {
	t.Helper()
	config := &cluster.Config{
		Cluster: spec.Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example",
			Network: spec.Network{NodeSubnets: []string{"10.64.0.0/10"}}, Services: []string{"dns", "kafka"},
		},
		Services: spec.Services{&kafka.Settings{}, &dns.Settings{}},
	}
	for i, name := range append(members[:3:3], "edge") {
		role := "kafka-broker"
		if name == "edge" {
			role = "dns-server"
		}
		config.Cluster.Nodes = append(config.Cluster.Nodes, spec.Node{Name: name, IPs: []string{fmt.Sprintf("10.64.0.%d", i+1)}, Roles: []string{role}})
	}
	c, nodes := cluster.Facts(config)
	l := &lab{t: t, cluster: &c, tree: pki.New(&c), bundles: map[string]map[string]string{}, dirs: map[string]string{}, listeners: map[string]string{}}
	now := time.Now()
	_, err := l.tree.Update(&c, nodes, pki.Options{Now: now, Random: rand.Reader})
	require.NoError(t, err)
	keys, err := l.tree.Public().SigningKeys()
	require.NoError(t, err)
	for i := range nodes {
		data, err := l.tree.BundleFor(&c, &nodes[i], now)
		require.NoError(t, err)
		b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: nodes[i].Name, Keys: keys})
		require.NoError(t, err)
		l.bundles[nodes[i].Name], l.dirs[nodes[i].Name] = b.Secrets, filepath.Join(t.TempDir(), "formation")
	}
	return l
}

// identity is a certificate of a node's bundle.
func (l *lab) identity(node, leaf string) nodeapi.Identity {
	id := nodeapi.Identity{Certificate: []byte(l.bundles[node][leaf+"-certificate"]), Key: []byte(l.bundles[node][leaf+"-key"]), Authorities: l.tree.Public().Files()[pki.PublicDir+"/agent.crt"]}
	require.NotEmpty(l.t, id.Certificate)
	require.NotEmpty(l.t, id.Key)
	return id
}

// serve has a node answer on loopback.
func (l *lab) serve(name string) {
	l.t.Helper()
	at := l.listeners[name]
	if at == "" {
		at = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", at)
	require.NoError(l.t, err)
	l.listeners[name] = listener.Addr().String()
	say := func(s string) { l.t.Log(s) }
	members := &Server{Cluster: l.cluster.ID, Node: name, Members: map[string][]string{"kafka": kafka.Quorum().Initial(l.cluster)}, Dir: l.dirs[name], Say: say}
	s := &api.Server{
		Rows:     []api.Row{{Method: http.MethodGet, Path: nodeapi.FormationPath + "{service}", Who: []nodeapi.Role{nodeapi.Node}, Handle: members.Answer}},
		Identity: func() (nodeapi.Identity, error) { return l.identity(name, "agent"), nil }, Say: say, Now: time.Now,
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	l.t.Cleanup(func() { stop(); require.NoError(l.t, <-done) })
}

// asker asks with an identity. Every member has its own port of loopback.
type asker struct {
	l  *lab
	id nodeapi.Identity
}

func (a asker) Ask(ctx context.Context, service, member string) (Answer, error) {
	at := a.l.listeners[member]
	if at == "" {
		return Answer{}, fmt.Errorf("it is off")
	}
	c := &Client{Cluster: a.l.cluster.ID, API: nodeapi.Client{Identity: func() (nodeapi.Identity, error) { return a.id, nil }, Addresses: func(string) ([]string, error) { return []string{at}, nil }}}
	return c.Ask(ctx, service, member)
}

func (l *lab) options(name string) Options {
	return Options{
		Service: "kafka", Cluster: l.cluster.ID, Node: name, Initial: kafka.Quorum().Initial(l.cluster), Dir: l.dirs[name], Asker: asker{l, l.identity(name, "agent")},
		Say: func(s string) { l.t.Log(name + ": " + s) }, Status: func(string) {}, Every: 10 * time.Millisecond,
		Empty: func() (bool, error) { return true, nil }, Make: func(context.Context, Plan) error { return nil },
	}
}

func TestMembersFormOneQuorumOverTLS(t *testing.T) {
	l := newLab(t)
	l.serve("c-1")
	l.serve("c-2")
	l.listeners["c-3"] = freeAddress(t)
	var mu sync.Mutex
	plans, waits := map[string]Plan{}, ""
	var all sync.WaitGroup
	enter := func(name string) {
		o := l.options(name)
		o.Make = func(_ context.Context, p Plan) error {
			mu.Lock()
			defer mu.Unlock()
			plans[name] = p
			return nil
		}
		if name == "c-1" {
			o.Status = func(s string) {
				mu.Lock()
				defer mu.Unlock()
				waits += s + "\n"
			}
		}
		all.Go(func() {
			kind, err := Enter(context.Background(), o)
			require.NoError(t, err)
			require.Equal(t, Form, kind)
		})
	}
	enter("c-1")
	enter("c-2")
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(waits, "c-3 (no answer: connect: connection refused)")
	}, 20*time.Second, 10*time.Millisecond, "whoever waits says for whom")
	require.Empty(t, plans)
	l.serve("c-3")
	enter("c-3")
	all.Wait()
	require.Equal(t, members, plans["c-1"].Names())
	for _, name := range members {
		require.Equal(t, plans["c-1"].Members, plans[name].Members)
		require.Equal(t, plans[name].Nonce, plans[name].Members[name])
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func TestOnlyMembersAreAnswered(t *testing.T) {
	l, other := newLab(t), newLab(t)
	l.serve("c-1")
	own := l.identity("c-2", "agent")
	mixed := other.identity("c-2", "agent")
	mixed.Authorities = own.Authorities
	for name, tc := range map[string]struct {
		id      nodeapi.Identity
		service string
		problem string
	}{
		"a member":                    {own, "kafka", ""},
		"a node that is no member":    {l.identity("edge", "agent"), "kafka", "has no such member"},
		"a service of other nodes":    {own, "ceph-mon", "not a member of such a service"},
		"an agent of another cluster": {mixed, "kafka", "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := asker{l, tc.id}.Ask(context.Background(), tc.service, "c-1")
			if tc.problem == "" {
				require.NoError(t, err)
				require.Equal(t, Answer{Cluster: l.cluster.ID, Node: "c-1", Service: "kafka"}, a, "it has not looked yet")
				return
			}
			require.ErrorContains(t, err, tc.problem)
		})
	}
	for name, caller := range map[string]nodeapi.Caller{
		"nobody":                   {},
		"a node without a name":    {Roles: []nodeapi.Role{nodeapi.Node}},
		"an operator named as one": {Name: "c-2", Roles: []nodeapi.Role{nodeapi.Admin, nodeapi.Reader}},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, nodeapi.FormationPath+"kafka", nil)
			r.SetPathValue("service", "kafka")
			(&Server{Members: map[string][]string{"kafka": {"", "c-2"}}}).Answer(w, r, caller)
			require.Equal(t, http.StatusForbidden, w.Code)
		})
	}
}

// A node that has the right certificate may still talk nonsense.
func TestAnswersOfAMemberAreBounded(t *testing.T) {
	l := newLab(t)
	for name, tc := range map[string]struct {
		answer  func(w http.ResponseWriter)
		problem string
	}{
		"garbage": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "hello") }, "malformed answer"},
		"endless": {func(w http.ResponseWriter) {
			for range 1 << 10 {
				_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<10))
			}
		}, "its answer has more than"},
		"another cluster": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"cluster":"x","node":"c-1","service":"kafka"}`)
		}, `belongs to cluster "x"`},
		"another node": {func(w http.ResponseWriter) {
			_, _ = fmt.Fprintf(w, `{"cluster":%q,"node":"c-2","service":"kafka"}`, l.cluster.ID)
		}, `it answers for "kafka" of "c-2"`},
		"elsewhere":      {func(w http.ResponseWriter) { w.Header().Set("Location", "https://c-2/"); w.WriteHeader(302) }, "it answers 302"},
		"endless header": {func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "server response headers exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tc.answer(w) }))
			config, err := l.identity("c-1", "agent").ServerConfig(nodeapi.Clock{Now: time.Now()}, func(nodeapi.Caller) error { return nil })
			require.NoError(t, err)
			s.TLS = config
			s.StartTLS()
			defer s.Close()
			l.listeners["c-1"] = s.Listener.Addr().String()
			_, err = asker{l, l.identity("c-2", "agent")}.Ask(context.Background(), "kafka", "c-1")
			require.ErrorContains(t, err, tc.problem)
		})
	}
}
