package serve

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/answers"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/services/dashboard"
	"spore/services/dashboard/serving"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// plant is a node with the role, whose pages are served, and who may open them.
type plant struct {
	t     *testing.T
	m     *node.Machine
	c     *facts.Cluster
	tree  *pki.Tree
	at    string
	pool  *x509.CertPool
	ahead atomic.Int64
	mu    sync.Mutex
	said  []string
}

// newPlant serves the pages of kafka-1, which asks itself.
func newPlant(t *testing.T) *plant {
	t.Helper()
	machines, c, tree := nodetest.BrokersOf(t, func(config *cluster.Config) {
		config.Cluster.Services = append(config.Cluster.Services, dashboard.Name)
		config.Services = append(config.Services, &dashboard.Settings{})
		config.Cluster.Nodes[0].Roles = append(config.Cluster.Nodes[0].Roles, dashboard.Role)
	}, "127.0.0.1")
	p := &plant{t: t, m: machines["kafka-1"], c: c, tree: tree, pool: x509.NewCertPool()}
	api, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(nodetest.Serve(t, p.m, func(ctx context.Context, m *node.Machine) error { return answers.ServeOn(ctx, m, api) }))
	line := status.Line{Spore: 1, Cluster: "plant", Node: "kafka-1", System: "running", Roles: []string{"kafka-broker"}, Failed: []string{}}
	_, err = atomicfile.Write(p.m.Root.At(paths.Status), []byte(line.String()+"\n"), 0o644)
	require.NoError(t, err)
	authority, err := p.m.Part.Public("agent.crt")
	require.NoError(t, err)
	require.True(t, p.pool.AppendCertsFromPEM(authority))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.at = "https://" + l.Addr().String()
	secret := func(name string) string { return p.m.Root.At(filepath.Join(paths.Secrets, dashboard.Program, name)) }
	ctx, stop := context.WithCancel(context.Background())
	done, ready := make(chan error, 1), make(chan struct{})
	go func() {
		done <- Run(ctx, l, Options{
			Config: serving.Config{
				Node: "kafka-1", Listen: l.Addr().String(),
				Server: serving.Pair{Certificate: secret(dashboard.ServerCertificate), Key: secret(dashboard.ServerKey)},
				Reader: serving.Pair{Certificate: secret(dashboard.ReaderCertificate), Key: secret(dashboard.ReaderKey)},
			},
			Root: p.m.Root, Part: p.m.Part, Now: func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) },
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, api.Addr().String())
			},
			Say: func(s string) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.said = append(p.said, s)
			},
			Ready: func() { close(ready) },
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	select {
	case <-ready:
	case err := <-done:
		require.NoError(t, err)
	}
	return p
}

// access is a certificate for a person.
func (p *plant) access(row string, life time.Duration, nodes ...string) tls.Certificate {
	p.t.Helper()
	o := pki.Options{Now: time.Now(), Random: rand.Reader}
	made, err := p.tree.Access(p.c, row, "anna", life, o)
	if len(nodes) > 0 {
		made, err = p.tree.AccessTo(p.c, row, "anna", nodes, life, o)
	}
	require.NoError(p.t, err)
	return pairOf(p.t, made)
}

func pairOf(t *testing.T, made *pki.Admin) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(made.Certificate), []byte(made.Key))
	require.NoError(t, err)
	return pair
}

// browser is one with certificates.
func (p *plant) browser(shown ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: p.pool, ServerName: "kafka-1", MinVersion: tls.VersionTLS13,
		// A browser shows what its person chooses, whatever authorities the server takes.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(shown) == 0 {
				return new(tls.Certificate), nil
			}
			return &shown[0], nil
		},
	}}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (p *plant) open(b *http.Client, path string) (int, string) {
	p.t.Helper()
	res, err := b.Get(p.at + path)
	require.NoError(p.t, err, "it is a page, and no handshake that fails")
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, "no-store", res.Header.Get("Cache-Control"))
	return res.StatusCode, string(text)
}

func TestPeopleWithACertificateSeeTheCluster(t *testing.T) {
	p := newPlant(t)
	for row, role := range map[string]string{pki.NodeReader: "reader", pki.NodeOperator: "operator", pki.NodeAdmin: "admin"} {
		b := p.browser(p.access(row, time.Hour))
		require.Eventually(t, func() bool {
			status, text := p.open(b, "/")
			require.Equal(t, http.StatusOK, status, text)
			return strings.Contains(text, "kafka-1") && !strings.Contains(text, "it has not answered yet")
		}, 30*time.Second, 100*time.Millisecond, "the node asks itself by its own certificate")
		_, text := p.open(b, "/")
		require.Contains(t, text, "You are <strong>anna</strong>, "+role+", until ")
		require.Contains(t, text, "This page looks, and changes nothing. kafka-1 serves it.")
		require.NotContains(t, text, "<form")
		status, text := p.open(b, "/alerts/silence?name=x")
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, text, "spore alerts silence")
		require.NotContains(t, text, "<form")
		_, text = p.open(b, "/configuration")
		require.Contains(t, text, "has none.")
		_, text = p.open(b, "/machines")
		require.Contains(t, text, "cannot ask that.")
		_, text = p.open(b, "/alerts")
		require.Contains(t, text, "No node has the role <code>alerts</code>")
		_, text = p.open(b, "/charts")
		require.Contains(t, text, "metrics-store")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Contains(t, strings.Join(p.said, "\n"), `"anna" (reader) at 127.0.0.1:`, "the journal has who looks")
}

func TestOthersGetAPageThatSaysWhatToDo(t *testing.T) {
	p := newPlant(t)
	foreign, err := p.another().Access(p.c, pki.NodeAdmin, "mallory", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	old, err := p.tree.Access(p.c, pki.NodeReader, "bert", time.Hour, pki.Options{Now: time.Now().Add(-2 * time.Hour), Random: rand.Reader})
	require.NoError(t, err)
	scraper, err := p.tree.Access(p.c, pki.NodeScraper, "prometheus", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	own, err := p.m.Client().Identity()
	require.NoError(t, err)
	itself, err := tls.X509KeyPair(own.Certificate, own.Key)
	require.NoError(t, err)
	reader := func(name string) string { return p.m.Root.At(filepath.Join(paths.Secrets, dashboard.Program, name)) }
	pages, err := tls.LoadX509KeyPair(reader(dashboard.ReaderCertificate), reader(dashboard.ReaderKey))
	require.NoError(t, err)
	withdrawn := p.access(pki.NodeAdmin, time.Hour)
	p.withdraw(withdrawn)
	for name, c := range map[string]struct {
		shown []tls.Certificate
		want  []string
	}{
		"none":               {nil, []string{"This browser has shown no certificate", "spore access DIR --p12 FILE"}},
		"another authority":  {[]tls.Certificate{pairOf(t, foreign)}, []string{"This certificate is not one of this cluster", "mallory"}},
		"one that has ended": {[]tls.Certificate{pairOf(t, old)}, []string{"This certificate has ended", "That of bert ended at "}},
		"one withdrawn":      {[]tls.Certificate{withdrawn}, []string{"This certificate was withdrawn", "anna"}},
		"a node's":           {[]tls.Certificate{itself}, []string{"not that of a person", "kafka-1"}},
		"that of the pages":  {[]tls.Certificate{pages}, []string{"not that of a person", "dashboard of kafka-1"}},
		"a program's":        {[]tls.Certificate{pairOf(t, scraper)}, []string{"not that of a person"}},
		"one of some nodes":  {[]tls.Certificate{p.access(pki.NodeReader, time.Hour, "kafka-1")}, []string{"limited to some nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := p.browser(c.shown...)
			for _, path := range []string{"/", "/events?page=/", "/journal?node=kafka-1", "/static/style.css", "/logs?pattern=x"} {
				status, text := p.open(b, path)
				require.Equal(t, http.StatusForbidden, status, path)
				require.Contains(t, text, "<h1>", path)
				require.NotContains(t, text, "<nav", "it says nothing of the cluster")
				for _, want := range c.want {
					require.Contains(t, text, want, path)
				}
			}
		})
	}
}

func TestAnotherPageHasABrowserAskForNothing(t *testing.T) {
	p := newPlant(t)
	b := p.browser(p.access(pki.NodeReader, time.Hour))
	for name, c := range map[string]struct {
		site, mode, dest string
		want             int
	}{
		"a script":                {"cross-site", "no-cors", "empty", http.StatusForbidden},
		"a frame":                 {"cross-site", "navigate", "iframe", http.StatusForbidden},
		"a page of another port":  {"same-site", "no-cors", "image", http.StatusForbidden},
		"a link that is followed": {"cross-site", "navigate", "document", http.StatusOK},
		"the page itself":         {"same-origin", "cors", "empty", http.StatusOK},
		"the person":              {"none", "navigate", "document", http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.at+"/", nil)
		require.NoError(t, err)
		r.Header.Set("Sec-Fetch-Site", c.site)
		r.Header.Set("Sec-Fetch-Mode", c.mode)
		r.Header.Set("Sec-Fetch-Dest", c.dest)
		res, err := b.Do(r)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, c.want, res.StatusCode, name)
	}
}

// another is the keys of a cluster with the same name.
func (p *plant) another() *pki.Tree {
	p.t.Helper()
	other := pki.New(p.c)
	_, err := other.Update(p.c, nil, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(p.t, err)
	return other
}

// trustAnother has the node trust another authority, as after an exchange of the old one.
func (p *plant) trustAnother() {
	p.t.Helper()
	made, err := p.another().Access(p.c, pki.NodeReader, "bert", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(p.t, err)
	file := filepath.Join(p.m.Part.Dir, "pki", "agent.crt")
	_, err = atomicfile.Write(file, made.Authority, 0o644)
	require.NoError(p.t, err)
}

// withdraw has the configuration withdraw a certificate, as one does that is taken at once.
func (p *plant) withdraw(pair tls.Certificate) {
	p.t.Helper()
	c, err := p.m.Part.Cluster()
	require.NoError(p.t, err)
	c.Withdrawn = append(c.Withdrawn, nodeapi.Serial(pair.Leaf.SerialNumber))
	require.NoError(p.t, atomicfile.WriteJSON(filepath.Join(p.m.Part.Dir, facts.ClusterFile), c))
}

func TestAPageThatIsOpenEndsWithTheCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *plant, pair tls.Certificate)
		want string
	}{
		"that is withdrawn": {func(p *plant, pair tls.Certificate) { p.withdraw(pair) }, "This certificate was withdrawn"},
		"whose authority is no longer one": {func(p *plant, _ tls.Certificate) { p.trustAnother() },
			"This certificate is not one of this cluster"},
		"that ends": {func(p *plant, _ tls.Certificate) { p.ahead.Store(int64(61 * time.Minute)) }, "This certificate has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlant(t)
			pair := p.access(pki.NodeReader, time.Hour)
			b := p.browser(pair)
			b.Timeout = 30 * time.Second
			res, err := b.Get(p.at + "/events?page=/")
			require.NoError(t, err)
			defer res.Body.Close()
			require.Equal(t, http.StatusOK, res.StatusCode)
			in := bufio.NewReader(res.Body)
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "event: page\n", line)
			c.end(p, pair)
			begun := time.Now()
			rest, err := io.ReadAll(in)
			require.NoError(t, err)
			require.Less(t, time.Since(begun), 10*time.Second)
			require.Contains(t, string(rest), "event: ended\n")
			require.Contains(t, string(rest), c.want)
			status, text := p.open(b, "/")
			require.Equal(t, http.StatusForbidden, status)
			require.Contains(t, text, c.want)
		})
	}
}

func TestAPageStaysOpen(t *testing.T) {
	p := newPlant(t)
	res, err := p.browser(p.access(pki.NodeReader, time.Hour)).Get(p.at + "/events?page=/")
	require.NoError(t, err)
	defer res.Body.Close()
	begun := time.Now()
	for in := bufio.NewScanner(res.Body); time.Since(begun) < 15*time.Second; {
		require.True(t, in.Scan(), "after %s: %v", time.Since(begun), in.Err())
	}
}

func TestAJournalThatIsFollowedEndsWithTheCertificate(t *testing.T) {
	p := newPlant(t)
	pair := p.access(pki.NodeReader, time.Hour)
	res, err := p.browser(pair).Get(p.at + "/journal?node=kafka-1")
	require.NoError(t, err)
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "event: begun\n", line)
	p.withdraw(pair)
	begun := time.Now()
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Less(t, time.Since(begun), 10*time.Second)
	require.Contains(t, string(rest), "event: ended\n")
}

func TestNobodyKeepsASeatByABodyThatDoesNotCome(t *testing.T) {
	p := newPlant(t)
	for name, b := range map[string][]tls.Certificate{"a stranger": nil, "a person": {p.access(pki.NodeReader, time.Hour)}} {
		for _, length := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			conn, err := tls.Dial("tcp", strings.TrimPrefix(p.at, "https://"), &tls.Config{RootCAs: p.pool, ServerName: "kafka-1", Certificates: b})
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "POST /alerts/silence HTTP/1.1\r\nHost: kafka-1\r\n"+length+"\r\n\r\n")
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(8*time.Second)))
			answer, err := io.ReadAll(conn)
			require.NoError(t, err, "%s, %s: the connection stays open", name, length)
			require.Contains(t, string(answer), "This page takes nothing")
		}
	}
}
