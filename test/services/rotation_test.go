//go:build e2e

package services

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/config/live"
	"spore/agent/renewal"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services"
	"spore/services/service"
	"spore/storage/atomicfile"
	"spore/test/client"
)

// load asks for something again and again, each time by a new connection, and counts.
type load struct {
	t         *testing.T
	stop      context.CancelFunc
	all       sync.WaitGroup
	asking    sync.RWMutex // held for reading as long as a question takes: see between
	mu        sync.Mutex
	asked     int
	failed    []string
	slowest   time.Duration
	certified map[string]int
}

// begin asks by several askers at once, each every few milliseconds, until end. ask returns the serial number of the
// certificate that it was answered with.
func begin(t *testing.T, askers int, ask func(ctx context.Context) (string, error)) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{t: t, stop: stop, certified: map[string]int{}}
	for range askers {
		l.all.Go(func() {
			for ctx.Err() == nil {
				l.asking.RLock()
				began := time.Now()
				serial, err := ask(ctx)
				l.asking.RUnlock()
				if err != nil && ctx.Err() != nil {
					return // for it was told to stop; what succeeded counts all the same
				}
				l.mu.Lock()
				l.asked++
				l.slowest = max(l.slowest, time.Since(began))
				if err != nil {
					l.failed = append(l.failed, err.Error())
				} else {
					l.certified[serial]++
				}
				l.mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { stop(); l.all.Wait() })
	return l
}

// between changes whom the askers trust, or as whom they ask, while no question is under way: one that began before a
// change would end after what the change is there for, where a program does not get to answer for a while. Operators
// wait for longer (rotate-ca).
func (l *load) between(change func()) {
	l.asking.Lock()
	defer l.asking.Unlock()
	change()
}

// until waits until answers come with another certificate than these.
func (l *load) until(known ...string) string {
	l.t.Helper()
	var found string
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for serial := range l.certified {
			old := false
			for _, k := range known {
				old = old || k == serial
			}
			if !old {
				found = serial
			}
		}
		return found != ""
	}, 3*time.Minute, 20*time.Millisecond, "no new certificate is served")
	return found
}

// goOn waits until there were as many questions more.
func (l *load) goOn(questions int) {
	l.t.Helper()
	asked := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.asked }
	before := asked()
	require.Eventually(l.t, func() bool { return asked() >= before+questions }, 3*time.Minute, 20*time.Millisecond)
}

// end stops asking. Not one question may have failed.
func (l *load) end(what string) {
	l.t.Helper()
	l.stop()
	l.all.Wait()
	l.t.Logf("%s: %d requests, each by a connection of its own, %d failed, the slowest took %s, certificates served: %d", what, l.asked, len(l.failed), l.slowest.Round(time.Millisecond), len(l.certified))
	require.Empty(l.t, l.failed)
	require.Greater(l.t, l.asked, 50)
}

func makeOptions() pki.Options { return pki.Options{Now: time.Now(), Random: rand.Reader, All: true} }

// bundleOf is what a node is given now.
func bundleOf(t *testing.T, tree *pki.Tree, c *facts.Cluster, n *facts.Node) bundle.Bundle {
	t.Helper()
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	keys, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	b, err := bundle.Open(strings.NewReader(string(data)), bundle.Whose{Cluster: c.ID, Node: n.Name, Keys: keys})
	require.NoError(t, err)
	return b
}

func poolOf(t *testing.T, tree *pki.Tree, authority string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(tree.Public().Trust()[authority+".crt"])))
	return pool
}

// A broker gets other certificates, and its authority is replaced, while clients connect all the time and one stays
// connected.
func TestMosquittoServesOnWhileItsAuthorityIsReplaced(t *testing.T) { eachBroker(t, servesOn) }

func servesOn(t *testing.T, k brokerKind) {
	c, n, _ := example(t, k.configs, "edge-01")
	tree := pki.New(c)
	_, err := tree.Update(c, []facts.Node{*n}, makeOptions())
	require.NoError(t, err)
	secrets := map[string][]byte{}
	for name, text := range bundleOf(t, tree, c, n).Secrets {
		secrets[name] = []byte(text)
	}
	b := brokerWith(t, k, secrets)
	b.start()
	password := func(user string) string { return string(secrets[k.passwords[user]]) }

	// What the agent does for new certificates.
	share, err := pki.ShareOf(c, n)
	require.NoError(t, err)
	list := services.Of(c)
	require.Equal(t, map[string]service.Way{k.program: service.Signals},
		renewal.Plan(list, share, map[string][]string{k.program: {k.certificate, k.key}}, nil, []string{k.program}))
	at := slices.IndexFunc(renewal.Programs(list), func(r service.Renewal) bool { return r.Program == k.program })
	require.Equal(t, "HUP", renewal.Programs(list)[at].Signal)

	trusted := poolOf(t, tree, k.authority)

	// One that stays: what it is sent all the time arrives.
	stays, err := client.DialMQTT(client.MQTTOptions{Address: b.address(), ServerName: n.FQDN, Roots: trusted, ID: "stays", User: "operator", Password: password("operator")})
	require.NoError(t, err)
	defer stays.Close()
	require.NoError(t, stays.Subscribe("sensors/#"))
	sends, err := client.DialMQTT(client.MQTTOptions{Address: b.address(), ServerName: n.FQDN, Roots: trusted, ID: "sends", User: "sensor", Password: password("sensor")})
	require.NoError(t, err)
	defer sends.Close()
	sent := begin(t, 1, func(context.Context) (string, error) { return "", sends.Publish("sensors/all", "1", false) })

	comes := begin(t, 3, func(ctx context.Context) (string, error) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: n.FQDN, MinVersion: tls.VersionTLS12}}
		conn, err := d.DialContext(ctx, "tcp", b.address())
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	})
	known := []string{comes.until()}
	trust := func() { comes.between(func() { trusted = poolOf(t, tree, k.authority) }) }
	replace := func() {
		entries := bundleOf(t, tree, c, n).Secrets
		b.lay(entries[k.certificate], entries[k.key])
		require.NoError(t, b.cmd.Process.Signal(syscall.SIGHUP))
		known = append(known, comes.until(known...))
	}
	for range 25 {
		_, err := tree.Update(c, []facts.Node{*n}, makeOptions())
		require.NoError(t, err)
		replace()
	}
	require.NoError(t, tree.Introduce(k.authority, c, makeOptions()))
	trust()
	require.NoError(t, tree.Switch(k.authority))
	_, err = tree.Update(c, []facts.Node{*n}, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	replace()
	require.NoError(t, tree.Finish(k.authority, c, []facts.Node{*n}))
	trust()
	comes.goOn(30) // with the old one trusted no more
	comes.end("mosquitto, connections")
	sent.end("mosquitto, messages of one that stayed")
	require.Eventually(t, func() bool { return len(stays.Messages("sensors/all")) == sent.asked }, 10*time.Second, 10*time.Millisecond, "every message arrived")
}

// lives lays a program's certificates as a node has them, and keeps what else it is given.
func (p *controlPlane) lives(program string, n *facts.Node) {
	p.t.Helper()
	files := map[string]string{}
	have := bundleOf(p.t, p.cluster.Tree, &p.cluster.Shared, n).Secrets
	share, err := pki.ShareOf(&p.cluster.Shared, n)
	require.NoError(p.t, err)
	leaves := renewal.Entries(share)
	dir := filepath.Join(p.Dir, "credentials")
	entries, err := os.ReadDir(filepath.Join(dir, program))
	require.NoError(p.t, err)
	for _, e := range entries {
		ref := strings.TrimPrefix(e.Name(), "secret_")
		data, err := os.ReadFile(filepath.Join(dir, program, e.Name()))
		require.NoError(p.t, err)
		if files[e.Name()] = string(data); leaves[ref] {
			files[e.Name()] = have[ref]
		}
	}
	_, err = live.Lay(dir, program, os.Getgid(), files)
	require.NoError(p.t, err)
}

// trusts writes whom the programs of the node trust.
func (p *controlPlane) trusts() {
	p.t.Helper()
	for file, text := range p.cluster.Tree.Public().Trust() {
		_, err := atomicfile.Write(filepath.Join(p.Dir, pki.PublicDir, file), []byte(text), 0o644)
		require.NoError(p.t, err)
	}
}

// A master's certificates are replaced, those of the API server and those of etcd and of the API server to etcd, and
// then the authority of the API's clients, while clients ask all the time, each time by a new connection. No program is
// restarted.
func TestTheAPIServesOnWhileCertificatesAreReplaced(t *testing.T) {
	p := preparedControlPlane(t)
	n, err := p.cluster.Node("control-plane")
	require.NoError(t, err)
	for _, program := range []string{"etcd", "kube-apiserver"} {
		_, err := live.Lay(filepath.Join(p.Dir, "credentials"), program, os.Getgid(), map[string]string{})
		require.NoError(t, err)
	}
	require.NoError(t, p.Start(t.Context(), "etcd", "kube-apiserver"))

	tree := p.cluster.Tree
	agent := func() *tls.Config {
		b := bundleOf(t, tree, &p.cluster.Shared, n)
		pair, err := tls.X509KeyPair([]byte(b.Secrets["kubernetes-agent-certificate"]), []byte(b.Secrets["kubernetes-agent-key"]))
		require.NoError(t, err)
		return &tls.Config{RootCAs: poolOf(t, tree, "kubernetes-server"), Certificates: []tls.Certificate{pair}}
	}
	former := agent()
	as := former
	l := begin(t, 3, func(ctx context.Context) (string, error) { return p.readNamespaces(ctx, as) })
	seen := []string{l.until()}
	for range 3 {
		_, err := tree.Update(&p.cluster.Shared, p.cluster.Nodes, makeOptions())
		require.NoError(t, err)
		began := time.Now()
		p.lives("etcd", n)
		p.lives("kube-apiserver", n)
		seen = append(seen, l.until(seen...))
		t.Logf("the API server serves its new certificate after %s", time.Since(began).Round(time.Millisecond))
	}
	require.NoError(t, tree.Introduce("kubernetes-client", &p.cluster.Shared, makeOptions()))
	p.trusts()
	require.NoError(t, tree.Switch("kubernetes-client"))
	_, err = tree.Update(&p.cluster.Shared, p.cluster.Nodes, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	fresh := agent()
	answers := func(as *tls.Config) bool { _, err := p.readNamespaces(t.Context(), as); return err == nil }
	// Not before the API server knows the new authority.
	require.Eventually(t, func() bool { return answers(fresh) }, 3*time.Minute, 100*time.Millisecond)
	l.between(func() { as = fresh })
	l.goOn(30)
	for i := range p.cluster.Nodes {
		bundleOf(t, tree, &p.cluster.Shared, &p.cluster.Nodes[i])
	}
	require.NoError(t, tree.Finish("kubernetes-client", &p.cluster.Shared, p.cluster.Nodes))
	p.trusts()
	require.Eventually(t, func() bool { return !answers(former) }, 3*time.Minute, 100*time.Millisecond, "the former authority is trusted no more")
	l.goOn(30)
	l.end("kube-apiserver")
}

// readNamespaces reads something that is in etcd, by a connection of its own.
func (p *controlPlane) readNamespaces(ctx context.Context, config *tls.Config) (string, error) {
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Server+"/api/v1/namespaces/kube-system", nil)
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %.200s", res.StatusCode, text)
	}
	return res.TLS.PeerCertificates[0].SerialNumber.String(), err
}
