//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Looking pods see all of their node: its files below /host, and its processes.
const (
	lookMaster = "kube-system/look-" + masterName
	lookWorker = "kube-system/look-" + workerName
)

// looks starts the looking pods. Only in kube-system can there be such pods.
func (l *lab) looks(*testing.T) {
	l.t.Helper()
	for _, node := range []string{masterName, workerName} {
		l.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: look-%[1]s, namespace: kube-system}
spec:
  nodeName: %[1]s
  hostPID: true
  automountServiceAccountToken: false
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 0
  containers:
    - name: hello
      image: %[2]s
      imagePullPolicy: IfNotPresent
      securityContext: {privileged: true}
      volumeMounts: [{name: host, mountPath: /host, readOnly: true, mountPropagation: HostToContainer}]
  volumes: [{name: host, hostPath: {path: /}}]
`, node, helloImage))
	}
	l.must("wait", "-n", "kube-system", "--for=condition=Ready", "pod/look-"+masterName, "pod/look-"+workerName, "--timeout="+kubeStep.String())
}

func (l *lab) encryptsSecrets(t *testing.T) {
	const secret, public = "neither-here-nor-there", "for-all-to-see"
	l.must("create", "secret", "generic", "-n", "lab", "private", "--from-literal=word="+secret)
	l.must("create", "configmap", "-n", "lab", "public", "--from-literal=word="+public)
	require.Equal(t, secret, decoded(t, l.must("get", "secret", "-n", "lab", "private", "-o", "jsonpath={.data.word}")))
	found := func(dir string, words ...string) string {
		args := []string{"find", dir}
		for _, w := range words {
			args = append(args, hex.EncodeToString([]byte(w)))
		}
		out, err := l.in(lookMaster, args...)
		// A machine with too much to do may drop the connection of a command that says nothing for long; it changed nothing.
		if err != nil && strings.Contains(err.Error(), "websocket: close 1006") {
			out, err = l.in(lookMaster, args...)
		}
		require.NoError(t, err)
		return out
	}
	etcd, log := found("/host/var/lib/etcd", secret, public), found("/host/var/log/kubernetes", secret, "secrets/private")
	require.Contains(t, etcd, hex.EncodeToString([]byte(public)), "what is not encrypted is found")
	require.NotContains(t, etcd, hex.EncodeToString([]byte(secret)))
	require.Contains(t, log, hex.EncodeToString([]byte("secrets/private")), "the audit log has the request")
	require.NotContains(t, log, hex.EncodeToString([]byte(secret)), "and not the content")
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return string(data)
}

// as is a kubectl with the certificate and key of another.
func (l *lab) as(certificate, key string) func(input string, args ...string) (string, error) {
	l.t.Helper()
	authorities := decoded(l.t, l.must("config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}"))
	server := l.must("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": server, "certificate-authority-data": []byte(authorities)}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"client-certificate-data": []byte(certificate), "client-key-data": []byte(key)}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}},
	})
	require.NoError(l.t, err)
	path := filepath.Join(l.t.TempDir(), "kubeconfig")
	require.NoError(l.t, os.WriteFile(path, config, 0o600))
	other := *l
	other.config = path
	return other.kubectlWith
}

func (l *lab) boundsWorkers(t *testing.T) {
	own, err := l.in(lookWorker, "cat", "/host/var/lib/kubelet/pki/kubelet-client-current.pem", "/host")
	require.NoError(t, err)
	l.workerIsBound(t, own)
}

// workerIsBound tries what the certificate and key of worker-02's kubelet are not for.
func (l *lab) workerIsBound(t *testing.T, own string) {
	worker := l.as(own, own)
	got, err := worker("", "get", "node", workerName, "-o", "name")
	require.NoError(t, err)
	require.Equal(t, "node/"+workerName, strings.TrimSpace(got), "its own node it may see")

	for name, try := range map[string][]string{
		"a secret of no pod on it": {"get", "secret", "-n", "lab", "private"},
		"all secrets":              {"get", "secrets", "-A"},
		"another node's labels":    {"label", "node", masterName, "x=y"},
		"a master's role":          {"label", "node", workerName, "node-role.kubernetes.io/control-plane="},
		"a pod on another node":    {"run", "x", "-n", "lab", "--image", helloImage, "--overrides", `{"spec": {"nodeName": "` + masterName + `"}}`},
		"another node's kubelet":   {"get", "--raw", "/api/v1/nodes/" + masterName + "/proxy/pods"},
		"roles":                    {"create", "clusterrolebinding", "x", "--clusterrole=cluster-admin", "--user=system:node:" + workerName},
	} {
		_, err := worker("", try...)
		require.ErrorContains(t, err, "orbidden", name)
	}
	for _, may := range [][]string{
		{"update", "certificatesigningrequests.certificates.k8s.io", "--subresource=approval"}, {"impersonate", "users"}, {"*", "*"},
	} {
		out, _ := worker("", append([]string{"auth", "can-i"}, may...)...) // no is an exit code too
		require.Equal(t, "no", strings.TrimSpace(out), "%v", may)
	}
}

// request asks for a kubelet's client certificate and returns the object.
func request(t *testing.T, name, commonName string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName, Organization: []string{"system:nodes"}}}, key)
	require.NoError(t, err)
	object, err := json.Marshal(map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"request":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": []string{"digital signature", "client auth"},
		},
	})
	require.NoError(t, err)
	return string(object)
}

func (l *lab) refusesStrangers(t *testing.T) {
	dir := "/host/run/spore/secrets/kubelet/kubelet-bootstrap-"
	certificate, err := l.in(lookWorker, "cat", dir+"certificate")
	require.NoError(t, err)
	key, err := l.in(lookWorker, "cat", dir+"key")
	require.NoError(t, err)
	l.strangerIsRefused(t, certificate+"\n", key+"\n")
}

// strangerIsRefused asks for certificates with what worker-02's bundle has for its own, and with nothing at all.
func (l *lab) strangerIsRefused(t *testing.T, certificate, key string) {
	bootstrap := l.as(certificate, key)
	for name, node := range map[string]string{"a-stranger": "stranger-01", "another-node": masterName} {
		_, err := bootstrap(request(t, name, "system:node:"+node), "create", "-f", "-")
		require.NoError(t, err)
		l.await(kubeStep, "the request of "+node+" is denied", "Denied", "get", "csr", name, "-o", "jsonpath={.status.conditions[0].type}")
		t.Log(l.must("get", "csr", name, "-o", "jsonpath={.status.conditions[0].message}"))
		require.Empty(t, l.must("get", "csr", name, "-o", "jsonpath={.status.certificate}"))
	}
	_, err := bootstrap("", "get", "nodes")
	require.ErrorContains(t, err, "orbidden")

	// Who has no certificate of the cluster at all.
	ctx, cancel := context.WithTimeout(context.Background(), kubeStep)
	defer cancel()
	server := l.must("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	cmd := l.command(ctx, "--kubeconfig", "/dev/null", "--server", server, "--insecure-skip-tls-verify", "--username=x", "--password=y", "create", "-f", "-")
	cmd.Stdin = strings.NewReader(request(t, "nobody", "system:node:"+workerName))
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Regexp(t, "nauthorized|provide credentials", string(out))
}
