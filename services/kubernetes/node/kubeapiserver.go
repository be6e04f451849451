package node

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

const (
	auditLog = "/var/log/kubernetes/audit.log"
	// Rotation of the audit log: days, files and megabytes of each, as the CIS benchmark has them.
	auditDays, auditFiles, auditSize = 30, 10, 100
	// encryptionKey is the length of the key of secretbox in bytes.
	encryptionKey = 32
)

// kubeAPIServer renders kube-apiserver's flags and the files that they name: who may ask without a name, what is
// encrypted, what is logged and what pods may do.
func kubeAPIServer(in rendering.Input) (map[string]rendering.File, error) {
	k := kubernetes.Of(in.Cluster.Services)
	if k == nil {
		return nil, errors.New("the cluster has no kubernetes settings; add services/kubernetes.yaml")
	}
	if _, err := serviceAddress(in, dnsService); err != nil {
		return nil, err
	}
	encryption, err := encryptionConfig(in)
	if err != nil {
		return nil, err
	}
	audit, err := rendering.JSON(auditPolicy(k.AuditLevel()), 0o644)
	if err != nil {
		return nil, err
	}
	admission, err := rendering.JSON(admissionConfig(k.PodSecurityLevel()), 0o644)
	if err != nil {
		return nil, err
	}
	authentication, err := rendering.JSON(authenticationConfig(k.People()), 0o644)
	if err != nil {
		return nil, err
	}
	// Addresses, port and Services' network are in kube-apiserver.env.
	words := []string{
		"--allow-privileged=true", // for kube-system; elsewhere the level of pod security forbids it

		"--tls-cert-file=" + in.SecretPath("kube-apiserver-certificate"),
		"--tls-private-key-file=" + in.SecretPath("kube-apiserver-key"),
		"--tls-min-version=VersionTLS12",
		"--tls-cipher-suites=" + strings.Join(strongSuites, ","),
		"--client-ca-file=" + pkiFile("kubernetes-client.crt"),
		"--authentication-config=" + in.Dir + "/authentication.json",
		"--authorization-mode=Node,RBAC",

		"--requestheader-client-ca-file=" + pkiFile("front-proxy.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + in.SecretPath("front-proxy-client-certificate"),
		"--proxy-client-key-file=" + in.SecretPath("front-proxy-client-key"),

		"--service-account-issuer=" + k.ServiceAccountIssuer(),
		"--service-account-key-file=" + pkiFile("service-account.pub"),
		"--service-account-signing-key-file=" + in.SecretPath("service-account-key"),
		"--service-account-extend-token-expiration=false",

		"--etcd-servers=" + etcdSocket, // its own; with its own gone, it is not ready
		"--etcd-healthcheck-timeout=" + client.Slow(in, 2*time.Second).String(),
		"--etcd-readycheck-timeout=" + client.Slow(in, 2*time.Second).String(),
		"--encryption-provider-config=" + in.Dir + "/encryption.json",

		"--kubelet-certificate-authority=" + pkiFile("kubelet-serving.crt"),
		"--kubelet-client-certificate=" + in.SecretPath("kube-apiserver-kubelet-certificate"),
		"--kubelet-client-key=" + in.SecretPath("kube-apiserver-kubelet-key"),
		"--kubelet-preferred-address-types=InternalIP",

		"--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs,EventRateLimit",
		"--admission-control-config-file=" + in.Dir + "/admission.json",
		"--audit-policy-file=" + in.Dir + "/audit-policy.json",
		// Without it, stopping waits a whole request-timeout for those who watch, as kubelets of other nodes do.
		"--shutdown-send-retry-after=true",
		"--request-timeout=" + client.Slow(in, time.Minute).String(),
		"--profiling=false",
	}
	if k.AuditLevel() != kubernetes.AuditNone {
		words = append(words, "--audit-log-path="+auditLog,
			fmt.Sprintf("--audit-log-maxage=%d", auditDays), fmt.Sprintf("--audit-log-maxbackup=%d", auditFiles), fmt.Sprintf("--audit-log-maxsize=%d", auditSize))
	}
	flags, err := rendering.Arguments(words)
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{
		"arguments": flags, "encryption.json": encryption, "audit-policy.json": audit, "admission.json": admission, "authentication.json": authentication,
	}, nil
}

// authenticationConfig lets whoever has no name ask for the health and for nothing else, and people come with tokens of
// their issuer. Who they are begins with the prefix: what certificates alone give, no issuer gives.
func authenticationConfig(o *kubernetes.OIDC) map[string]any {
	var paths []any
	for _, p := range []string{"/livez", "/readyz", "/healthz"} {
		paths = append(paths, map[string]any{"path": p})
	}
	out := map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
		"anonymous": map[string]any{"enabled": true, "conditions": paths},
	}
	if o == nil {
		return out
	}
	issuer := map[string]any{"url": o.Issuer, "audiences": []string{o.ClientID}}
	if o.CertificateAuthority != "" {
		issuer["certificateAuthority"] = o.CertificateAuthority
	}
	mappings := map[string]any{"username": map[string]any{"claim": o.UsernameClaim, "prefix": o.Prefix}}
	if o.GroupsClaim != "" {
		mappings["groups"] = map[string]any{"claim": o.GroupsClaim, "prefix": o.Prefix}
	}
	// The API server takes an empty claim for a name. The prefix has no character that ends a text of CEL.
	named := map[string]any{"expression": "user.username != '" + o.Prefix + "'", "message": "the token has no name"}
	out["jwt"] = []any{map[string]any{"issuer": issuer, "claimMappings": mappings, "userValidationRules": []any{named}}}
	return out
}

// encryptionConfig has no provider "identity": etcd never held a Secret that was not encrypted, and one that is put
// there by another way is not read.
func encryptionConfig(in rendering.Input) (rendering.File, error) {
	secret, err := in.Secret("etcd-encryption-key")
	if err != nil {
		return rendering.File{}, fmt.Errorf("key of the Secrets in etcd: %w", err)
	}
	secret = bytes.TrimSpace(secret)
	if key, err := base64.StdEncoding.DecodeString(string(secret)); err != nil || len(key) != encryptionKey {
		return rendering.File{}, fmt.Errorf("key of the Secrets in etcd: the bundle entry etcd-encryption-key is not %d bytes in base64", encryptionKey)
	}
	return rendering.JSON(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
		"resources": []any{map[string]any{
			"resources": []string{"secrets"},
			"providers": []any{map[string]any{"secretbox": map[string]any{"keys": []any{map[string]any{"name": "bundle", "secret": string(secret)}}}}},
		}},
	}, 0o600)
}

// admissionConfig gives namespaces without labels of their own the cluster's level of pod security, and bounds events,
// by which any pod could fill etcd.
func admissionConfig(level string) map[string]any {
	return map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
		"plugins": []any{
			map[string]any{"name": "PodSecurity", "configuration": map[string]any{
				"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
				"defaults": map[string]any{
					"enforce": level, "enforce-version": "latest",
					"audit": "restricted", "audit-version": "latest", "warn": "restricted", "warn-version": "latest",
				},
				"exemptions": map[string]any{"namespaces": []string{"kube-system"}},
			}},
			map[string]any{"name": "EventRateLimit", "configuration": map[string]any{
				"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration",
				"limits": []any{
					map[string]any{"type": "Server", "qps": 500, "burst": 5000},
					map[string]any{"type": "Namespace", "qps": 50, "burst": 500},
				},
			}},
		},
	}
}

// auditPolicy leaves out what the cluster's own programs do all the time. The content of Secrets, ConfigMaps and tokens
// is never logged.
func auditPolicy(level string) map[string]any {
	names := map[string]string{kubernetes.AuditMetadata: "Metadata", kubernetes.AuditRequest: "Request", kubernetes.AuditNone: "None"}
	const core = ""
	quiet := func(rule map[string]any) map[string]any { rule["level"] = "None"; return rule }
	rules := []any{
		quiet(map[string]any{"nonResourceURLs": []string{"/livez*", "/readyz*", "/healthz*", "/version", "/openapi*", "/api", "/api/*", "/apis", "/apis/*"}}),
		quiet(map[string]any{"resources": []any{
			map[string]any{"group": core, "resources": []string{"events"}},
			map[string]any{"group": "events.k8s.io", "resources": []string{"events"}},
			map[string]any{"group": "coordination.k8s.io", "resources": []string{"leases"}},
		}}),
		quiet(map[string]any{
			"users": []string{"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "spore:cluster-dns"},
			"verbs": []string{"get", "list", "watch"},
		}),
		quiet(map[string]any{"userGroups": []string{"spore:calico-nodes", "spore:calico-plugins", "spore:calico-controllers"}, "verbs": []string{"get", "list", "watch"}}),
		quiet(map[string]any{"userGroups": []string{"system:nodes"}, "verbs": []string{"get", "list", "watch"}, "resources": []any{
			map[string]any{"group": core, "resources": []string{"nodes", "pods", "services", "endpoints", "namespaces"}},
			map[string]any{"group": "storage.k8s.io"}, map[string]any{"group": "node.k8s.io"},
		}}),
		quiet(map[string]any{"userGroups": []string{"system:nodes"}, "verbs": []string{"patch", "update"}, "resources": []any{
			map[string]any{"group": core, "resources": []string{"nodes/status", "pods/status"}},
		}}),
		map[string]any{"level": "Metadata", "resources": []any{
			map[string]any{"group": core, "resources": []string{"secrets", "configmaps", "serviceaccounts/token"}},
			map[string]any{"group": "authentication.k8s.io", "resources": []string{"tokenreviews"}},
		}},
		map[string]any{"level": names[level]},
	}
	if level == kubernetes.AuditNone {
		rules = rules[len(rules)-1:]
	}
	return map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
		"omitStages": []string{"RequestReceived"}, "omitManagedFields": true, "rules": rules,
	}
}
