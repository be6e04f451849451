//go:build e2e

package services

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/kubeapi"
	"spore/test/kubecluster"
)

// controlPlane is a running master of testdata/kubernetes.
type controlPlane struct {
	*kubecluster.Running
	t       *testing.T
	cluster *kubecluster.Cluster
	// programs is the folder of what it runs.
	programs string
}

// everyProgram is what a master runs of its own, in the order of its units.
var everyProgram = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	p := preparedControlPlane(t)
	require.NoError(t, p.Start(context.Background(), everyProgram...))
	return p
}

// preparedControlPlane is one of which no program runs yet.
func preparedControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	return controlPlaneWith(t, func(*kubernetes.Settings) {})
}

// controlPlaneWith is one with other settings, of which no program runs yet.
func controlPlaneWith(t *testing.T, change func(*kubernetes.Settings)) *controlPlane {
	t.Helper()
	programs := kubernetesPrograms(t)
	c, err := kubecluster.Load("testdata/kubernetes")
	require.NoError(t, err)
	change(kubernetes.Of(c.Shared.Services))
	n, err := c.Node("control-plane")
	require.NoError(t, err)
	dir := t.TempDir()
	r, err := c.Prepare(n, dir, "../../units", func(name string) string {
		if name == "calico-controllers" {
			return calicoProgram(t, "/usr/bin/calico")
		}
		return filepath.Join(programs, name)
	})
	require.NoError(t, err)
	p := &controlPlane{r, t, c, programs}
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			p.logs()
		}
	})
	return p
}

func (p *controlPlane) logs() {
	for _, name := range everyProgram {
		data, err := os.ReadFile(filepath.Join(p.Dir, name+".log"))
		if err == nil {
			p.t.Logf("%s:\n%s", name, data[max(0, len(data)-4000):])
		}
	}
}

// master is the daemon of a master, as `spore-agent kubernetes` runs it.
type master struct {
	applied chan struct{}
	stop    func()
	mu      sync.Mutex
	said    []string
}

func (m *master) say(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, s)
}

// lines are all that it has said.
func (m *master) lines() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.said, "\n")
}

func (m *master) await(t *testing.T) {
	t.Helper()
	select {
	case <-m.applied:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the daemon has not applied everything:\n%s", m.lines())
	}
}

// daemon starts the daemon and waits until it has applied everything.
func (p *controlPlane) daemon(nodes []facts.Node) *master {
	p.t.Helper()
	api, err := p.Client("master-01", "kubernetes-bootstrap", "kubernetes-agent")
	require.NoError(p.t, err)
	kinds := calicoKinds(p.t)
	ctx, cancel := context.WithCancel(context.Background())
	m := &master{applied: make(chan struct{}, 100)}
	done := make(chan error, 1)
	go func() {
		done <- kubeapi.Run(ctx, kubeapi.Options{
			Client: api, Cluster: &p.cluster.Shared, Nodes: nodes, Say: m.say, Status: func(string) {},
			Kinds:   func(context.Context) ([]kubeapi.Object, error) { return kubeapi.ParseKinds(kinds) },
			Applied: func() { m.applied <- struct{}{} },
		})
	}()
	var once sync.Once
	m.stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(p.t, <-done)
			if p.t.Failed() {
				p.t.Log(m.lines())
			}
		})
	}
	p.t.Cleanup(m.stop)
	m.await(p.t)
	return m
}

// kubeUser is a client of the API.
type kubeUser struct {
	t      *testing.T
	server string
	http   *http.Client
}

// user is the client that a program of a node is.
func (p *controlPlane) user(node, program, leaf string) *kubeUser {
	p.t.Helper()
	c, err := p.Credentials(node, program, leaf)
	require.NoError(p.t, err)
	return p.userWith(c.Certificate, c.Key)
}

func (p *controlPlane) userWith(certificate, key []byte) *kubeUser {
	p.t.Helper()
	roots := x509.NewCertPool()
	authorities, err := p.cluster.Public("kubernetes-server.crt")
	require.NoError(p.t, err)
	require.True(p.t, roots.AppendCertsFromPEM(authorities))
	config := &tls.Config{RootCAs: roots}
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		require.NoError(p.t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return &kubeUser{p.t, p.Server, &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 30 * time.Second}}
}

// admin may do everything.
func (p *controlPlane) admin() *kubeUser {
	return p.user("master-01", "kubernetes-bootstrap", "kubernetes-agent")
}

type object = map[string]any

// do asks and returns the code and what was answered.
func (u *kubeUser) do(method, path string, body any) (int, object) {
	u.t.Helper()
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(u.t, err)
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, u.server+path, content)
	require.NoError(u.t, err)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	res, err := u.http.Do(req)
	require.NoError(u.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(u.t, err)
	var o object
	_ = json.Unmarshal(data, &o) // /readyz answers with text
	return res.StatusCode, o
}

// must is do with the code that is expected.
func (u *kubeUser) must(code int, method, path string, body any) object {
	u.t.Helper()
	got, o := u.do(method, path, body)
	require.Equal(u.t, code, got, "%s %s: %v", method, path, o["message"])
	return o
}

// at returns a field of an object by its path.
func at(o any, path ...string) any {
	for _, key := range path {
		m, _ := o.(object)
		o = m[key]
	}
	return o
}

const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// request is a certificate that is asked for.
type request struct {
	name, cn, org string
	dns, ips      []string
	serving       bool
}

// ask asks for a certificate and returns its key.
func (u *kubeUser) ask(r request) []byte {
	u.t.Helper()
	return u.askWith(http.StatusCreated, r)
}

// refused asks for a certificate and is not even let ask.
func (u *kubeUser) refused(r request) {
	u.t.Helper()
	u.askWith(http.StatusForbidden, r)
}

func (u *kubeUser) askWith(code int, r request) []byte {
	u.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(u.t, err)
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: r.cn, Organization: []string{r.org}}, DNSNames: r.dns}
	for _, ip := range r.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(u.t, err)
	signer, usage := "kubernetes.io/kube-apiserver-client-kubelet", "client auth"
	if r.serving {
		signer, usage = "kubernetes.io/kubelet-serving", "server auth"
	}
	body := object{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": object{"name": r.name},
		"spec": object{
			"request":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			"signerName": signer, "usages": []string{"digital signature", usage},
		},
	}
	got, answer := u.do("POST", requests, body)
	// Roles and bindings that were just made come to the API server's authorizer by a watch.
	for end := time.Now().Add(20 * time.Second); got == http.StatusForbidden && code != got && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		got, answer = u.do("POST", requests, body)
	}
	require.Equal(u.t, code, got, "a request of %s: %v", r.cn, answer["message"])
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(u.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// decision waits for what becomes of a request: "Approved" or "Denied" and why.
func (u *kubeUser) decision(name string) (kind, message string) {
	u.t.Helper()
	require.Eventually(u.t, func() bool {
		list, _ := at(u.must(http.StatusOK, "GET", requests+"/"+name, nil), "status", "conditions").([]any)
		if len(list) == 0 {
			return false
		}
		kind, _ = at(list[0], "type").(string)
		message, _ = at(list[0], "message").(string)
		return true
	}, 20*time.Second, 50*time.Millisecond, "nobody decides about %s", name)
	return kind, message
}

// certificate waits for a request to be signed.
func (u *kubeUser) certificate(name string) []byte {
	u.t.Helper()
	var out []byte
	require.Eventually(u.t, func() bool {
		text, _ := at(u.must(http.StatusOK, "GET", requests+"/"+name, nil), "status", "certificate").(string)
		var err error
		out, err = base64.StdEncoding.DecodeString(text)
		return err == nil && len(out) > 0
	}, 60*time.Second, 100*time.Millisecond, "nobody signs %s", name)
	return out
}

// kubelet is a node's kubelet after it has got its certificate.
func (p *controlPlane) kubelet(node string) *kubeUser {
	p.t.Helper()
	u := p.user(node, "kubelet", "kubelet-bootstrap")
	name := "first-of-" + node
	key := u.ask(request{name: name, cn: "system:node:" + node, org: "system:nodes"})
	kind, message := u.decision(name)
	require.Equal(p.t, "Approved", kind, message)
	return p.userWith(u.certificate(name), key)
}

// register makes the node's object as kubelet does.
func (u *kubeUser) register(name string, taints ...any) {
	u.t.Helper()
	u.must(http.StatusCreated, "POST", "/api/v1/nodes", object{
		"apiVersion": "v1", "kind": "Node", "metadata": object{"name": name, "labels": object{"kubernetes.io/hostname": name}}, "spec": object{"taints": taints},
	})
}
