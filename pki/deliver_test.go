package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/pki/bundle"
	"spore/services/service"
)

func open(t testing.TB, p Public, c *facts.Cluster, name string, data []byte) (bundle.Bundle, error) {
	t.Helper()
	keys, err := p.SigningKeys()
	require.NoError(t, err)
	return bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: name, Keys: keys})
}

func bundleOf(t testing.TB, tree *Tree, c *facts.Cluster, nodes []facts.Node, name string) bundle.Bundle {
	t.Helper()
	data, err := tree.BundleFor(c, node(t, nodes, name), begin)
	require.NoError(t, err)
	b, err := open(t, tree.Public(), c, name, data)
	require.NoError(t, err)
	return b
}

func TestABundleHoldsWhatItsNodeNeedsAndNoMore(t *testing.T) {
	tree, c, nodes := made(t)
	for i, n := range nodes {
		b := bundleOf(t, tree, c, nodes, n.Name)
		require.Equal(t, uint64(i+1), b.Serial)
		require.Equal(t, begin, b.Issued)
		share, err := ShareOf(c, &n)
		require.NoError(t, err)
		var want []string
		for _, a := range share.Issues {
			want = append(want, a.Key)
		}
		for _, l := range share.Leaves {
			if l.Row.Made == service.Operator {
				want = append(want, l.Certificate, l.Key)
			}
		}
		for _, e := range share.Secrets {
			want = append(want, e.Name)
		}
		var got []string
		for name, value := range b.Secrets {
			got = append(got, name)
			require.NotEmpty(t, value, name)
		}
		require.ElementsMatch(t, want, got, n.Name)
		require.Equal(t, b.Authorities, tree.Issued[n.Name].Authorities)
	}
}

// keysIn returns the private keys of a bundle by entry.
func keysIn(t *testing.T, b bundle.Bundle) map[string]any {
	out := map[string]any{}
	for name, value := range b.Secrets {
		if strings.Contains(value, "PRIVATE KEY") {
			key, err := parseKey(Hidden(value))
			require.NoError(t, err, name)
			out[name] = key.Public()
		}
	}
	return out
}

func TestOnlyAMastersBundleHoldsKeysThatSign(t *testing.T) {
	tree, c, nodes := made(t)
	for _, n := range nodes {
		var held []string
		for name, public := range keysIn(t, bundleOf(t, tree, c, nodes, n.Name)) {
			for authority, a := range tree.Authorities {
				if key, err := parsePublic(a.Current.PublicKey); err == nil && samePublic(key, public) {
					held = append(held, name+" of "+authority)
				}
			}
		}
		slices.Sort(held)
		if slices.Contains(n.Roles, "control-plane") {
			require.Equal(t, []string{
				"agent-ca-key of agent", "etcd-ca-key of etcd", "etcd-client-ca-key of etcd-client", "front-proxy-ca-key of front-proxy",
				"kafka-ca-key of kafka", "kubelet-serving-ca-key of kubelet-serving", "kubernetes-client-ca-key of kubernetes-client",
				"kubernetes-server-ca-key of kubernetes-server", "mqtt-ca-key of mqtt", "service-account-key of service-account",
			}, held, n.Name)
		} else {
			require.Empty(t, held, n.Name)
		}
	}
}

// handshake tries a TLS connection in which the server shows one pair and the client another, and each trusts one authority.
func handshake(t *testing.T, server, client tls.Certificate, serverCA, clientCA *x509.CertPool) error {
	t.Helper()
	now := func() time.Time { return begin.Add(time.Hour) }
	left, right := net.Pipe()
	defer left.Close()
	defer right.Close()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(left, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: clientCA, ClientAuth: tls.RequireAndVerifyClientCert, Time: now, MinVersion: tls.VersionTLS13})
		err := s.Handshake()
		left.Close()
		done <- err
	}()
	cl := tls.Client(right, &tls.Config{
		// The client shows its pair whatever the server says it accepts.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client, nil },
		RootCAs:              serverCA, ServerName: "localhost", Time: now, MinVersion: tls.VersionTLS13,
	})
	err := cl.Handshake()
	if err == nil {
		_, err = cl.Read(make([]byte, 1))
	}
	right.Close()
	if serverErr := <-done; serverErr != nil {
		return fmt.Errorf("server: %w", serverErr)
	}
	if err != nil && !strings.Contains(err.Error(), "closed") && !strings.Contains(err.Error(), "EOF") {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

func pair(t *testing.T, b bundle.Bundle, name string) tls.Certificate {
	t.Helper()
	p, err := tls.X509KeyPair([]byte(b.Secrets[name+"-certificate"]), []byte(b.Secrets[name+"-key"]))
	require.NoError(t, err, name)
	return p
}

func TestAWorkersBundleCannotDoAMastersDuties(t *testing.T) {
	tree, c, nodes := made(t)
	master, worker := bundleOf(t, tree, c, nodes, "master-01"), bundleOf(t, tree, c, nodes, "worker-01")
	pool := func(authority string) *x509.CertPool {
		p := x509.NewCertPool()
		require.True(t, p.AppendCertsFromPEM(tree.Public().Files()[PublicDir+"/"+authority+".crt"]))
		return p
	}
	duties := []struct {
		server, client                   string
		serverAuthority, clientAuthority string
		workerServes                     bool
	}{
		{"kube-apiserver", "kube-proxy", "kubernetes-server", "kubernetes-client", true},    // be the API
		{"etcd-server", "etcd-apiserver", "etcd", "etcd-client", true},                      // be etcd
		{"etcd-server", "etcd-apiserver", "etcd", "etcd-client", false},                     // read etcd
		{"etcd-server", "etcd-peer", "etcd", "etcd", false},                                 // be a member of etcd
		{"kube-apiserver", "front-proxy-client", "kubernetes-server", "front-proxy", false}, // speak for others
	}
	for _, d := range duties {
		server, client := pair(t, master, d.server), pair(t, master, d.client)
		require.NoError(t, handshake(t, server, client, pool(d.serverAuthority), pool(d.clientAuthority)), "a master does it")
		for _, own := range []string{"agent", "kube-proxy", "calico-node", "calico-cni", "kubelet-bootstrap"} {
			s, cl := server, client
			if d.workerServes {
				s = pair(t, worker, own)
			} else {
				cl = pair(t, worker, own)
			}
			require.Error(t, handshake(t, s, cl, pool(d.serverAuthority), pool(d.clientAuthority)), "a worker with %s instead of %s", own, d.client)
		}
	}
	for name, value := range worker.Secrets {
		if block, _ := pem.Decode([]byte(value)); block != nil && block.Type == "CERTIFICATE" {
			require.NotContains(t, certificate(t, encodeCertificate(block.Bytes)).Subject.Organization, "system:masters", name)
		}
	}
}

func TestAMastersAuthorityCannotSignBeyondItsPurpose(t *testing.T) {
	tree, _, _ := made(t)
	by, err := tree.Authorities["kubelet-serving"].Current.signer("kubelet-serving", nil)
	require.NoError(t, err)
	key, err := newECDSA(rand.Reader)
	require.NoError(t, err)
	o := options(begin)
	l := Leaf{Row: service.LeafRow{Usage: service.Client}, CommonName: "kubernetes-admin", Organization: []string{"system:masters"}}
	tmpl, err := o.leafTemplate(l)
	require.NoError(t, err)
	forged, err := o.sign(tmpl, key.Public(), by)
	require.NoError(t, err)
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(certificate(t, tree.Authorities[RootName].Current.Certificate))
	between.AddCert(by.certificate)
	_, err = certificate(t, forged).Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: begin.Add(time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.Error(t, err)
	_, err = openssl(t, "sslclient", begin.Add(time.Hour), tree.Authorities[RootName].Current.Certificate, tree.Authorities["kubelet-serving"].Current.Certificate, forged)
	require.Error(t, err)
}

func TestABundleOfATreeThatIsNotUpToDateIsRefused(t *testing.T) {
	tree, c, nodes := made(t)
	delete(tree.Leaves, "mqtt-server/edge-01")
	_, err := tree.BundleFor(c, node(t, nodes, "edge-01"), begin)
	require.EqualError(t, err, "bundle of edge-01: the certificate mqtt-server/edge-01 is not in the operator's folder; make it with `spore pki renew`")
	require.Zero(t, tree.Serial)
}

func TestTheStateOfBundles(t *testing.T) {
	tree, c, nodes := made(t)
	show := func() string {
		lines, err := tree.Show(c, nodes, begin)
		require.NoError(t, err)
		return state(lines, "bundle", "bundle", "edge-01")
	}
	require.Equal(t, "missing", show())
	_, err := tree.BundleFor(c, node(t, nodes, "edge-01"), begin)
	require.NoError(t, err)
	require.Equal(t, "ok", show())
	update(t, tree, c, nodes, begin.Add(250*day))
	require.Equal(t, "outdated", show())
}

func TestThePublicHalfHoldsNothingSecret(t *testing.T) {
	tree, _, _ := made(t)
	for path, data := range tree.Public().Files() {
		require.NotContains(t, string(data), "PRIVATE", path)
		if path == PublicDir+"/"+RevisionFile {
			require.Equal(t, "1\n", string(data))
			continue
		}
		for rest := data; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				require.Empty(t, bytes.TrimSpace(rest))
				break
			}
			require.Contains(t, []string{"CERTIFICATE", "PUBLIC KEY"}, block.Type)
		}
	}
}

func TestHiddenTextIsNotFormatted(t *testing.T) {
	s := &Secret{Value: "hunter2"}
	c := Certificate{Key: "hunter2"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		require.NotContains(t, fmt.Sprintf(verb, s), "hunter2")
		require.NotContains(t, fmt.Sprintf(verb, s.Value), "hunter2")
		require.NotContains(t, fmt.Sprintf(verb, c), "hunter2")
		require.NotContains(t, fmt.Sprintf(verb, bundle.Bundle{Secrets: map[string]string{"a": "hunter2"}}), "hunter2")
		require.NotContains(t, fmt.Sprintf(verb, s.Value), fmt.Sprintf("%x", "hunter2"))
	}
}
