package nodeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/netnstest"
	"spore/agent/nodetest"
	"spore/agent/pull"
	"spore/agent/pull/looked"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/test/sitebench"
	"spore/wire/update"
)

// uplink is a plain web server, which counts what it gives.
type uplink struct {
	mu sync.Mutex
	// fetched is how often each piece was given, bytes what all of them have.
	fetched map[string]int
	bytes   int64
}

func (u *uplink) ServeHTTP(w http.ResponseWriter, r *http.Request, files http.Handler) {
	c := &counter{ResponseWriter: w}
	files.ServeHTTP(c, r)
	if !strings.HasPrefix(r.URL.Path, "/"+pull.Pieces) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fetched[filepath.Base(r.URL.Path)]++
	u.bytes += c.bytes
}

// counter counts the bytes of an answer.
type counter struct {
	http.ResponseWriter
	bytes int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// site is a cluster whose nodes are processes with the API of a node, and an update on a web server.
type site struct {
	nodes  map[string]*nodeProcess
	uplink *uplink
	// sums are the pieces of the update, size is what they have together, in bytes.
	sums   []string
	size   int64
	serial uint64
}

// newSite starts a site of nodes, in a network namespace of the test, with an update of so many pieces.
func newSite(t *testing.T, nodes, count int) *site {
	t.Helper()
	loopback, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(loopback))
	var addresses []string
	for i := range nodes {
		a := fmt.Sprintf("10.77.0.%d", 11+i)
		netnstest.Address(t, "lo", a+"/32")
		addresses = append(addresses, a)
	}
	s := &site{nodes: map[string]*nodeProcess{}, uplink: &uplink{fetched: map[string]int{}}}
	folder := t.TempDir()
	files := http.FileServer(http.Dir(folder))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.uplink.ServeHTTP(w, r, files) }))
	t.Cleanup(web.Close)
	// Brokers has names for three.
	first := addresses[:min(len(addresses), 3)]
	machines, c, tree := nodetest.BrokersOf(t, func(config *cluster.Config) {
		config.Cluster.Updates = &spec.Updates{From: []string{web.URL}}
		for _, a := range addresses[len(first):] {
			name := fmt.Sprintf("kafka-%d", len(config.Cluster.Nodes)+1)
			config.Cluster.Nodes = append(config.Cluster.Nodes, spec.Node{Name: name, IPs: []string{a}, Roles: []string{"kafka-broker"}})
		}
	}, first...)
	require.Len(t, machines, nodes)

	require.NoError(t, os.Mkdir(filepath.Join(folder, filepath.Dir(pull.Pieces+"x")), 0o755))
	var blobs []update.Blob
	for i := range count {
		o := bytes.Repeat([]byte(fmt.Sprintf("piece %d ", i)), 5000)
		b, err := update.Sum(bytes.NewReader(o))
		require.NoError(t, err)
		blobs, s.sums, s.size = append(blobs, b), append(s.sums, b.SHA256), s.size+b.Size
		require.NoError(t, os.WriteFile(filepath.Join(folder, pull.Pieces+b.SHA256), o, 0o644))
	}
	hash := strings.Repeat("a", 64)
	head, h, err := tree.SignUpdate(update.Head{
		Nodes: slices.Sorted(maps.Keys(machines)), RootHash: hash, ClusterHash: hash,
		Root: update.Root{Size: 4096, Salt: hash, UUID: hash[:32], Index: blobs[1]},
		Boot: blobs[0], UKI: blobs[0], Part: blobs[0],
	}, time.Now())
	require.NoError(t, err)
	require.Equal(t, c.ID, h.Cluster)
	s.serial = h.Serial
	require.NoError(t, os.WriteFile(filepath.Join(folder, pull.Head), head, 0o644))
	for name, m := range machines {
		require.NoError(t, os.WriteFile(m.Root.At(wanted), []byte(strings.Join(s.sums, "\n")), 0o644))
		s.nodes[name] = startNode(t, name, m)
	}
	return s
}

// look has all nodes look at the same time, each of which has to get all pieces, from wherever it likes.
func (s *site) look(t *testing.T) map[string]looked.Last {
	t.Helper()
	var mu sync.Mutex
	looks := map[string]looked.Last{}
	var g sync.WaitGroup
	for name, n := range s.nodes {
		g.Go(func() {
			l := n.look(t)
			mu.Lock()
			defer mu.Unlock()
			looks[name] = l
		})
	}
	g.Wait()
	outside := int64(0)
	for name, l := range looks {
		require.Empty(t, l.Problem, name)
		require.Equal(t, s.serial, l.Serial)
		require.Equal(t, s.size, l.Outside+l.Nodes, name)
		outside += l.Outside
	}
	require.Equal(t, s.uplink.bytes, outside, "what the nodes say of it is what the web server gave")
	return looks
}

// most is how often the piece came over the uplink that came most often; each came.
func (s *site) most(t *testing.T) (most int) {
	t.Helper()
	for _, sum := range s.sums {
		require.NotZero(t, s.uplink.fetched[sum], sum)
	}
	require.Len(t, s.uplink.fetched, len(s.sums))
	return slices.Max(slices.Collect(maps.Values(s.uplink.fetched)))
}

// Fifty nodes that look at the same time, each a process with the API of a node, fetch each piece of an update over the
// uplink of their site once or twice.
func TestFiftyNodesOfASiteFetchEachPieceOnceOrTwice(t *testing.T) {
	t.Parallel()
	netnstest.Run(t, fiftyNodes)
}

func fiftyNodes(t *testing.T) {
	const nodes, count = 50, 60
	s := newSite(t, nodes, count)
	before, began := cpu(t), time.Now()
	s.look(t)
	r := sitebench.Result{
		Nodes: nodes, Pieces: count, Size: s.size, Uplink: s.uplink.bytes, Most: s.most(t), Wall: time.Since(began),
	}
	for _, n := range s.uplink.fetched {
		r.Fetches += n
	}
	require.LessOrEqual(t, r.Most, sitebench.Goal)
	for _, n := range s.nodes {
		n.end(t)
	}
	r.CPU = cpu(t) - before
	t.Logf("%+v", r)
	if path := os.Getenv(sitebench.Variable); path != "" {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o644))
	}
}

// cpu is the processor time of this process and of the nodes that have ended.
func cpu(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(who, &u))
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
