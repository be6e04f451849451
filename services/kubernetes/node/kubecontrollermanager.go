package node

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// kubeControllerManager renders kube-controller-manager's flags, its kubeconfig, and the certificates of the authorities
// that it signs with.
func kubeControllerManager(in rendering.Input) (map[string]rendering.File, error) {
	if kubernetes.Of(in.Cluster.Services) == nil {
		return nil, errors.New("the cluster has no kubernetes settings; add services/kubernetes.yaml")
	}
	files := map[string]rendering.File{}
	for _, authority := range []string{"kubernetes-client", "kubelet-serving"} {
		cert, err := signingCertificate(in, authority)
		if err != nil {
			return nil, err
		}
		files[authority+".crt"] = rendering.File{Data: cert, Mode: 0o644}
	}
	var err error
	if files["kubeconfig"], err = client.Kubeconfig("system:kube-controller-manager", in.SecretPath("kube-controller-manager-certificate"), in.SecretPath("kube-controller-manager-key")); err != nil {
		return nil, err
	}
	sign := func(signer, authority string) []string {
		return []string{
			"--cluster-signing-" + signer + "-cert-file=" + in.Dir + "/" + authority + ".crt",
			"--cluster-signing-" + signer + "-key-file=" + in.SecretPath(authority+"-ca-key"),
		}
	}
	words := []string{
		// What kubelets ask for is approved by spore-agent, against cluster.yaml.
		"--controllers=*,-certificatesigningrequest-approving-controller",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + in.SecretPath("service-account-key"),
		"--root-ca-file=" + pkiFile("kubernetes-server.crt"),
		"--allocate-node-cidrs=false", // Calico does
		"--terminated-pod-gc-threshold=1000",
		"--node-monitor-period=" + client.Slow(in, 5*time.Second).String(),
		"--node-monitor-grace-period=" + client.Slow(in, 50*time.Second).String(),
		// With the default of 20 requests a second its first start loses seconds to its own limit.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		fmt.Sprintf("--leader-elect=%t", client.Elects(in)),
		"--leader-elect-lease-duration=" + client.Slow(in, client.LeaseDuration).String(),
		"--leader-elect-renew-deadline=" + client.Slow(in, client.RenewDeadline).String(),
		"--leader-elect-retry-period=" + client.Slow(in, client.RetryPeriod).String(),
	}
	words = append(words, sign("kubelet-client", "kubernetes-client")...)
	words = append(words, sign("kube-apiserver-client", "kubernetes-client")...)
	words = append(words, sign("kubelet-serving", "kubelet-serving")...)
	words = append(words, "--kubeconfig="+in.Dir+"/kubeconfig")
	words = append(words, ownServer(in, "kube-controller-manager", kubernetes.PortControllerManager)...)
	words = append(words, "--profiling=false")
	if files["arguments"], err = rendering.Arguments(words); err != nil {
		return nil, err
	}
	return files, nil
}

// ownServer are the flags of a control-plane program's own listener, which serves metrics and health on the node itself.
func ownServer(in rendering.Input, name string, port int) []string {
	return []string{
		"--authentication-kubeconfig=" + in.Dir + "/kubeconfig",
		"--authorization-kubeconfig=" + in.Dir + "/kubeconfig",
		// The lookup would fail for good when the API server is not there yet.
		"--authentication-skip-lookup=true",
		"--client-ca-file=" + pkiFile("kubernetes-client.crt"),
		"--bind-address=" + loopback.String(),
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + in.SecretPath(name+"-server-certificate"),
		"--tls-private-key-file=" + in.SecretPath(name+"-server-key"),
		"--tls-min-version=VersionTLS12",
		"--tls-cipher-suites=" + strings.Join(strongSuites, ","),
	}
}

// signingCertificate is the one certificate of an authority that the key of this node's bundle belongs to; while an
// authority is being rotated its public file holds more.
func signingCertificate(in rendering.Input, authority string) ([]byte, error) {
	secret, err := in.Secret(authority + "-ca-key")
	if err != nil {
		return nil, fmt.Errorf("key of the authority %s: %w", authority, err)
	}
	public, err := publicKey(secret)
	if err != nil {
		return nil, fmt.Errorf("key of the authority %s: %w", authority, err)
	}
	rest, err := in.Authority(authority + ".crt")
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority %s: %w", authority, err)
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("the bundle's key of the authority %s belongs to no certificate of this image; build the image with the same keys, or give the node a newer bundle", authority)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate of the authority %s: %w", authority, err)
		}
		if bytes.Equal(cert.RawSubjectPublicKeyInfo, public) {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}), nil
		}
	}
}

// publicKey is the public half of a PKCS #8 key in PEM, as SubjectPublicKeyInfo. No error quotes the key.
func publicKey(secret []byte) ([]byte, error) {
	block, _ := pem.Decode(secret)
	if block == nil {
		return nil, errors.New("the bundle entry is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the bundle entry is no PKCS #8 key")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the bundle entry is not a key that signs")
	}
	return x509.MarshalPKIXPublicKey(signer.Public())
}
