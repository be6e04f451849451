package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/origin"
	"spore/services/rendering"
	"spore/services/rendering/renderingtest"
)

// authority is a CA with a key in the bundle and a certificate that all nodes have.
type authority struct{ certificate, key []byte }

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return authority{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// masterInput is a master with the keys that it signs and encrypts with. The authorities are in the middle of a
// rotation.
func masterInput(t *testing.T) (rendering.Input, authority) {
	in := kubeInput(kubeMaster())
	in.Dir = "/run/x"
	former, now := newAuthority(t), newAuthority(t)
	in.Authority = func(string) ([]byte, error) {
		return append(append([]byte{}, former.certificate...), now.certificate...), nil
	}
	in.State = func(string) (any, error) {
		return &origin.Origin{Kind: formation.Form, Token: in.Cluster.ID + "-0123456789abcdef", Members: map[string][]string{
			"master-01": {"https://10.77.0.21:2380"}, "master-02": {"https://10.77.0.22:2380"}, "master-03": {"https://10.77.0.23:2380"},
		}}, nil
	}
	in.Secret = func(ref string) ([]byte, error) {
		switch ref {
		case "etcd-encryption-key":
			return []byte(base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"), nil
		case "kubernetes-client-ca-key", "kubelet-serving-ca-key":
			return now.key, nil
		}
		return []byte("content of " + ref + "\n"), nil
	}
	return in, now
}

func TestControlPlane(t *testing.T) {
	for _, program := range []string{"calico-controllers", "cluster-dns", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		t.Run(program, func(t *testing.T) {
			in, signer := masterInput(t)
			files, err := render(program, in)
			require.NoError(t, err)
			for _, name := range []string{"kubernetes-client.crt", "kubelet-serving.crt"} {
				if f, ok := files[name]; ok {
					require.Equal(t, string(signer.certificate), string(f.Data), "the one that the bundle's key belongs to, and no other")
					delete(files, name)
				}
			}
			renderingtest.Golden(t, program, files)
		})
	}
}

func TestTheOnlyMasterElectsNobody(t *testing.T) {
	in, _ := masterInput(t)
	in.Cluster.Members["control-plane"] = []string{"master-02"}
	files, err := render("kube-controller-manager", in)
	require.NoError(t, err)
	require.Contains(t, string(files["arguments"].Data), "--leader-elect=false ")
	files, err = render("kube-scheduler", in)
	require.NoError(t, err)
	require.Contains(t, string(files["config.json"].Data), `"leaderElect": false`)
}

func TestEtcdWithoutDataBeginsAsItsOriginSays(t *testing.T) {
	of := func(o *origin.Origin) map[string]any {
		in, _ := masterInput(t)
		in.State = func(string) (any, error) { return o, nil }
		files, err := render("etcd", in)
		require.NoError(t, err)
		var config map[string]any
		require.NoError(t, json.Unmarshal(files["config.json"].Data, &config))
		return config
	}
	config := of(&origin.Origin{Kind: formation.Join, Members: map[string][]string{"master-02": {"https://10.77.0.22:2380"}, "8e9e05c52164694d": {"https://10.77.0.23:2380"}}})
	require.Equal(t, "existing", config["initial-cluster-state"])
	require.Equal(t, "8e9e05c52164694d=https://10.77.0.23:2380,master-02=https://10.77.0.22:2380", config["initial-cluster"])

	config = of(nil)
	require.Equal(t, "existing", config["initial-cluster-state"], "nobody forms a quorum by accident")
	require.Equal(t, "master-02=https://10.77.0.22:2380", config["initial-cluster"])
}

func TestEtcdOnASlowMachine(t *testing.T) {
	for factor, want := range map[int][]string{
		0:  {`"heartbeat-interval": 100,`, `"election-timeout": 1000,`},
		10: {`"heartbeat-interval": 1000,`, `"election-timeout": 10000,`},
		60: {`"heartbeat-interval": 6000,`, `"election-timeout": 50000,`},
	} {
		in, _ := masterInput(t)
		kubernetes.Of(in.Cluster.Services).SlowMachine = factor
		files, err := render("etcd", in)
		require.NoError(t, err)
		for _, w := range want {
			require.Contains(t, string(files["config.json"].Data), w)
		}
	}
}

func TestTheAPIServerWithOtherSettings(t *testing.T) {
	in, _ := masterInput(t)
	in.Cluster.Services.Set(&kubernetes.Settings{Audit: kubernetes.AuditNone, PodSecurity: "restricted", DNSDomain: "k8s.lab"})
	files, err := render("kube-apiserver", in)
	require.NoError(t, err)
	flags := string(files["arguments"].Data)
	require.NotContains(t, flags, "--audit-log")
	require.Contains(t, flags, " --service-account-issuer=https://kubernetes.default.svc.k8s.lab ")
	require.Contains(t, string(files["admission.json"].Data), `"enforce": "restricted"`)
	var policy struct{ Rules []struct{ Level string } }
	require.NoError(t, json.Unmarshal(files["audit-policy.json"].Data, &policy))
	require.Len(t, policy.Rules, 1)
	require.Equal(t, "None", policy.Rules[0].Level)

	kubernetes.Of(in.Cluster.Services).Audit = kubernetes.AuditRequest
	files, err = render("kube-apiserver", in)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(files["audit-policy.json"].Data, &policy))
	require.Equal(t, "Request", policy.Rules[len(policy.Rules)-1].Level)
	require.Equal(t, "Metadata", policy.Rules[len(policy.Rules)-2].Level, "Secrets stay out of the log at every level")
	rules, err := json.Marshal(auditPolicy(kubernetes.AuditRequest)["rules"].([]any))
	require.NoError(t, err)
	require.Contains(t, string(rules), `{"level":"Metadata","resources":[{"group":"","resources":["secrets","configmaps","serviceaccounts/token"]},`+
		`{"group":"authentication.k8s.io","resources":["tokenreviews"]}]},{"level":"Request"}]`, "what has secrets as its content stands before the rest")
}

func TestTheEncryptionKeyIsForTheAPIServerAlone(t *testing.T) {
	in, _ := masterInput(t)
	files, err := render("kube-apiserver", in)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), files["encryption.json"].Mode)
	for name, f := range files {
		if name != "encryption.json" {
			require.NotContains(t, string(f.Data), "AAAA", name)
		}
	}
	require.NotContains(t, string(files["encryption.json"].Data), "identity", "what is not encrypted is not read")
}

func TestControlPlaneRefuses(t *testing.T) {
	secret := func(value string) func(*rendering.Input) {
		return func(in *rendering.Input) { in.Secret = func(string) ([]byte, error) { return []byte(value), nil } }
	}
	for _, tt := range []struct {
		program, name, want string
		change              func(*rendering.Input)
	}{
		{"etcd", "a node that is no master", "this node has not the role control-plane", func(in *rendering.Input) { in.Node.Name = "worker-01" }},
		{"etcd", "a cluster without masters", "this node has not the role control-plane", func(in *rendering.Input) { in.Cluster.Members = nil }},
		{"etcd", "a member that is not let in yet", "have not let this one in yet", func(in *rendering.Input) {
			in.State = func(string) (any, error) { return &origin.Origin{Kind: formation.Join}, nil }
		}},
		{"etcd", "an origin that cannot be read", "damaged", func(in *rendering.Input) {
			in.State = func(string) (any, error) { return nil, errors.New("damaged") }
		}},
		{"etcd", "no address", "the node has no address yet", func(in *rendering.Input) { in.Node.IPs, in.Addresses = nil, nil }},
		{"kube-apiserver", "no settings", "add services/kubernetes.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kubernetes") }},
		{"kube-apiserver", "no Service network", "add them to cluster.yaml", func(in *rendering.Input) { in.Cluster.Network.ServiceCIDRs = nil }},
		{"kube-apiserver", "a short encryption key", "etcd-encryption-key is not 32 bytes in base64", secret("AAAA")},
		{"kube-apiserver", "no encryption key", "key of the Secrets in etcd: none", func(in *rendering.Input) { in.Secret = func(string) ([]byte, error) { return nil, errors.New("none") } }},
		{"kube-controller-manager", "no settings", "add services/kubernetes.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kubernetes") }},
		{"kube-controller-manager", "a key that is not PEM", "key of the authority kubernetes-client: the bundle entry is not PEM", secret("x")},
		{"kube-controller-manager", "a key that is none", "key of the authority kubernetes-client: the bundle entry is no PKCS #8 key", secret("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")},
		{"kube-controller-manager", "a key of another generation", "belongs to no certificate of this image", func(in *rendering.Input) { in.Authority = func(string) ([]byte, error) { return nil, nil } }},
		{"kube-controller-manager", "no certificate", "certificate of the authority kubernetes-client: none", func(in *rendering.Input) {
			in.Authority = func(string) ([]byte, error) { return nil, errors.New("none") }
		}},
		{"kube-scheduler", "no settings", "add services/kubernetes.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kubernetes") }},
		{"cluster-dns", "no settings", "add services/kubernetes.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kubernetes") }},
		{"cluster-dns", "a nameserver that is a name", "nameservers: ", func(in *rendering.Input) { in.Cluster.Network.Nameservers = []string{"dns.example.com"} }},
		{"cluster-dns", "a domain that is Corefile syntax", "DNS domain of Kubernetes: ", func(in *rendering.Input) { kubernetes.Of(in.Cluster.Services).DNSDomain = "a {" }},
	} {
		t.Run(tt.program+" with "+tt.name, func(t *testing.T) {
			in, _ := masterInput(t)
			tt.change(&in)
			_, err := render(tt.program, in)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
