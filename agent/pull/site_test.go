package pull

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/agent/pull/looked"
	"spore/agent/share"
	"spore/agent/slot"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/storage/pieces"
	"spore/test/testca"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// plant is a site of nodes that take an update from one web server, each with its API over TLS.
type plant struct {
	t     *testing.T
	ca    *testca.CA
	names []string
	// at is where the API of each node is; a dead one has an address at which nobody answers.
	at      map[string]string
	shelves map[string]*share.Shelf
	objects [][]byte
	web     string
	network network

	mu      sync.Mutex
	fetched map[string]int
	said    []string
	// down says that the web server answers nobody.
	down bool
}

// wrapped changes how the API of a node answers.
type wrapped func(share.Source) share.Source

// newPlant starts the nodes' APIs. Of those that are dead nobody listens.
func newPlant(t *testing.T, nodes, count int, dead []string, odd map[string]wrapped) *plant {
	t.Helper()
	ca, err := testca.New("agents")
	require.NoError(t, err)
	p := &plant{t: t, ca: ca, at: map[string]string{}, shelves: map[string]*share.Shelf{}, fetched: map[string]int{}}
	dir, objects := published(t, count)
	p.objects = objects
	files := http.FileServer(http.Dir(dir))
	web := p.network.listen()
	p.web = "http://" + web.Addr().String()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.fetched[filepath.Base(r.URL.Path)]++
		down := p.down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		files.ServeHTTP(w, r)
	})}
	p.runs(func() error { return s.Serve(web) }, s.Close)
	for i := range nodes {
		name := fmt.Sprintf("node-%02d", i)
		p.names = append(p.names, name)
		shelf := &share.Shelf{Dir: t.TempDir(), Limit: share.ShelfLimit, Free: func() int64 { return 1 << 40 }}
		p.shelves[name] = shelf
		l := p.network.listen()
		p.at[name] = l.Addr().String()
		if slices.Contains(dead, name) {
			require.NoError(t, l.Close())
			continue
		}
		row := share.Row(shelf)
		if odd[name] != nil {
			row = share.Row(&share.Shelf{Dir: t.TempDir()}, odd[name](shelf))
		}
		id := p.identity(name)
		server := api.Server{
			Rows: []api.Row{row}, Now: time.Now, Say: p.say,
			Identity: func() (nodeapi.Identity, error) { return id, nil },
		}
		ctx, stop := context.WithCancel(context.Background())
		p.runs(func() error { return server.Serve(ctx, l) }, func() error { stop(); return nil })
	}
	return p
}

// runs has a server run until the test ends.
func (p *plant) runs(serve, stop func() error) {
	done := make(chan error, 1)
	go func() { done <- serve() }()
	p.t.Cleanup(func() {
		require.NoError(p.t, stop())
		if err := <-done; err != nil {
			require.ErrorIs(p.t, err, http.ErrServerClosed)
		}
	})
}

// source is a source of the plant's network.
func (p *plant) source(address string) (*server, error) {
	u, err := url.Parse(address)
	c := client()
	t := c.Transport.(*http.Transport)
	t.DialContext = func(ctx context.Context, _, to string) (net.Conn, error) {
		return p.network.dial(ctx, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, to)
	}
	p.t.Cleanup(t.CloseIdleConnections)
	return &server{base: u, client: c, patience: time.Second, pause: 10 * time.Millisecond}, err
}

func (p *plant) identity(name string) nodeapi.Identity {
	certificate, key, err := p.ca.Issue(&x509.Certificate{
		Subject:  pkix.Name{CommonName: name, Organization: []string{"spore:nodes"}},
		DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	require.NoError(p.t, err)
	return nodeapi.Identity{Certificate: certificate, Key: key, Authorities: p.ca.PEM()}
}

func (p *plant) say(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, s)
}

// look has a node look, which lacks objects.
func (p *plant) look(name string, node *taker, b bounds) looked.Last {
	id := p.identity(name)
	v := &visits{client: nodeapi.Client{
		Identity:  func() (nodeapi.Identity, error) { return id, nil },
		Addresses: func(of string) ([]string, error) { return []string{p.at[of]}, nil },
		Dial: func(ctx context.Context, _, to string) (net.Conn, error) {
			from, err := netip.ParseAddrPort(p.at[name])
			if err != nil {
				return nil, err
			}
			return p.network.dial(ctx, net.TCPAddrFromAddrPort(from), to)
		},
	}}
	defer v.end()
	c := &facts.Cluster{
		SigningKeys: public(1), Members: map[string][]string{"mqtt-broker": p.names},
		Updates: &spec.Updates{From: []string{p.web}},
	}
	l := &look{
		cluster: c, node: name, shelf: p.shelves[name], send: node.send, ask: v.ask, bounds: b,
		say: func(s string) { p.say(name + ": " + s) }, now: time.Now,
		of: func(from string) (Source, error) { return p.source(from) },
	}
	return l.run(p.t.Context())
}

// brisk are the bounds of tests.
func brisk() bounds {
	return bounds{
		ask: 10 * time.Second, fails: 10 * time.Second, gives: 2 * time.Minute, idle: 2 * time.Minute, all: 5 * time.Minute,
		first: 100 * time.Millisecond, last: time.Second,
	}
}

// all has all nodes but some look within a moment of each other, and checks that each got everything.
func (p *plant) all(without []string, b bounds) map[string]looked.Last {
	var mu sync.Mutex
	out := map[string]looked.Last{}
	var g sync.WaitGroup
	for _, name := range p.names {
		if slices.Contains(without, name) {
			continue
		}
		delay := rand.N(500 * time.Millisecond)
		g.Go(func() {
			time.Sleep(delay)
			node := &taker{wants: p.objects, atOnce: 60}
			l := p.look(name, node, b)
			mu.Lock()
			defer mu.Unlock()
			out[name] = l
			require.Empty(p.t, l.Problem, name)
			require.Equal(p.t, p.objects, node.got, name)
			require.True(p.t, node.wishes[0].Pull && node.wishes[0].Later && !node.wishes[0].Reboot)
		})
	}
	g.Wait()
	return out
}

// most is how often the piece was fetched from outside that was fetched most often, and how many fetches there were.
func (p *plant) most() (most, sum int) {
	counts := maps.Clone(p.fetched)
	delete(counts, Head)
	for _, o := range p.objects {
		require.Contains(p.t, counts, pieces.SumOf(o).String())
	}
	for _, n := range counts {
		most, sum = max(most, n), sum+n
	}
	return most, sum
}

// hears tells whether somebody said a text.
func (p *plant) hears(text string) bool {
	return slices.ContainsFunc(p.said, func(s string) bool { return strings.Contains(s, text) })
}

func TestASiteFetchesEachPieceOnceOrTwice(t *testing.T) {
	const count = 60
	for name, tt := range map[string]struct {
		nodes int
		dead  []string
		odd   map[string]wrapped
		says  string
	}{
		"when all nodes are well": {nodes: 50},
		"when a node is dead":     {nodes: 12, dead: []string{"node-07"}, says: "node-07 does not answer"},
		"when a node gives wrong pieces": {
			nodes: 12, odd: map[string]wrapped{"node-11": liar}, says: "node-11 gave other content",
		},
		"when a node is slow": {nodes: 12, odd: map[string]wrapped{"node-09": sleeper}},
	} {
		inBubble(t, name, func(t *testing.T) {
			p := newPlant(t, tt.nodes, count, tt.dead, tt.odd)
			began := time.Now()
			looks := p.all(tt.dead, brisk())
			require.Less(t, time.Since(began), 2*time.Minute, "no node keeps the others waiting for long")
			most, sum := p.most()
			t.Logf("%d nodes took %d pieces in %v: %d fetches from outside, at most %d of one piece", len(looks), count,
				time.Since(began), sum, most)
			require.LessOrEqual(t, most, 2)
			require.Less(t, sum, count*3/2, "but for what one node is responsible for, once")
			if tt.says != "" {
				require.True(t, p.hears(tt.says), "%v", p.said)
			}
			size := int64(len(bytes.Join(p.objects, nil)))
			for name, l := range looks {
				require.Equal(t, size, l.Outside+l.Nodes, name)
				require.EqualValues(t, 7, l.Serial)
				require.Contains(t, l.Result, "update 7 is written")
				require.Equal(t, p.web, l.From)
			}
		})
	}
}

// inBubble is a part of a test whose time goes on when all of it waits.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// Last of all; its time stands still from then on.
			t.Cleanup(func() { time.Sleep(time.Minute) })
			test(t)
		})
	})
}

// answers is a source that answers in its own way.
type answers func(pieces.Sum) ([]byte, error)

func (a answers) Get(sum pieces.Sum) ([]byte, error) { return a(sum) }

func liar(share.Source) share.Source {
	return answers(func(pieces.Sum) ([]byte, error) { return []byte("another piece"), nil })
}

func sleeper(s share.Source) share.Source {
	return answers(func(sum pieces.Sum) ([]byte, error) {
		time.Sleep(30 * time.Second)
		return s.Get(sum)
	})
}

// A node that is alone, because the others have not looked or never will, waits for a bounded time, and then goes on.
func TestANodeThatNobodyHelpsGoesOnAlone(t *testing.T) {
	b := brisk()
	b.gives = time.Second
	p := newPlant(t, 5, 40, nil, nil)
	node := &taker{wants: p.objects, atOnce: 1000}
	began := time.Now()
	l := p.look("node-00", node, b)
	require.Empty(t, l.Problem)
	require.Equal(t, p.objects, node.got)
	require.Less(t, time.Since(began), 20*time.Second)
	require.Zero(t, l.Nodes)
	require.True(t, p.hears("has given nothing of the update"))
}

// Who has ended its look is not waited for, whatever came of it.
func TestANodeThatFetchesNothingMoreIsNotWaitedFor(t *testing.T) {
	p := newPlant(t, 5, 40, nil, nil)
	for _, name := range p.names[1:] {
		l := p.look(name, &taker{}, brisk()) // It lacks nothing.
		require.Empty(t, l.Problem)
		require.Zero(t, l.Outside)
	}
	began := time.Now()
	l := p.look("node-00", &taker{wants: p.objects, atOnce: 1000}, brisk())
	require.Empty(t, l.Problem)
	require.Less(t, time.Since(began), 10*time.Second)
	require.EqualValues(t, len(bytes.Join(p.objects, nil)), l.Outside)
}

func TestALookThatFailsSaysWhyAndIsTriedAgain(t *testing.T) {
	p := newPlant(t, 3, 10, nil, nil)
	p.down = true
	l := p.look("node-00", &taker{wants: p.objects, atOnce: 100}, brisk())
	require.Contains(t, l.Problem, "read the head of the update: "+p.web)
	require.WithinDuration(t, time.Now(), l.At, time.Minute)
	p.down = false
	l = p.look("node-00", &taker{wants: p.objects, atOnce: 100}, bounds{ask: time.Second})
	require.Empty(t, l.Problem)
}

// What the node refuses, such as for its date or for want of a clock, is fetched by nobody.
func TestWhatTheNodeRefusesIsNotFetched(t *testing.T) {
	p := newPlant(t, 3, 10, nil, nil)
	s := p.shelves["node-00"]
	l := &look{
		cluster: &facts.Cluster{SigningKeys: public(1), Updates: &spec.Updates{From: []string{p.web}}}, node: "node-00",
		shelf: s, send: refusing(t), bounds: brisk(), say: p.say, now: time.Now,
		of: func(from string) (Source, error) { return p.source(from) },
	}
	out := l.run(t.Context())
	require.Equal(t, "no time server keeps this node's clock", out.Problem)
	require.Equal(t, map[string]int{Head: 1}, p.fetched)
	head, err := os.ReadFile(filepath.Join(s.Dir, "ended"))
	require.NoError(t, err)
	require.True(t, s.Ended(string(head)), "nobody waits for it")

	l.cluster.SigningKeys = public(2)
	require.Contains(t, l.run(t.Context()).Problem, "is not signed by this cluster")
}

func TestPiecesAreKeptForADayAfterTheUpdateRuns(t *testing.T) {
	p := newPlant(t, 2, 10, nil, nil)
	l := p.look("node-00", &taker{wants: p.objects, atOnce: 100}, bounds{ask: time.Second})
	require.Empty(t, l.Problem)
	s := p.shelves["node-00"]
	kept := func() int {
		entries, err := os.ReadDir(filepath.Join(s.Dir, "pieces"))
		require.NoError(t, err)
		return len(entries)
	}
	require.Equal(t, len(p.objects), kept(), "it is one of the two that are responsible")
	for _, tt := range []struct {
		age  time.Duration
		want int
	}{{time.Hour, len(p.objects)}, {25 * time.Hour, 0}} {
		of := filepath.Join(s.Dir, "of")
		past := time.Now().Add(-tt.age)
		require.NoError(t, os.Chtimes(of, past, past))
		require.Empty(t, p.look("node-00", &taker{runs: true}, brisk()).Problem)
		require.Equal(t, tt.want, kept(), tt.age)
	}
}

func refusing(t *testing.T) send {
	return func(_ context.Context, _ io.Reader, wish slot.Wish) (*update.Answer, error) {
		require.True(t, wish.Pull)
		return &update.Answer{Error: "no time server keeps this node's clock"}, nil
	}
}
