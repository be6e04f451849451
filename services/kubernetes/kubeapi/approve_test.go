package kubeapi

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

func testNodes() []facts.Node {
	return []facts.Node{
		{Name: "master-01", Hostname: "master-01", FQDN: "master-01.lab.internal", IPs: []string{"10.77.0.21"}, Roles: []string{"control-plane"}},
		{
			Name: "worker-01", Hostname: "W1", FQDN: "w1.lab.internal", IPs: []string{"10.77.0.31", "fd77::31"}, Roles: []string{"worker"},
			Interfaces: []spec.Interface{{Addresses: []string{"10.78.0.31/24"}}},
			Labels:     map[string]string{"example.com/zone": "b", "node-role.kubernetes.io/gpu": ""}, Taints: []string{"only=batch:NoExecute"},
		},
		{Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.lab.internal", IPs: []string{"10.77.0.11"}, Roles: []string{"mqtt-broker"}},
	}
}

// ask makes a request as a kubelet does.
func ask(t testing.TB, key crypto.Signer, cn string, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: []string{"system:nodes"}}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func testKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func clientRequest(t testing.TB) Request {
	return Request{
		Request: ask(t, testKey(t), "system:node:worker-01", nil), SignerName: kubeletClientSigner,
		Username: "spore:kubelet-bootstrap:worker-01", Groups: []string{"system:bootstrappers", "system:authenticated"},
		Usages: []string{"digital signature", "client auth"},
	}
}

func names(dns []string, ips ...string) func(*x509.CertificateRequest) {
	return func(r *x509.CertificateRequest) {
		r.DNSNames = dns
		for _, ip := range ips {
			r.IPAddresses = append(r.IPAddresses, net.ParseIP(ip))
		}
	}
}

func servingRequest(t testing.TB, change func(*x509.CertificateRequest)) Request {
	return Request{
		Request: ask(t, testKey(t), "system:node:worker-01", change), SignerName: kubeletServingSigner,
		Username: "system:node:worker-01", Groups: []string{"system:nodes", "system:authenticated"},
		Usages: []string{"key encipherment", "digital signature", "server auth"},
	}
}

func TestRequestsOfNodesAreApproved(t *testing.T) {
	known := KnownNodes(testNodes())
	require.Len(t, known, 2)
	rotated := clientRequest(t)
	rotated.Username, rotated.Groups = "system:node:worker-01", []string{"system:nodes"}
	withRSA := clientRequest(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	withRSA.Request, withRSA.Usages = ask(t, key, "system:node:worker-01", nil), []string{"key encipherment", "digital signature", "client auth"}
	withEd25519 := clientRequest(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	withEd25519.Request = ask(t, ed, "system:node:worker-01", nil)
	for name, r := range map[string]Request{
		"the first certificate":          clientRequest(t),
		"a later one":                    rotated,
		"with an RSA key":                withRSA,
		"with an Ed25519 key":            withEd25519,
		"for serving by name":            servingRequest(t, names([]string{"worker-01"})),
		"for serving by hostname":        servingRequest(t, names([]string{"w1", "W1.lab.internal"})),
		"for serving by address":         servingRequest(t, names(nil, "10.77.0.31")),
		"for serving by all that it has": servingRequest(t, names([]string{"worker-01", "w1", "w1.lab.internal"}, "10.77.0.31", "fd77::31", "10.78.0.31")),
	} {
		verdict, reason := known.Decide(r)
		require.Equal(t, Approve, verdict, "%s: %s", name, reason)
	}
}

func TestRequestsThatDoNotFitAreDenied(t *testing.T) {
	known := KnownNodes(testNodes())
	client := func(change func(*Request)) Request { r := clientRequest(t); change(&r); return r }
	serving := func(change func(*x509.CertificateRequest)) Request { return servingRequest(t, change) }
	subject := func(change func(*x509.CertificateRequest)) Request {
		return client(func(r *Request) { r.Request = ask(t, testKey(t), "system:node:worker-01", change) })
	}
	forged := clientRequest(t)
	block, _ := pem.Decode(forged.Request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	forged.Request = pem.EncodeToMemory(block)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	for _, tt := range []struct {
		name, want string
		request    Request
	}{
		{"a worker that wants to be a master", `node worker-01 asks for the common name "system:node:master-01"`, client(func(r *Request) { r.Request = ask(t, testKey(t), "system:node:master-01", nil) })},
		{"a worker that wants to be an administrator", `asks for the common name "kubernetes-admin"`, client(func(r *Request) { r.Request = ask(t, testKey(t), "kubernetes-admin", nil) })},
		{"a worker that serves as a master", `asks for the common name "system:node:master-01"`, func() Request {
			r := serving(names([]string{"master-01"}))
			r.Request = ask(t, testKey(t), "system:node:master-01", names([]string{"master-01"}))
			return r
		}()},
		{"an unknown node", `cluster.yaml has no node "worker-99"`, client(func(r *Request) {
			r.Username = "spore:kubelet-bootstrap:worker-99"
			r.Request = ask(t, testKey(t), "system:node:worker-99", nil)
		})},
		{"a node that does not run Kubernetes", `cluster.yaml has no node "edge-01" with the role`, client(func(r *Request) {
			r.Username = "spore:kubelet-bootstrap:edge-01"
			r.Request = ask(t, testKey(t), "system:node:edge-01", nil)
		})},
		{"a node without a name", `"spore:kubelet-bootstrap:" is not the identity of a node`, client(func(r *Request) { r.Username = "spore:kubelet-bootstrap:" })},
		{"a person", `"kubernetes-admin" is not the identity of a node`, client(func(r *Request) { r.Username = "kubernetes-admin" })},
		{"a service account", `"system:serviceaccount:default:default" is not the identity`, client(func(r *Request) { r.Username = "system:serviceaccount:default:default" })},
		{"a user who only has the name", "is not the identity of a node", client(func(r *Request) { r.Groups = []string{"system:authenticated"} })},
		{"a user with the name of one kind and the group of the other", "is not the identity of a node", client(func(r *Request) { r.Groups = []string{"system:nodes"} })},
		{"another organization", "the subject is", subject(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} })},
		{"one organization more", "the subject is", subject(func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{"system:nodes", "system:masters"}
		})},
		{"no organization", "the subject is", subject(func(r *x509.CertificateRequest) { r.Subject.Organization = nil })},
		{"an organizational unit", "the subject is", subject(func(r *x509.CertificateRequest) { r.Subject.OrganizationalUnit = []string{"x"} })},
		{"a second common name", "the subject is", subject(func(r *x509.CertificateRequest) {
			cn := asn1.ObjectIdentifier{2, 5, 4, 3}
			r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: cn, Value: "system:node:master-01"}, {Type: cn, Value: "system:node:worker-01"}}
		})},
		{"a client with a name", "has no alternative names", subject(names([]string{"worker-01"}))},
		{"an e-mail address", "has no e-mail address", subject(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b.example"} })},
		{"a URI", "no URI", subject(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} })},
		{"a certificate of an authority", "asks for the extension 2.5.29.19", subject(func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}
		})},
		{"a usage too many", `the usage "cert sign" is not for`, client(func(r *Request) { r.Usages = append(r.Usages, "cert sign") })},
		{"a client that wants to serve", `the usage "server auth" is not for`, client(func(r *Request) { r.Usages = append(r.Usages, "server auth") })},
		{"no purpose", `the usage "client auth" is missing`, client(func(r *Request) { r.Usages = []string{"digital signature"} })},
		{"another signer", `a node has no use for a certificate of the signer "kubernetes.io/kube-apiserver-client"`, client(func(r *Request) { r.SignerName = "kubernetes.io/kube-apiserver-client" })},
		{"the signature of another key", "not signed with its own key", forged},
		{"a weak key", "the RSA key has 1024 bits", client(func(r *Request) { r.Request = ask(t, weak, "system:node:worker-01", nil) })},
		{"no PEM", "not one CERTIFICATE REQUEST in PEM", client(func(r *Request) { r.Request = []byte("x") })},
		{"two requests", "not one CERTIFICATE REQUEST in PEM", client(func(r *Request) { r.Request = append(r.Request, r.Request...) })},
		{"a certificate", "not one CERTIFICATE REQUEST in PEM", client(func(r *Request) { r.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}) })},
		{"what is no request", "not PKCS #10", client(func(r *Request) {
			r.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte{0x30, 0}})
		})},
		{"a huge request", "more than 16384", client(func(r *Request) { r.Request = []byte(strings.Repeat("x", maxRequest+1)) })},
		{"the name of a master", `the name "master-01" is not one of node worker-01`, serving(names([]string{"worker-01", "master-01"}))},
		{"the name of the API", `the name "kubernetes.default.svc" is not one`, serving(names([]string{"kubernetes.default.svc"}))},
		{"a wildcard", `the name "*.lab.internal" is not one`, serving(names([]string{"*.lab.internal"}))},
		{"the address of a master", "the address 10.77.0.21 is not one of node worker-01", serving(names(nil, "10.77.0.31", "10.77.0.21"))},
		{"the loopback address", "the address 127.0.0.1 is not one", serving(names(nil, "127.0.0.1"))},
		{"no name", "needs a name or an address", serving(nil)},
		{"serving by the bundle's certificate", "not by the certificate of its bundle", func() Request {
			r := serving(names([]string{"worker-01"}))
			r.Username, r.Groups = "spore:kubelet-bootstrap:worker-01", []string{"system:bootstrappers"}
			return r
		}()},
		{"serving that wants to be a client", `the usage "client auth" is not for`, func() Request {
			r := serving(names([]string{"worker-01"}))
			r.Usages = append(r.Usages, "client auth")
			return r
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verdict, reason := known.Decide(tt.request)
			want := Deny
			if strings.HasPrefix(tt.want, "cluster.yaml has no node") {
				want = Unknown
			}
			require.Equal(t, want, verdict)
			require.Contains(t, reason, tt.want)
		})
	}
}

func TestRequestsThatHaveNothingToDoWithNodesAreLeft(t *testing.T) {
	r := clientRequest(t)
	r.SignerName, r.Username, r.Groups = "example.com/mesh", "system:serviceaccount:mesh:issuer", []string{"system:serviceaccounts"}
	verdict, reason := KnownNodes(testNodes()).Decide(r)
	require.Equal(t, Leave, verdict)
	require.Empty(t, reason)
}

func FuzzDecide(f *testing.F) {
	good := clientRequest(f)
	f.Add(good.Request, good.SignerName, good.Username, "system:bootstrappers", "client auth")
	serving := servingRequest(f, names([]string{"worker-01"}, "10.77.0.31"))
	f.Add(serving.Request, serving.SignerName, serving.Username, "system:nodes", "server auth")
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"), good.SignerName, "system:node:master-01", "system:nodes", "")
	known := KnownNodes(testNodes())
	f.Fuzz(func(t *testing.T, request []byte, signer, user, group, usage string) {
		verdict, reason := known.Decide(Request{Request: request, SignerName: signer, Username: user, Groups: []string{group}, Usages: []string{usage}})
		switch verdict {
		case Deny, Unknown:
			require.NotEmpty(t, reason)
		case Leave:
			require.NotContains(t, []string{kubeletClientSigner, kubeletServingSigner}, signer)
		case Approve:
			block, _ := pem.Decode(request)
			r, err := x509.ParseCertificateRequest(block.Bytes)
			require.NoError(t, err)
			require.Equal(t, []string{"system:nodes"}, r.Subject.Organization)
			name := strings.TrimPrefix(r.Subject.CommonName, "system:node:")
			require.Contains(t, known, name)
			require.True(t, user == "system:node:"+name || user == "spore:kubelet-bootstrap:"+name)
		}
	})
}

// A new configuration reaches one master after the other, and a request that one denies stays denied for an hour.
func TestARequestOfANodeThatOnlyAnotherMasterMayKnowIsLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		masters []string
		denied  bool
	}{
		"with several masters": {[]string{"master-01", "master-02"}, false},
		"with one master":      {[]string{"master-01"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var put []string
			c := testClient(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				put = append(put, string(body))
				_, _ = w.Write([]byte("{}"))
			})
			var said []string
			b := &bootstrap{
				Options: Options{Client: c, Cluster: &facts.Cluster{Members: map[string][]string{"control-plane": tt.masters}}, Say: func(s string) { said = append(said, s) }},
				known:   KnownNodes(testNodes()), said: map[string]bool{},
			}
			r := clientRequest(t)
			r.Username = "spore:kubelet-bootstrap:worker-99"
			data, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "csr-1"}, "spec": r})
			require.NoError(t, err)
			for range 2 {
				require.NoError(t, b.decide(t.Context(), data))
			}
			require.Contains(t, said[0], `cluster.yaml has no node "worker-99"`)
			if tt.denied {
				require.Len(t, put, 2)
				require.Contains(t, put[0], `"Denied"`)
				return
			}
			require.Empty(t, put)
			require.Len(t, said, 1, "once")
		})
	}
}
