package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/builder/cmd/exit"
)

func (b *bench) kubeconfig(file string) kubeconfig {
	var k kubeconfig
	require.NoError(b.t, yaml.Unmarshal([]byte(b.read(file)), &k))
	return k
}

func unpacked(t *testing.T, text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return data
}

func TestAKubeconfigForAnHour(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	before := b.read("configs.pki/tree.age")
	out := b.ok("kubeconfig", "@configs", "--user", "anna", "--lifetime", "1h", "-o", "@anna")
	require.Equal(t, b.path("anna")+": anna at https://10.77.0.100:6443 until 2026-03-01T13:00:00Z\n", out)
	require.Equal(t, before, b.read("configs.pki/tree.age"), "the folder keeps nothing of it")
	info, err := os.Stat(b.path("anna"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	k := b.kubeconfig("anna")
	require.Equal(t, "anna@plant", k.CurrentContext)
	require.Equal(t, k.CurrentContext, k.Contexts[0].Name)
	require.Equal(t, "https://10.77.0.100:6443", k.Clusters[0].Cluster.Server)
	require.Empty(t, k.Clusters[0].Cluster.TLSServerName)
	pair, err := tls.X509KeyPair(unpacked(t, k.Users[0].User.Certificate), unpacked(t, k.Users[0].User.Key))
	require.NoError(t, err)
	require.Equal(t, "anna", pair.Leaf.Subject.CommonName)
	require.Equal(t, []string{"system:masters"}, pair.Leaf.Subject.Organization)
	require.Equal(t, b.now.Add(time.Hour), pair.Leaf.NotAfter)

	// Kubernetes verifies people with the authority of clients, and people it with that of servers.
	b.ok("export", "@configs", "-o", "@out")
	clients := x509.NewCertPool()
	require.True(t, clients.AppendCertsFromPEM([]byte(b.read("out/kubernetes-client.crt"))))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: clients, CurrentTime: b.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	require.Equal(t, b.read("out/kubernetes-server.crt"), string(unpacked(t, k.Clusters[0].Cluster.Authority)))

	other := b.ok("kubeconfig", "@configs", "-o", "@other")
	require.Contains(t, other, "kubernetes-admin at")
	require.Contains(t, other, "2026-03-01T20:00:00Z")
	require.NotEqual(t, k.Users[0].User.Key, b.kubeconfig("other").Users[0].User.Key)
	require.NotContains(t, b.said.String(), k.Users[0].User.Key)
	require.NotContains(t, b.said.String(), "PRIVATE KEY")
}

func TestNoRightOfAPersonInKubernetesIsKept(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs", "--plain")
	require.NotContains(t, b.ok("show", "@configs"), "kubernetes-admin")
	errs := b.fails(exit.Failed, "export", "@configs", "-o", "@out", "--name", "kubernetes-admin")
	require.Contains(t, errs, "kubernetes-admin is not kept: nobody can take it back; `spore kubeconfig` makes one")
	require.Contains(t, errs, "at most 8h0m0s")
	require.NoFileExists(t, b.path("out/kubernetes-admin.key"))
}

func TestAKubeconfigForOneRight(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	for _, tt := range []struct {
		args      []string
		says      string
		groups    []string
		namespace string
	}{
		{[]string{"--group", "edit", "--namespace", "shop"}, "anna, who may edit the namespace shop, at https://", []string{"spore:edit:shop"}, "shop"},
		{[]string{"--group", "view"}, "anna, who may view all namespaces, at https://", []string{"spore:view"}, ""},
		{[]string{"--group", "cluster-admin"}, "anna at https://", []string{"system:masters"}, ""},
	} {
		out := b.ok(append([]string{"kubeconfig", "@configs", "--user", "anna", "-o", "@anna"}, tt.args...)...)
		require.Contains(t, out, tt.says)
		k := b.kubeconfig("anna")
		require.Equal(t, tt.namespace, k.Contexts[0].Context.Namespace)
		pair, err := tls.X509KeyPair(unpacked(t, k.Users[0].User.Certificate), unpacked(t, k.Users[0].User.Key))
		require.NoError(t, err)
		require.Equal(t, tt.groups, pair.Leaf.Subject.Organization)
		require.Equal(t, "anna", pair.Leaf.Subject.CommonName)
		require.Equal(t, b.now.Add(8*time.Hour), pair.Leaf.NotAfter, "at most")
	}
}

func TestAForwardedPortIsVerifiedByName(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	for server, name := range map[string]string{
		"https://127.0.0.1:49443":            "", // masters call themselves that
		"https://10.77.0.11:6443":            "",
		"https://master-01.plant.example":    "",
		"https://192.0.2.7:6443":             "kubernetes",
		"https://kubernetes.company.example": "kubernetes",
	} {
		b.ok("kubeconfig", "@configs", "--server", server, "-o", "@k")
		require.Equal(t, server, b.kubeconfig("k").Clusters[0].Cluster.Server)
		require.Equal(t, name, b.kubeconfig("k").Clusters[0].Cluster.TLSServerName, server)
	}
}

func TestWhatIsNoKubeconfig(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	for want, args := range map[string][]string{
		`the server "10.77.0.11" is not a URL of an API`:              {"--server", "10.77.0.11"},
		`the server "http://10.77.0.11:6443" is not a URL of an API`:  {"--server", "http://10.77.0.11:6443"},
		`the user "an na" is not a name`:                              {"--user", "an na"},
		"the lifetime 1m0s is out of bounds; choose 5m0s to 8h0m0s":   {"--lifetime", "1m"},
		"the lifetime 8h0m1s is out of bounds; choose at most 8h0m0s": {"--lifetime", "8h1s"},
		`there is no group "root"; choose view, edit, admin or`:       {"--group", "root"},
		"cluster-admin is for the whole cluster":                      {"--namespace", "shop"},
		`"Shop" is not the name of a namespace`:                       {"--group", "view", "--namespace", "Shop"},
		`"a:b" is not the name of a namespace`:                        {"--group", "view", "--namespace", "a:b"},
	} {
		code, _, errs := b.run(append([]string{"kubeconfig", "@configs", "-o", "@k", "--passphrase-file", "@pass"}, args...)...)
		require.NotEqual(t, exit.OK, code)
		require.Contains(t, errs, want)
		require.NoFileExists(t, b.path("k"))
	}

	text := b.read("configs/cluster.yaml")
	text = strings.NewReplacer("services: [kubernetes, ", "services: [", "roles: [master]", "roles: []", "roles: [worker]", "roles: []", "roles: [worker, ceph-osd]", "roles: [ceph-osd]").Replace(text)
	b.write("configs/cluster.yaml", text)
	require.Contains(t, b.fails(exit.Failed, "kubeconfig", "@configs", "-o", "@k", "--passphrase-file", "@pass"), "this cluster has no Kubernetes")
}
