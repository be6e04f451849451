//go:build e2e

package nspawn

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/pki"
	"spore/pki/vault"
	"spore/test/client"
)

// away is how long the cluster was off: five weeks longer than its certificates last.
const away = 400 * 24 * time.Hour

// programsOfMasters are what a master runs besides its own part of the node's API. Renewal needs none of them.
var programsOfMasters = []string{
	"etcd.service", "etcd-members.service", "etcd-snapshot.service", "kube-apiserver.service", "kube-controller-manager.service", "kube-scheduler.service",
	"cluster-dns.service", "calico-controllers.service", "kubernetes-bootstrap.service", "kube-balancer.service", "kubernetes-api.service",
}

// TestAClusterThatWasOffForAYearComesBack: the keys of the cluster are more than a year old, and all certificates of
// its nodes have ended. A container has its host's clock, so the keys are what is old and not the clock. Then two
// authorities are replaced while clients connect all the time.
func TestAClusterThatWasOffForAYearComesBack(t *testing.T) {
	l := New(t, Options{
		Source: "../..", Configs: "testdata/renewal", Secrets: map[string]string{"mqtt-password-operator": edgePassword},
		Masked: append(programsOfMasters, withoutCGroups...), Age: away,
	})
	master, edge, other := l.Node("master-1"), l.Node("edge-1"), l.Node("edge-2")

	l.Step("without a master a node says for whom it waits", func(t *testing.T) {
		edge.Start()
		s := edge.Await("a status line that names the certificate that has ended", func(s vm.Status) bool {
			return settled(s) && strings.Contains(s.Bundle.Problem, "no master has signed")
		})
		require.Contains(t, s.Bundle.Problem, "certificate mqtt-server/edge-1: it ended on ")
		require.Contains(t, s.Bundle.Problem, "master-1 (")
		_, err := dial(l, edge, edge.Facts.FQDN)
		require.ErrorContains(t, err, "expired")
	})

	l.Step("with one it gets its certificates, and so does every other node", func(t *testing.T) {
		began := time.Now()
		master.Start()
		other.Start()
		for _, n := range []*Node{edge, other} {
			n := n
			require.Eventually(t, func() bool { c, err := dial(l, n, n.Facts.FQDN); closeIf(c); return err == nil }, 3*time.Minute, 500*time.Millisecond, n.Facts.Name)
		}
		t.Logf("both brokers serve %.1f s after the master was switched on", time.Since(began).Seconds())
		edge.Await("a bundle without a problem", func(s vm.Status) bool { return s.Bundle.Problem == "" })
		require.Contains(t, edge.MustExec("journalctl", "-u", "spore-renew", "--no-pager"), "certificate mqtt-server/edge-1: renewed by a master")
		require.Contains(t, master.MustExec("journalctl", "-u", "spore-bundle", "--no-pager"), "certificate agent/master-1: renewed: it ended on")
	})

	l.Step("what was renewed is kept over a loss of power, without the master", func(t *testing.T) {
		master.PowerLoss()
		edge.PowerLoss()
		edge.Bundle = nil
		edge.Start()
		edge.Running()
		c, err := dial(l, edge, edge.Facts.FQDN)
		require.NoError(t, err)
		c.Close()
		master.Start()
		master.Await("a settled master", settled)
	})

	l.keep()
	l.Step("an authority is replaced under load", func(t *testing.T) { l.replace(t, "mqtt") })
	l.Step("and so is that of the nodes' own API", func(t *testing.T) { l.replace(t, "agent") })

	l.Step("a rotation does not begin while a node is away", func(t *testing.T) {
		other.PowerLoss()
		out, ok := l.rotate(t.Context(), "mqtt")
		require.False(t, ok)
		require.Contains(t, out, "every node must take part, but edge-2 does not answer")
		v, err := vault.Open(filepath.Join(l.dir, "keys"), vault.Keys{})
		require.NoError(t, err)
		defer v.Close()
		require.Equal(t, pki.Steady, v.Tree.Authorities["mqtt"].Phase())
	})
}

func closeIf(c *client.MQTT) {
	if c != nil {
		c.Close()
	}
}

// rotate replaces an authority as an operator does.
func (l *Lab) rotate(ctx context.Context, authority string) (string, bool) {
	l.t.Helper()
	configs, err := filepath.Abs(l.options.Configs)
	require.NoError(l.t, err)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, l.program, "pki", "rotate-ca", authority, configs, "--dir", filepath.Join(l.dir, "keys"), "--live", "--settle", "3s")
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	l.t.Logf("$ spore pki rotate-ca %s --live\n%s", authority, &out)
	return out.String(), err == nil
}

// replace rotates an authority while clients connect to both brokers all the time. They trust what the operator
// exports, before each phase what it is then.
func (l *Lab) replace(t *testing.T, authority string) {
	var mu sync.Mutex
	asked, served := 0, map[string]bool{}
	var failed []string
	// The operator gives clients the new authority beside the old one in phase 1 and takes the old one away in phase 3:
	// what public.json says at any time.
	roots := func() *x509.CertPool {
		public, err := vault.ReadPublic(filepath.Join(l.dir, "keys"))
		if err != nil {
			return nil
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(public.Trust()["mqtt.crt"]))
		return pool
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, n := range []*Node{l.Node("edge-1"), l.Node("edge-2")} {
		all.Go(func() {
			for ctx.Err() == nil {
				d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{RootCAs: roots(), ServerName: n.Facts.FQDN}}
				conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(n.IP(), "8883"))
				if ctx.Err() == nil {
					mu.Lock()
					asked++
					if err != nil {
						failed = append(failed, time.Now().Format(time.TimeOnly)+" "+n.Facts.Name+": "+err.Error())
					} else {
						served[conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Issuer.CommonName] = true
					}
					mu.Unlock()
				}
				if err == nil {
					conn.Close()
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	began := time.Now()
	out, ok := l.rotate(t.Context(), authority)
	stop()
	all.Wait()
	require.True(t, ok, out)
	t.Logf("%s replaced in %.1f s; %d connections to brokers meanwhile, %d failed, authorities served: %d", authority, time.Since(began).Seconds(), asked, len(failed), len(served))
	require.Empty(t, failed)
	require.Greater(t, asked, 50)

	v, err := vault.Open(filepath.Join(l.dir, "keys"), vault.Keys{})
	require.NoError(t, err)
	defer v.Close()
	l.Keys = v.Tree
	require.Equal(t, pki.Steady, v.Tree.Authorities[authority].Phase())
	require.Equal(t, 2, v.Tree.Authorities[authority].Current.Number)
	for _, n := range l.Nodes() {
		require.Equal(t, v.Tree.Public().Trust()[authority+".crt"], n.MustExec("cat", "/run/spore/trust/"+authority+".crt")+"\n", "%s trusts the new one alone", n.Facts.Name)
	}
}
