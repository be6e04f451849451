package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services"
	"spore/services/dashboard"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/services/service"
)

// want is a leaf as a person would write it down: the second copy that the table is checked against.
type want struct {
	id, authority, cn string
	org               []string
	dns, ips          []string
	server, client    bool
}

var (
	hostsOf = func(name string) []string { return []string{name + ".plant.example", name} }
	ownOf   = func(name string) []string { return []string{name + ".plant.example", name, "localhost"} }
	ownIPs  = func(ip string) []string { return []string{ip, "127.0.0.1", "::1"} }
)

var wants = []want{
	{"agent/worker-01", "agent", "worker-01", []string{"spore:nodes"}, hostsOf("worker-01"), []string{"10.77.0.12"}, true, true},
	{"node-admin", "agent", "node-admin", []string{"spore:admin"}, nil, nil, false, true},
	{"node-operator", "agent", "node-operator", []string{"spore:operator"}, nil, nil, false, true},
	{"node-reader", "agent", "node-reader", []string{"spore:reader"}, nil, nil, false, true},
	{"etcd-server/master-01", "etcd", "master-01", nil, ownOf("master-01"), ownIPs("10.77.0.11"), true, false},
	{"etcd-peer/master-01", "etcd", "master-01", nil, hostsOf("master-01"), []string{"10.77.0.11"}, true, true},
	{"etcd-apiserver/master-01", "etcd-client", "kube-apiserver-etcd-client", nil, nil, nil, false, true},
	{"etcd-agent/master-01", "etcd-client", "spore-agent-etcd-client", nil, nil, nil, false, true},
	{"kube-apiserver/master-01", "kubernetes-server", "kube-apiserver", nil,
		append([]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}, ownOf("master-01")...),
		[]string{"10.77.0.100", "10.96.0.1", "10.77.0.11", "127.0.0.1", "::1"}, true, false},
	{"kube-controller-manager-server/master-01", "kubernetes-server", "kube-controller-manager", nil, ownOf("master-01"), ownIPs("10.77.0.11"), true, false},
	{"kube-scheduler-server/master-01", "kubernetes-server", "kube-scheduler", nil, ownOf("master-01"), ownIPs("10.77.0.11"), true, false},
	{"kube-controller-manager/master-01", "kubernetes-client", "system:kube-controller-manager", nil, nil, nil, false, true},
	{"kube-scheduler/master-01", "kubernetes-client", "system:kube-scheduler", nil, nil, nil, false, true},
	{"kube-apiserver-kubelet/master-01", "kubernetes-client", "kube-apiserver-kubelet-client", []string{"spore:kubelet-api-admins"}, nil, nil, false, true},
	{"kubernetes-agent/master-01", "kubernetes-client", "spore:agent:master-01", []string{"system:masters"}, nil, nil, false, true},
	{"kube-proxy/worker-01", "kubernetes-client", "system:kube-proxy", nil, nil, nil, false, true},
	{"calico-node/worker-01", "kubernetes-client", "calico-node:worker-01", []string{"spore:calico-nodes"}, nil, nil, false, true},
	{"calico-cni/worker-01", "kubernetes-client", "calico-cni:worker-01", []string{"spore:calico-plugins"}, nil, nil, false, true},
	{"calico-controllers/master-01", "kubernetes-client", "calico-controllers:master-01", []string{"spore:calico-controllers"}, nil, nil, false, true},
	{"cluster-dns/master-01", "kubernetes-client", "spore:cluster-dns", nil, nil, nil, false, true},
	{"rbd-provisioner/master-01", "kubernetes-client", "spore:rbd-provisioner:master-01", []string{"spore:rbd-provisioners"}, nil, nil, false, true},
	{"kubelet-bootstrap/worker-01", "kubernetes-client", "spore:kubelet-bootstrap:worker-01", []string{"system:bootstrappers"}, nil, nil, false, true},
	{"front-proxy-client/master-01", "front-proxy", "front-proxy-client", nil, nil, nil, false, true},
	{"kafka-broker/kafka-01", "kafka", "kafka-01", []string{"spore:kafka-brokers"}, append([]string{"kafka.plant.example"}, hostsOf("kafka-01")...), []string{"10.77.0.14"}, true, true},
	{"metrics-scraper/edge-01", "agent", "metrics of edge-01", []string{"spore:scraper"}, nil, nil, false, true},
	{"logs-sender/worker-01", "agent", "worker-01", []string{"spore:sender"}, nil, nil, false, true},
	{"dashboard-server/edge-01", "agent", "dashboard of edge-01", nil, hostsOf("edge-01"), []string{"10.77.0.16"}, true, false},
	{"dashboard-reader/edge-01", "agent", "dashboard of edge-01", []string{"spore:reader"}, nil, nil, false, true},
	{"alerts-peer/edge-01", "alerts", "edge-01", nil, hostsOf("edge-01"), []string{"10.77.0.16"}, true, true},
	{"mqtt-server/edge-01", "mqtt", "edge-01", nil, append([]string{"mqtt.plant.example"}, hostsOf("edge-01")...), []string{"10.77.0.16"}, true, false},
}

func TestEveryCertificateIsWhatTheTableSays(t *testing.T) {
	tree, c, nodes := made(t)
	c.Services = append(c.Services, &metrics.Settings{}, &logs.Settings{}, &dashboard.Settings{})
	edge := node(t, nodes, "edge-01")
	edge.Roles = append(edge.Roles, "metrics-store", "alerts", "logs-store", "dashboard")
	c.Members["dashboard"] = []string{edge.Name}
	c.Members["metrics-store"], c.Members["alerts"], c.Members["logs-store"] = []string{edge.Name}, []string{edge.Name}, []string{edge.Name}
	update(t, tree, c, nodes, begin)
	rows := map[string]bool{}
	for _, w := range wants {
		t.Run(w.id, func(t *testing.T) {
			have := tree.Leaves[w.id]
			require.NotNil(t, have)
			c := certificate(t, have.Certificate)
			require.Equal(t, w.cn, c.Subject.CommonName)
			require.Equal(t, w.org, c.Subject.Organization)
			require.Equal(t, len(w.org)+1, len(c.Subject.Names), "nothing else is in the subject")
			require.Equal(t, w.dns, c.DNSNames)
			var ips []string
			for _, ip := range c.IPAddresses {
				ips = append(ips, ip.String())
			}
			require.Equal(t, w.ips, ips)
			require.Equal(t, x509.KeyUsageDigitalSignature, c.KeyUsage)
			var eku []x509.ExtKeyUsage
			if w.server {
				eku = append(eku, x509.ExtKeyUsageServerAuth)
			}
			if w.client {
				eku = append(eku, x509.ExtKeyUsageClientAuth)
			}
			require.Equal(t, eku, c.ExtKeyUsage)
			require.False(t, c.IsCA)
			require.Equal(t, begin.Add(LeafLife), c.NotAfter)
			require.Equal(t, elliptic.P256(), c.PublicKey.(*ecdsa.PublicKey).Curve)
			key, err := parseKey(have.Key)
			require.NoError(t, err)
			require.True(t, samePublic(key.Public(), c.PublicKey))
			verifyBoth(t, tree, w, have.Certificate)
		})
	}
	for _, w := range wants {
		rows[certRow(w.id)] = true
	}
	for _, l := range Leaves(services.Ours()) {
		require.True(t, l.Made != service.Operator || tree.Authorities[l.Authority] == nil || rows[l.Name], "%s is checked", l.Name)
	}
}

func certRow(id string) string {
	for i, c := range id {
		if c == '/' {
			return id[:i]
		}
	}
	return id
}

// verifyBoth has openssl and crypto/x509 verify a leaf for what it is for, and refuse it for what it is not.
func verifyBoth(t *testing.T, tree *Tree, w want, leaf string) {
	root, ca := tree.Authorities[RootName].Current.Certificate, tree.Authorities[w.authority].Current.Certificate
	at := begin.Add(time.Hour)
	for purpose, good := range map[string]bool{"sslserver": w.server, "sslclient": w.client} {
		out, err := openssl(t, purpose, at, root, ca, leaf)
		require.Equal(t, good, err == nil, "openssl, %s: %s", purpose, out)
	}
	// Whoever verifies trusts the authority for the purpose alone, and no other authority's leaves pass.
	for _, row := range Authorities(services.Ours()) {
		if row.Kind != service.CA || row.Name == RootName || tree.Authorities[row.Name] == nil {
			continue
		}
		pool := x509.NewCertPool()
		pool.AddCert(certificate(t, tree.Authorities[row.Name].Current.Certificate))
		_, err := certificate(t, leaf).Verify(x509.VerifyOptions{Roots: pool, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		require.Equal(t, row.Name == w.authority, err == nil, row.Name)
	}
}

func TestEveryAuthorityIsWhatTheTableSays(t *testing.T) {
	tree, c, _ := made(t)
	root := tree.Authorities[RootName].Current.Certificate
	for _, row := range Authorities(services.Ours()) {
		if row.Service != "" && !c.Services.Has(row.Service) {
			continue
		}
		a := tree.Authorities[row.Name]
		require.NotNil(t, a, row.Name)
		require.Equal(t, Steady, a.Phase())
		if row.Kind != service.CA {
			require.Empty(t, a.Current.Certificate)
			continue
		}
		x := certificate(t, a.Current.Certificate)
		require.Equal(t, row.Title, x.Subject.CommonName)
		require.Equal(t, []string{c.ID}, x.Subject.Organization)
		require.True(t, x.IsCA && x.BasicConstraintsValid)
		require.Equal(t, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, x.KeyUsage)
		require.Equal(t, usages(row.Usage), x.ExtKeyUsage)
		require.Equal(t, begin.Add(AuthorityLife), x.NotAfter)
		require.NoError(t, x.CheckSignatureFrom(certificate(t, root)))
		if row.Name == RootName {
			require.Equal(t, 1, x.MaxPathLen)
			continue
		}
		require.True(t, x.MaxPathLen == 0 && x.MaxPathLenZero, "it signs no authorities")
		out, err := openssl(t, "any", begin.Add(time.Hour), root, root, a.Current.Certificate)
		require.NoError(t, err, out)
	}
}

func TestNoTwoCertificatesShareAKeyOrASerialNumber(t *testing.T) {
	tree, _, _ := made(t)
	keys, serials := map[string]bool{}, map[string]bool{}
	add := func(text string) {
		c := certificate(t, text)
		require.False(t, keys[string(c.RawSubjectPublicKeyInfo)] || serials[c.SerialNumber.String()])
		keys[string(c.RawSubjectPublicKeyInfo)], serials[c.SerialNumber.String()] = true, true
		require.LessOrEqual(t, len(c.SerialNumber.Bytes()), 20)
		require.Positive(t, c.SerialNumber.Sign())
	}
	for _, a := range tree.Authorities {
		if a.Current.Certificate != "" {
			add(a.Current.Certificate)
		}
	}
	for _, l := range tree.Leaves {
		add(l.Certificate)
	}
}
