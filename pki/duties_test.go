package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki/bundle"
	"spore/services"
	"spore/services/kubernetes"
	"spore/services/service"
)

// thief is somebody who has a node's bundle and all that is public, and tries to be somebody else.
type thief struct {
	bundle bundle.Bundle
	public Public
	// keys are the private keys of the bundle, mine the certificates to them, between all certificates that there are.
	keys    map[string]crypto.Signer
	mine    []*x509.Certificate
	between []*x509.Certificate
}

func newThief(t *testing.T, b bundle.Bundle, p Public) *thief {
	t.Helper()
	th := &thief{bundle: b, public: p, keys: map[string]crypto.Signer{}}
	for name, value := range b.Secrets {
		if strings.Contains(value, "PRIVATE KEY") {
			key, err := parseKey(Hidden(value))
			require.NoError(t, err, name)
			th.keys[name] = key
		}
	}
	texts := slices.Collect(maps.Values(b.Secrets))
	for _, a := range p.Authorities {
		texts = append(texts, a.Certificates...)
	}
	for _, text := range texts {
		for rest := []byte(text); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" {
				continue
			}
			c, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			if slices.ContainsFunc(th.between, c.Equal) {
				continue
			}
			th.between = append(th.between, c)
			for _, key := range th.keys {
				if samePublic(key.Public(), c.PublicKey) && !c.IsCA {
					th.mine = append(th.mine, c)
				}
			}
		}
	}
	require.NotEmpty(t, th.keys)
	require.NotEmpty(t, th.mine)
	return th
}

// forge makes a certificate for a duty with each key of the bundle, passed off as the authority's key and as what it
// is.
func (th *thief) forge(t *testing.T, d duty) []*x509.Certificate {
	t.Helper()
	var out []*x509.Certificate
	authority := th.public.Files()[PublicDir+"/"+d.authority+".crt"]
	for _, key := range th.keys {
		for _, parent := range th.between {
			if !samePublic(key.Public(), parent.PublicKey) && encodeCertificate(parent.Raw) != string(authority) {
				continue
			}
			forged := &x509.Certificate{
				SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.Add(day), Subject: pkix.Name{CommonName: d.cn, Organization: d.org},
				DNSNames: d.dns, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			}
			for _, ip := range d.ips {
				forged.IPAddresses = append(forged.IPAddresses, net.ParseIP(ip))
			}
			// The key need not be that of the certificate for whose it is passed off.
			as := *parent
			as.PublicKey = nil
			der, err := x509.CreateCertificate(rand.Reader, forged, &as, key.Public(), key)
			require.NoError(t, err)
			c, err := x509.ParseCertificate(der)
			require.NoError(t, err)
			out = append(out, c)
		}
	}
	return out
}

// duty is something that a certificate lets its holder do, as whoever verifies it asks for.
type duty struct {
	name      string
	authority string
	usage     x509.ExtKeyUsage
	// cn and org are what the server looks for in a client, dns and ips what a client looks for in a server.
	cn       string
	org      []string
	dns, ips []string
}

// accepts tells whether whoever trusts the duty's authority and nothing else takes a certificate for it.
func (d duty) accepts(p Public, c *x509.Certificate, between []*x509.Certificate) bool {
	roots, pool := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Files()[PublicDir+"/"+d.authority+".crt"])
	for _, b := range between {
		pool.AddCert(b)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, Intermediates: pool, CurrentTime: begin.Add(time.Hour), KeyUsages: []x509.ExtKeyUsage{d.usage}}); err != nil {
		return false
	}
	for _, name := range slices.Concat(d.dns, d.ips) {
		if c.VerifyHostname(name) != nil {
			return false
		}
	}
	if d.usage == x509.ExtKeyUsageServerAuth {
		return true
	}
	return (d.cn == "" || c.Subject.CommonName == d.cn) && (len(d.org) == 0 || slices.Equal(c.Subject.Organization, d.org))
}

// presents tells whether a certificate of the bundle does, signs whether one does that is signed with a key of it.
func (th *thief) presents(d duty) bool {
	return slices.ContainsFunc(th.mine, func(c *x509.Certificate) bool { return d.accepts(th.public, c, th.between) })
}

func (th *thief) signs(t *testing.T, d duty) bool {
	t.Helper()
	return slices.ContainsFunc(th.forge(t, d), func(c *x509.Certificate) bool { return d.accepts(th.public, c, th.between) })
}

// signsTokens tells whether a key of the bundle signs a service account token (RFC 7515, ES256) that the API would
// accept.
func (th *thief) signsTokens(t *testing.T) bool {
	t.Helper()
	enc := base64.RawURLEncoding.EncodeToString
	payload := enc([]byte(`{"alg":"ES256"}`)) + "." + enc([]byte(`{"iss":"https://kubernetes.default.svc","sub":"system:serviceaccount:kube-system:admin"}`))
	sum := sha256.Sum256([]byte(payload))
	i := slices.IndexFunc(th.public.Authorities, func(a PublicAuthority) bool { return a.Name == kubernetes.ServiceAccountAuthority })
	require.NotEmpty(t, th.public.Authorities[i].Keys)
	for _, key := range th.keys {
		signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
		require.NoError(t, err)
		for _, text := range th.public.Authorities[i].Keys {
			public, err := parsePublic(text)
			require.NoError(t, err)
			if ecdsa.VerifyASN1(public.(*ecdsa.PublicKey), sum[:], signature) {
				return true
			}
		}
	}
	return false
}

const server, client = x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth

// ofMaster are a master's duties: who knocks at each door, and who stands behind it.
var ofMaster = []duty{
	{"read etcd", "etcd-client", client, "", nil, nil, nil},
	{"be etcd for the API", "etcd", server, "", nil, []string{"localhost"}, nil},
	{"be a member of etcd", "etcd", client, "", nil, nil, nil},
	{"be the API for pods", "kubernetes-server", server, "", nil, []string{"kubernetes.default.svc"}, nil},
	{"be the API for nodes", "kubernetes-server", server, "", nil, nil, []string{"10.77.0.100", "10.96.0.1"}},
	{"speak for others to the API", "front-proxy", client, "front-proxy-client", nil, nil, nil},
	{"be an administrator", "kubernetes-client", client, "", []string{"system:masters"}, nil, nil},
	{"be the controller-manager", "kubernetes-client", client, "system:kube-controller-manager", nil, nil, nil},
	{"be the scheduler", "kubernetes-client", client, "system:kube-scheduler", nil, nil, nil},
	{"command kubelets", "kubernetes-client", client, "kube-apiserver-kubelet-client", []string{"spore:kubelet-api-admins"}, nil, nil},
}

// asNode is what only one node may be.
func asNode(name string) []duty {
	return []duty{
		{name + "'s kubelet to the API", "kubernetes-client", client, "system:node:" + name, []string{"system:nodes"}, nil, nil},
		{name + "'s kubelet to whoever asks it", "kubelet-serving", server, "", nil, []string{name}, nil},
		{name + " asking for its kubelet's certificate", "kubernetes-client", client, "spore:kubelet-bootstrap:" + name, []string{"system:bootstrappers"}, nil, nil},
		{name + "'s agent as a client", "agent", client, name, []string{"spore:nodes"}, nil, nil},
		{name + "'s agent as a server", "agent", server, "", nil, []string{name}, nil},
	}
}

func TestAMasterDoesItsDutiesWithItsBundle(t *testing.T) {
	tree, c, nodes := made(t)
	master := newThief(t, bundleOf(t, tree, c, nodes, "master-01"), tree.Public())
	for _, d := range ofMaster {
		require.True(t, master.presents(d), d.name)
		require.True(t, master.signs(t, d), d.name)
	}
	require.True(t, master.signsTokens(t))
	// It issues for others, and holds nothing that was issued for them.
	for _, d := range asNode("worker-01") {
		require.False(t, master.presents(d), d.name)
		require.True(t, master.signs(t, d), d.name)
	}
	for _, row := range Authorities(services.Ours()) {
		if row.Kind == service.CA && row.Name != RootName && tree.Authorities[row.Name] != nil {
			usage := server
			if row.Usage&service.Server == 0 {
				usage = client
			}
			require.True(t, master.signs(t, duty{authority: row.Name, usage: usage, cn: "anybody"}), row.Name)
		}
	}
	root := certificate(t, tree.Authorities[RootName].Current.Certificate)
	for _, forged := range master.forge(t, duty{authority: RootName, cn: "Another CA"}) {
		require.Error(t, forged.CheckSignatureFrom(root), "a master makes no authorities")
	}
}

func TestNobodyButAMasterDoesAMastersDuties(t *testing.T) {
	tree, c, nodes := made(t)
	for _, n := range nodes {
		if slices.Contains(n.Roles, "control-plane") {
			continue
		}
		t.Run(n.Name, func(t *testing.T) {
			other := newThief(t, bundleOf(t, tree, c, nodes, n.Name), tree.Public())
			for _, d := range ofMaster {
				require.False(t, other.presents(d), d.name)
				require.False(t, other.signs(t, d), d.name)
			}
			require.False(t, other.signsTokens(t))
			for _, row := range Authorities(services.Ours()) {
				if row.Kind != service.CA {
					continue
				}
				for _, usage := range []x509.ExtKeyUsage{server, client} {
					require.False(t, other.signs(t, duty{authority: row.Name, usage: usage, cn: "anybody"}), "a certificate below %s", row.Name)
				}
			}
			for _, whose := range nodes {
				for _, d := range asNode(whose.Name) {
					require.False(t, other.signs(t, d), d.name)
					if whose.Name != n.Name {
						require.False(t, other.presents(d), d.name)
					}
				}
			}
			// What it is for, it does: the same questions are not refused to everybody.
			own := asNode(n.Name)
			require.True(t, other.presents(own[3]) && other.presents(own[4]))
			if slices.Contains(n.Roles, "worker") {
				require.True(t, other.presents(own[2]))
			}
		})
	}
}
