package kubeapi

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"spore/cluster/facts"
)

// Signers of the certificates of kubelets (kubernetes.io, "Certificates and Certificate Signing Requests").
const (
	kubeletClientSigner  = "kubernetes.io/kube-apiserver-client-kubelet"
	kubeletServingSigner = "kubernetes.io/kubelet-serving"
)

// Identities of kubelets; the first is that of the bundle's certificate, the second that of the one asked for.
const (
	bootstrapUser  = "spore:kubelet-bootstrap:"
	bootstrapGroup = "system:bootstrappers"
	nodeUser       = "system:node:"
	nodeGroup      = "system:nodes"
)

// Bounds of a request.
const (
	// maxRequest bounds a certificate request in bytes. A kubelet's has less than 1 KiB.
	maxRequest = 16 << 10
	// minRSA is the least length of an RSA key in bits.
	minRSA = 2048
)

// Request is a request for a certificate as the API server has received it (certificates.k8s.io/v1).
type Request struct {
	// Request is the PKCS #10 request in PEM.
	Request []byte `json:"request"`
	// SignerName says which authority is to sign.
	SignerName string `json:"signerName"`
	// Username and Groups say who asks. The API server has set them, not the one who asks.
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
	// Usages are what the certificate is to be used for.
	Usages []string `json:"usages"`
}

// Verdict is what becomes of a request.
type Verdict int

// Verdicts.
const (
	// Leave leaves it to others: it has nothing to do with nodes.
	Leave Verdict = iota
	// Approve has it signed.
	Approve
	// Deny refuses it for good.
	Deny
	// Unknown is of a node that is not in this configuration.
	Unknown
)

// Known are the nodes that may have a kubelet.
type Known map[string]KnownNode

// KnownNode is what a node may be called.
type KnownNode struct {
	Names     []string
	Addresses []netip.Addr
}

// KnownNodes are the nodes of cluster.yaml that Kubernetes runs on, with the names and addresses that they have there.
func KnownNodes(nodes []facts.Node) Known {
	out := Known{}
	for _, n := range nodes {
		if !runsKubernetes(n) {
			continue
		}
		k := KnownNode{Names: []string{n.Name, strings.ToLower(n.Hostname), strings.ToLower(n.FQDN)}}
		for _, s := range n.IPs {
			if a, err := netip.ParseAddr(s); err == nil {
				k.Addresses = append(k.Addresses, a.Unmap())
			}
		}
		for _, i := range n.Interfaces {
			for _, s := range i.Addresses {
				if p, err := netip.ParsePrefix(s); err == nil {
					k.Addresses = append(k.Addresses, p.Addr().Unmap())
				}
			}
		}
		out[n.Name] = k
	}
	return out
}

func runsKubernetes(n facts.Node) bool {
	return slices.Contains(n.Roles, "control-plane") || slices.Contains(n.Roles, "worker")
}

// Decide says what becomes of a request, and why it is denied. A kubelet's request is approved when the one who asks is the
// node that the certificate is for, and all that is in it is that node's in cluster.yaml. One of a node that is not in there is
// another matter: while a new configuration goes round, another master may know it.
func (k Known) Decide(r Request) (Verdict, string) {
	asker, byBootstrap := askingNode(r)
	kubelets := r.SignerName == kubeletClientSigner || r.SignerName == kubeletServingSigner
	switch {
	case !kubelets && asker == "":
		return Leave, ""
	case !kubelets:
		return Deny, fmt.Sprintf("a node has no use for a certificate of the signer %.100q", r.SignerName)
	case asker == "":
		return Deny, fmt.Sprintf("%.100q is not the identity of a node", r.Username)
	}
	node, ok := k[asker]
	if !ok {
		return Unknown, fmt.Sprintf("cluster.yaml has no node %.100q with the role control-plane or worker", asker)
	}
	request, err := parseRequest(r.Request)
	if err != nil {
		return Deny, err.Error()
	}
	if want := nodeUser + asker; request.Subject.CommonName != want {
		return Deny, fmt.Sprintf("node %s asks for the common name %.100q, and its own is %q", asker, request.Subject.CommonName, want)
	}
	if o := request.Subject.Organization; len(o) != 1 || o[0] != nodeGroup || len(request.Subject.Names) != 2 {
		return Deny, fmt.Sprintf("the subject is %.200q, and a node's has the organization %s and nothing besides", request.Subject, nodeGroup)
	}
	if len(request.EmailAddresses) > 0 || len(request.URIs) > 0 {
		return Deny, "a node has no e-mail address and no URI"
	}
	reason := ""
	if r.SignerName == kubeletClientSigner {
		reason = clientReason(r, request)
	} else {
		reason = servingReason(r, request, asker, byBootstrap, node)
	}
	if reason != "" {
		return Deny, reason
	}
	return Approve, ""
}

// askingNode is the name of the node that asks, and whether it does so by the certificate of its bundle.
func askingNode(r Request) (name string, byBootstrap bool) {
	if name, ok := strings.CutPrefix(r.Username, bootstrapUser); ok && slices.Contains(r.Groups, bootstrapGroup) {
		return name, true
	}
	if name, ok := strings.CutPrefix(r.Username, nodeUser); ok && slices.Contains(r.Groups, nodeGroup) {
		return name, false
	}
	return "", false
}

func clientReason(r Request, request *x509.CertificateRequest) string {
	if len(request.DNSNames) > 0 || len(request.IPAddresses) > 0 {
		return "the certificate by which a kubelet asks the API has no alternative names"
	}
	return usageReason(r.Usages, "client auth")
}

func servingReason(r Request, request *x509.CertificateRequest, asker string, byBootstrap bool, node KnownNode) string {
	if byBootstrap {
		return "a kubelet asks for its serving certificate by its own name " + nodeUser + asker + ", not by the certificate of its bundle"
	}
	if len(request.DNSNames)+len(request.IPAddresses) == 0 {
		return "a serving certificate needs a name or an address"
	}
	for _, name := range request.DNSNames {
		if !slices.Contains(node.Names, strings.ToLower(name)) {
			return fmt.Sprintf("the name %.100q is not one of node %s in cluster.yaml: %s", name, asker, strings.Join(node.Names, ", "))
		}
	}
	for _, ip := range request.IPAddresses {
		a, ok := netip.AddrFromSlice(ip)
		if !ok || !slices.Contains(node.Addresses, a.Unmap()) {
			return fmt.Sprintf("the address %s is not one of node %s in cluster.yaml", ip, asker)
		}
	}
	return usageReason(r.Usages, "server auth")
}

// usageReason checks what the certificate is to be used for. Key encipherment is what kubelets with RSA keys ask for.
func usageReason(usages []string, purpose string) string {
	found := false
	for _, u := range usages {
		if u != purpose && u != "digital signature" && u != "key encipherment" {
			return fmt.Sprintf("the usage %.100q is not for a kubelet's certificate of this kind", u)
		}
		found = found || u == purpose
	}
	if !found {
		return fmt.Sprintf("the usage %q is missing", purpose)
	}
	return ""
}

// oidSubjectAltName is id-ce-subjectAltName (RFC 5280, section 4.2.1.6).
var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// parseRequest reads a PKCS #10 request (RFC 2986) in PEM and checks that the one who made it has the key.
func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	if len(data) > maxRequest {
		return nil, fmt.Errorf("the request has %d bytes, more than %d", len(data), maxRequest)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("the request is not one CERTIFICATE REQUEST in PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the request is not PKCS #10: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the request is not signed with its own key: %w", err)
	}
	switch key := request.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSA {
			return nil, fmt.Errorf("the RSA key has %d bits, less than %d", key.N.BitLen(), minRSA)
		}
	default:
		return nil, fmt.Errorf("the key is of an unknown kind")
	}
	for _, e := range request.Extensions {
		if !e.Id.Equal(oidSubjectAltName) {
			return nil, fmt.Errorf("the request asks for the extension %s, and a kubelet's only for alternative names", e.Id)
		}
	}
	return request, nil
}
