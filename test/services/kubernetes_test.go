//go:build e2e

package services

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/kubernetes/kubeapi"
	"spore/test/client"
	"spore/test/faults"
)

func TestBootstrapIsAppliedTwiceWithoutAChange(t *testing.T) {
	p := newControlPlane(t)
	admin := p.admin()
	versions := func() object {
		out := object{}
		for _, path := range []string{
			"/api/v1/namespaces/kube-system", "/api/v1/namespaces/kube-public", "/api/v1/namespaces/kube-system/services/kube-dns",
			"/api/v1/namespaces/kube-system/configmaps/spore-node-taints",
			"/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-masters",
			"/apis/storage.k8s.io/v1/storageclasses/local",
			"/apis/crd.projectcalico.org/v1/ippools/default-ipv4-ippool", "/apis/crd.projectcalico.org/v1/felixconfigurations/default",
		} {
			out[path] = at(admin.must(http.StatusOK, "GET", path, nil), "metadata", "resourceVersion")
		}
		for _, path := range []string{
			"/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		} {
			items, _ := admin.must(http.StatusOK, "GET", path, nil)["items"].([]any)
			require.NotEmpty(t, items)
			for _, item := range items {
				out[path+"/"+at(item, "metadata", "name").(string)] = at(item, "metadata", "resourceVersion")
			}
		}
		return out
	}
	m := p.daemon(p.cluster.Nodes)
	// The conditions of the new kinds come a moment later.
	var first object
	require.Eventually(t, func() bool {
		former := first
		first = versions()
		return fmt.Sprint(former) == fmt.Sprint(first)
	}, 30*time.Second, time.Second)
	m.stop()
	m = p.daemon(p.cluster.Nodes)
	require.Equal(t, first, versions())
	require.Contains(t, m.lines(), "applied 0 of ", "to apply what is there costs the API server a hundred times more than to ask for it")

	t.Run("what has been taken away is there again when the API comes back", func(t *testing.T) {
		m := p.daemon(p.cluster.Nodes)
		binding := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/spore:kubelet-bootstrap"
		admin.must(http.StatusOK, "DELETE", binding, nil)
		p.StopOne("kube-apiserver")
		require.NoError(t, p.Start(context.Background(), "kube-apiserver"))
		m.await(t)
		admin.must(http.StatusOK, "GET", binding, nil)
		require.Contains(t, m.lines(), "waits for the API server to be ready: ")
	})
	t.Run("what a person has changed about storage stays", func(t *testing.T) {
		path := "/apis/storage.k8s.io/v1/storageclasses/local"
		admin.must(http.StatusOK, "PATCH", path, object{"metadata": object{"annotations": object{"storageclass.kubernetes.io/is-default-class": "false"}}})
		m := p.daemon(p.cluster.Nodes)
		require.Equal(t, "false", at(admin.must(http.StatusOK, "GET", path, nil), "metadata", "annotations", "storageclass.kubernetes.io/is-default-class"))
		require.Contains(t, m.lines(), "StorageClass local has been changed by a person and stays as it is")
	})
}

func TestCertificatesAreForTheNodesOfClusterYAML(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	worker := p.kubelet("worker-01")
	bootstrap := p.user("worker-01", "kubelet", "kubelet-bootstrap")
	admin := p.admin()

	t.Run("the node gets a serving certificate for its own names", func(t *testing.T) {
		worker.ask(request{name: "serving", cn: "system:node:worker-01", org: "system:nodes", dns: []string{"worker-01", "w1"}, ips: []string{"10.77.0.31"}, serving: true})
		kind, message := worker.decision("serving")
		require.Equal(t, "Approved", kind, message)
		block, _ := pem.Decode(worker.certificate("serving"))
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		roots := x509.NewCertPool()
		authority, err := p.cluster.Public("kubelet-serving.crt")
		require.NoError(t, err)
		require.True(t, roots.AppendCertsFromPEM(authority))
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "10.77.0.31", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		require.NoError(t, err)
	})
	t.Run("the node renews its certificate by itself", func(t *testing.T) {
		worker.ask(request{name: "second", cn: "system:node:worker-01", org: "system:nodes"})
		kind, message := worker.decision("second")
		require.Equal(t, "Approved", kind, message)
	})
	for _, tt := range []struct {
		name, want string
		user       *kubeUser
		request    request
	}{
		{"another name", `asks for the common name "system:node:worker-02"`, bootstrap, request{cn: "system:node:worker-02", org: "system:nodes"}},
		{"the name of a master", `asks for the common name "system:node:master-01"`, bootstrap, request{cn: "system:node:master-01", org: "system:nodes"}},
		{"an unknown node", `asks for the common name "system:node:worker-99"`, bootstrap, request{cn: "system:node:worker-99", org: "system:nodes"}},
		{"a name of another node", `the name "master-01" is not one of node worker-01`, worker, request{cn: "system:node:worker-01", org: "system:nodes", dns: []string{"master-01"}, serving: true}},
		{"an address of another node", "the address 10.77.0.21 is not one of node worker-01", worker, request{cn: "system:node:worker-01", org: "system:nodes", ips: []string{"10.77.0.21"}, serving: true}},
		{"serving by the bundle's certificate", "not by the certificate of its bundle", bootstrap, request{cn: "system:node:worker-01", org: "system:nodes", dns: []string{"worker-01"}, serving: true}},
		{"a wrong organization", "the subject is", bootstrap, request{cn: "system:node:worker-01", org: "spore:nodes"}},
		{"asked for by an administrator", "is not the identity of a node", admin, request{cn: "system:node:worker-01", org: "system:nodes"}},
		{"asked for by a machine that is not a node of the cluster any more", `cluster.yaml has no node "worker-99"`, p.stranger("spore:kubelet-bootstrap:worker-99"), request{cn: "system:node:worker-99", org: "system:nodes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.request.name = strings.ReplaceAll(strings.ToLower(tt.name), " ", "-")
			tt.request.name = strings.NewReplacer("'", "").Replace(tt.request.name)
			tt.user.ask(tt.request)
			kind, message := admin.decision(tt.request.name)
			require.Equal(t, "Denied", kind)
			require.Contains(t, message, tt.want)
		})
	}
	t.Run("a machine without a certificate cannot even ask", func(t *testing.T) {
		code, _ := p.userWith(nil, nil).do("POST", requests, object{})
		require.Equal(t, http.StatusUnauthorized, code)
	})
	t.Run("a node cannot even ask for another's name", func(t *testing.T) {
		worker.refused(request{name: "other", cn: "system:node:master-01", org: "system:nodes"})
	})
	t.Run("nobody but the daemon approves", func(t *testing.T) {
		bootstrap.ask(request{name: "self-made", cn: "system:node:master-01", org: "system:nodes"})
		for _, u := range []*kubeUser{worker, bootstrap, p.user("worker-01", "calico-node", "calico-node"), p.user("worker-01", "kube-proxy", "kube-proxy")} {
			u.must(http.StatusForbidden, "PUT", requests+"/self-made/approval", object{
				"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": object{"name": "self-made"},
			})
		}
	})
}

// stranger has a certificate of the cluster's authority that no bundle holds.
func (p *controlPlane) stranger(cn string) *kubeUser {
	p.t.Helper()
	certificate, key, err := p.cluster.ClientCertificate(cn, "system:bootstrappers")
	require.NoError(p.t, err)
	return p.userWith(certificate, key)
}

func TestAWorkersCredentialsAreForItself(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	admin := p.admin()
	worker := p.kubelet("worker-01")
	worker.register("worker-01", object{"key": "only", "value": "batch", "effect": "NoExecute"})
	p.kubelet("worker-02").register("worker-02")

	secret := func(name string) {
		admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/secrets", object{
			"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": name}, "stringData": object{"password": "of " + name},
		})
	}
	// The account of pods comes a moment after its namespace.
	require.Eventually(t, func() bool {
		code, _ := admin.do("GET", "/api/v1/namespaces/default/serviceaccounts/default", nil)
		return code == http.StatusOK
	}, 30*time.Second, 100*time.Millisecond)
	pod := func(name, node, secret string) {
		admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/pods", object{
			"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name},
			"spec": object{
				"nodeName": node, "containers": []any{object{"name": "c", "image": "spore.local/hello:1"}},
				"volumes": []any{object{"name": "v", "secret": object{"secretName": secret}}},
			},
		})
	}
	secret("first")
	secret("second")
	secret("nobodys")
	pod("on-first", "worker-01", "first")
	pod("on-second", "worker-02", "second")
	// The graph of the node authorizer follows by a watch.
	require.Eventually(t, func() bool {
		code, _ := worker.do("GET", "/api/v1/namespaces/default/secrets/first", nil)
		return code == http.StatusOK
	}, 20*time.Second, 100*time.Millisecond, "the node's own pod needs its Secret")

	for _, tt := range []struct {
		name, method, path string
		body               any
	}{
		{"the Secret of another node's pod", "GET", "/api/v1/namespaces/default/secrets/second", nil},
		{"a Secret of no pod", "GET", "/api/v1/namespaces/default/secrets/nobodys", nil},
		{"all Secrets", "GET", "/api/v1/secrets", nil},
		{"the Secrets of the system", "GET", "/api/v1/namespaces/kube-system/secrets", nil},
		{"another node's object", "PATCH", "/api/v1/nodes/worker-02", object{"metadata": object{"labels": object{"a": "b"}}}},
		{"another node's status", "PATCH", "/api/v1/nodes/worker-02/status", object{"status": object{"phase": "Running"}}},
		{"the object of a master", "POST", "/api/v1/nodes", object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "master-01"}}},
		{"the role of a master", "PATCH", "/api/v1/nodes/worker-01", object{"metadata": object{"labels": object{"node-role.kubernetes.io/control-plane": ""}}}},
		{"its own taints", "PATCH", "/api/v1/nodes/worker-01", object{"spec": object{"taints": []any{}}}},
		{"the record of its taints", "PATCH", "/api/v1/namespaces/kube-system/configmaps/spore-node-taints", object{"data": object{"worker-01": "[]"}}},
		{"another node's pod", "DELETE", "/api/v1/namespaces/default/pods/on-second", nil},
		{"a pod of the API", "POST", "/api/v1/namespaces/default/pods", object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "x"}, "spec": object{"containers": []any{object{"name": "c", "image": "x"}}}}},
		{"a role", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": "x"}, "roleRef": object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		}},
		{"the token of a system account", "POST", "/api/v1/namespaces/kube-system/serviceaccounts/generic-garbage-collector/token", object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}},
	} {
		for who, u := range map[string]*kubeUser{
			"kubelet": worker, "its bundle's certificate": p.user("worker-01", "kubelet", "kubelet-bootstrap"),
			"calico-node": p.user("worker-01", "calico-node", "calico-node"), "calico-cni": p.user("worker-01", "calico-node", "calico-cni"), "kube-proxy": p.user("worker-01", "kube-proxy", "kube-proxy"),
		} {
			if who == "calico-node" && strings.HasSuffix(tt.path, "/status") {
				continue // see below
			}
			t.Run(tt.name+" by "+who, func(t *testing.T) {
				u.must(http.StatusForbidden, tt.method, tt.path, tt.body)
			})
		}
	}
	t.Run("calico writes of its own node alone", func(t *testing.T) {
		felix, plugin := p.user("worker-01", "calico-node", "calico-node"), p.user("worker-01", "calico-node", "calico-cni")
		note := object{"metadata": object{"annotations": object{"projectcalico.org/IPv4VXLANTunnelAddr": "10.78.0.1"}}}
		// A new policy is at work a moment later.
		require.Eventually(t, func() bool {
			code, o := felix.do("PATCH", "/api/v1/nodes/worker-02/status", note)
			return code == http.StatusUnprocessableEntity && strings.Contains(fmt.Sprint(o["message"]), "write of this node")
		}, 20*time.Second, 100*time.Millisecond)
		felix.must(http.StatusOK, "PATCH", "/api/v1/nodes/worker-01/status", note)
		plugin.must(http.StatusUnprocessableEntity, "PATCH", "/api/v1/namespaces/default/pods/on-second/status", note)
		plugin.must(http.StatusOK, "PATCH", "/api/v1/namespaces/default/pods/on-first/status", note)
	})
	t.Run("a kubelet sees the metrics of itself alone", func(t *testing.T) {
		// As a kubelet asks the API for those who ask it (k8s.io/kubernetes/pkg/kubelet/server/auth.go).
		allowed := func(u *kubeUser, verb, node, subresource string) bool {
			o := u.must(http.StatusCreated, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", object{
				"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
				"spec": object{"resourceAttributes": object{
					"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": node,
				}},
			})
			return o["status"].(object)["allowed"].(bool)
		}
		require.Eventually(t, func() bool { return allowed(worker, "get", "worker-01", "metrics") }, 20*time.Second,
			100*time.Millisecond, "the daemon gives the right when the node comes")
		require.False(t, allowed(worker, "get", "worker-02", "metrics"))
		require.False(t, allowed(worker, "get", "", "metrics"))
		for _, subresource := range []string{"stats", "proxy", "log", "pods", "configz"} {
			require.False(t, allowed(worker, "get", "worker-01", subresource), subresource)
		}
		require.False(t, allowed(worker, "create", "worker-01", "metrics"))
		require.False(t, allowed(p.user("worker-01", "calico-node", "calico-node"), "get", "worker-01", "metrics"))
	})
	t.Run("nobody is somebody else", func(t *testing.T) {
		req, err := http.NewRequest("GET", p.Server+"/api/v1/secrets", nil)
		require.NoError(t, err)
		req.Header.Set("Impersonate-User", "spore:agent:master-01")
		req.Header.Set("Impersonate-Group", "system:masters")
		res, err := worker.http.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusForbidden, res.StatusCode)
	})
	t.Run("etcd takes no certificate of a worker", func(t *testing.T) {
		for _, leaf := range []struct{ program, name string }{{"kubelet", "kubelet-bootstrap"}, {"calico-node", "calico-node"}} {
			c, err := p.Credentials("worker-01", leaf.program, leaf.name)
			require.NoError(t, err)
			pair, err := tls.X509KeyPair(c.Certificate, c.Key)
			require.NoError(t, err)
			require.ErrorContains(t, p.handshake(&pair), "remote error: tls: unknown certificate authority", "%s", leaf.name)
		}
		c, err := p.cluster.Secret("master-01", "etcd-members", "etcd-agent-certificate")
		require.NoError(t, err)
		key, err := p.cluster.Secret("master-01", "etcd-members", "etcd-agent-key")
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(c, key)
		require.NoError(t, err)
		require.NoError(t, p.handshake(&pair), "and it takes that of a master's agent")
	})
}

// handshake reaches etcd with a certificate.
func (p *controlPlane) handshake(pair *tls.Certificate) error {
	authority, err := p.cluster.Public("etcd.crt")
	require.NoError(p.t, err)
	roots := x509.NewCertPool()
	require.True(p.t, roots.AppendCertsFromPEM(authority))
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs:              roots, // The certificate is shown although etcd names the authorities that it takes.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil },
	}}}
	for {
		res, err := c.Get(p.Etcd + "/version")
		if err == nil {
			res.Body.Close()
			return nil
		}
		// The request was on its way when the server refused, and with the connection the reason is lost.
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return err
		}
	}
}

func TestNodesAreAsClusterYAMLSays(t *testing.T) {
	p := newControlPlane(t)
	m := p.daemon(p.cluster.Nodes)
	admin := p.admin()
	const path = "/api/v1/nodes/worker-01"
	get := func(fields ...string) any { return at(admin.must(http.StatusOK, "GET", path, nil), fields...) }

	p.kubelet("worker-01").register("worker-01", object{"key": "only", "value": "batch", "effect": "NoExecute"})
	require.Eventually(t, func() bool {
		labels, _ := get("metadata", "labels").(object)
		_, worker := labels["node-role.kubernetes.io/worker"]
		_, gpu := labels["node-role.kubernetes.io/gpu"]
		return worker && gpu && labels["example.com/zone"] == "b" && labels["kubernetes.io/hostname"] == "worker-01"
	}, 20*time.Second, 50*time.Millisecond)
	require.Contains(t, fmt.Sprint(get("spec", "taints")), "key:only value:batch")

	t.Run("what a person adds stays", func(t *testing.T) {
		admin.must(http.StatusOK, "PATCH", path, object{
			"metadata": object{"labels": object{"mine": "yes"}}, "spec": object{"taints": []any{object{"key": "mine", "effect": "NoSchedule"}}},
		})
		require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(get("spec", "taints")), "key:only") }, 20*time.Second, 50*time.Millisecond, "what is in cluster.yaml comes back")
		require.Contains(t, fmt.Sprint(get("spec", "taints")), "key:mine")
	})
	t.Run("what leaves cluster.yaml goes", func(t *testing.T) {
		m.stop()
		var changed []facts.Node
		for _, n := range p.cluster.Nodes {
			if n.Name == "worker-01" {
				n.Labels, n.Taints = map[string]string{"example.com/zone": "c"}, nil
			}
			changed = append(changed, n)
		}
		p.daemon(changed)
		require.Eventually(t, func() bool {
			labels, _ := get("metadata", "labels").(object)
			_, gpu := labels["node-role.kubernetes.io/gpu"]
			return !gpu && labels["example.com/zone"] == "c" && labels["mine"] == "yes" && !strings.Contains(fmt.Sprint(get("spec", "taints")), "key:only")
		}, 20*time.Second, 50*time.Millisecond)
		require.Contains(t, fmt.Sprint(get("spec", "taints")), "key:mine")
	})
	t.Run("a drain waits for a disruption budget, and then the node is empty", func(t *testing.T) { p.drains(t, admin, "worker-01") })
	t.Run("the DNS Service leads to the masters", func(t *testing.T) {
		require.Equal(t, "10.79.0.10", at(admin.must(http.StatusOK, "GET", "/api/v1/namespaces/kube-system/services/kube-dns", nil), "spec", "clusterIP"))
		endpoints, _ := admin.must(http.StatusOK, "GET", "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-masters", nil)["endpoints"].([]any)
		require.Len(t, endpoints, 1)
		require.Equal(t, []any{"10.77.0.21"}, at(endpoints[0], "addresses"))
		require.Equal(t, true, at(endpoints[0], "conditions", "ready"))
	})
}

// drains empties a node, whose kubelet ends pods as soon as it is told, and opens it again.
func (p *controlPlane) drains(t *testing.T, admin *kubeUser, node string) {
	const pods, budgets = "/api/v1/namespaces/plant/pods", "/apis/policy/v1/namespaces/plant/poddisruptionbudgets"
	admin.must(http.StatusCreated, "POST", "/api/v1/namespaces", object{"metadata": object{"name": "plant"}})
	require.Eventually(t, func() bool {
		code, _ := admin.do("GET", "/api/v1/namespaces/plant/serviceaccounts/default", nil)
		return code == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
	for _, name := range []string{"press", "oven"} {
		admin.must(http.StatusCreated, "POST", pods, object{
			"metadata": object{"name": name, "labels": object{"app": name}},
			"spec": object{
				"nodeName": node, "containers": []any{object{"name": "main", "image": "example.com/main"}},
				"tolerations": []any{object{"operator": "Exists"}},
			},
		})
		admin.must(http.StatusOK, "PATCH", pods+"/"+name+"/status", object{"status": object{
			"phase": "Running", "conditions": []any{object{"type": "Ready", "status": "True"}},
		}})
	}
	admin.must(http.StatusCreated, "POST", budgets, object{
		"metadata": object{"name": "press"}, "spec": object{"minAvailable": 1, "selector": object{"matchLabels": object{"app": "press"}}},
	})
	require.Eventually(t, func() bool {
		return fmt.Sprint(at(admin.must(http.StatusOK, "GET", budgets+"/press", nil), "status", "currentHealthy")) == "1"
	}, time.Minute, 100*time.Millisecond)

	client, err := p.Client("master-01", "kubernetes-bootstrap", "kubernetes-agent")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err = client.Drain(ctx, node, kubeapi.DrainOptions{})
	require.ErrorContains(t, err, "plant/press (nothing makes it again)")
	unschedulable := func() any {
		return at(admin.must(http.StatusOK, "GET", "/api/v1/nodes/"+node, nil), "spec", "unschedulable")
	}
	require.Nil(t, unschedulable(), "nothing was changed")

	var ending sync.WaitGroup
	ending.Go(func() { // as a kubelet does
		for ctx.Err() == nil {
			for _, name := range []string{"press", "oven"} {
				if code, pod := admin.do("GET", pods+"/"+name, nil); code == http.StatusOK && at(pod, "metadata", "deletionTimestamp") != nil {
					admin.do("DELETE", pods+"/"+name, object{"gracePeriodSeconds": 0})
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	// What carries it out is killed while a disruption budget holds a pod.
	cut, kill := context.WithCancel(ctx)
	_, err = client.Drain(cut, node, kubeapi.DrainOptions{Lose: true, Every: 100 * time.Millisecond, Say: func(text string) {
		if strings.Contains(text, "plant/press (its disruption budget)") {
			kill()
		}
	}})
	kill()
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, true, unschedulable(), "it gets no new pods")
	began := time.Now()
	held := make(chan struct{})
	var once sync.Once
	go func() {
		<-held
		admin.do("DELETE", budgets+"/press", nil)
	}()
	// The same order again.
	n, err := client.Drain(ctx, node, kubeapi.DrainOptions{Lose: true, Every: 100 * time.Millisecond, Say: func(text string) {
		if strings.Contains(text, "plant/press (its disruption budget)") {
			once.Do(func() { close(held) })
		}
	}})
	require.NoError(t, err)
	require.Contains(t, []int{1, 2}, n, "those that the first had not evicted")
	faults.Took(t, time.Since(began))
	cancel()
	ending.Wait()
	select {
	case <-held:
	default:
		require.Fail(t, "the disruption budget held nothing up")
	}
	require.Equal(t, true, unschedulable())
	changed, err := client.Cordon(t.Context(), node, false)
	require.NoError(t, err)
	require.True(t, changed)
	require.Nil(t, unschedulable())
}

func TestWhatTheAPIServerLetsPass(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	admin, nobody := p.admin(), p.userWith(nil, nil)
	for path, code := range map[string]int{"/livez": 200, "/readyz": 200, "/healthz": 200, "/version": 401, "/api": 401, "/api/v1/namespaces": 401, "/metrics": 401} {
		nobody.must(code, "GET", path, nil)
	}
	pod := func(namespace string) (int, object) {
		return admin.do("POST", "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", object{
			"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "p"},
			"spec": object{"automountServiceAccountToken": false, "containers": []any{object{"name": "c", "image": "x", "securityContext": object{"privileged": true}}}},
		})
	}
	require.Eventually(t, func() bool {
		for _, ns := range []string{"default", "kube-system"} {
			if code, _ := admin.do("GET", "/api/v1/namespaces/"+ns+"/serviceaccounts/default", nil); code != http.StatusOK {
				return false
			}
		}
		return true
	}, 30*time.Second, 100*time.Millisecond)
	code, o := pod("default")
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, o["message"], `violates PodSecurity "baseline:latest": privileged`)
	code, o = pod("kube-system")
	require.Equal(t, http.StatusCreated, code, o["message"])

	code, o = admin.do("POST", "/api/v1/namespaces/default/services", object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s"}, "spec": object{"externalIPs": []string{"192.0.2.1"}, "ports": []any{object{"port": 80}}},
	})
	require.Equal(t, http.StatusForbidden, code, "%v", o["message"])
}

func TestSecretsAreNotReadableInTheFilesOfEtcd(t *testing.T) {
	const hidden, open = "a-password-that-nobody-may-find", "a-setting-that-anybody-may-find"
	p := newControlPlane(t)
	admin := p.admin()
	admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/secrets", object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "s"}, "stringData": object{"password": hidden},
	})
	admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/configmaps", object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "c"}, "data": object{"setting": open},
	})
	p.Stop()
	in := func(dir, text string) (found bool) {
		require.NoError(t, filepath.WalkDir(filepath.Join(p.Dir, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			found = found || bytes.Contains(data, []byte(text))
			return err
		}))
		return found
	}
	require.True(t, in("etcd", open), "the search finds what is not encrypted")
	require.False(t, in("etcd", hidden))
	require.False(t, in("etcd", base64.StdEncoding.EncodeToString([]byte(hidden))))
	require.True(t, in("log", `"resource":"secrets","namespace":"default","name":"s"`), "the audit log says who made it")
	require.False(t, in("log", hidden))
	require.False(t, in("log", base64.StdEncoding.EncodeToString([]byte(hidden))))

	require.NoError(t, p.Start(context.Background(), everyProgram...))
	data := at(admin.must(http.StatusOK, "GET", "/api/v1/namespaces/default/secrets/s", nil), "data", "password")
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte(hidden)), data, "and the API reads it after a restart")
}

func TestPodsFindServicesByName(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	require.NoError(t, p.Start(context.Background(), "cluster-dns"))
	admin := p.admin()
	admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/services", object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "web"},
		"spec": object{"clusterIP": "10.79.0.77", "ports": []any{object{"name": "http", "port": 80}}},
	})
	require.Eventually(t, func() bool {
		a, err := client.Ask("udp", p.DNS, "web.default.svc.cluster.local", "A")
		return err == nil && a.Code == "NOERROR"
	}, 30*time.Second, 100*time.Millisecond, "CoreDNS does not know the Service")
	for _, tt := range []struct {
		name, kind string
		want       client.Answer
	}{
		{"web.default.svc.cluster.local", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.79.0.77"}}},
		{"kubernetes.default.svc.cluster.local", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.79.0.1"}}},
		{"kube-dns.kube-system.svc.cluster.local", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.79.0.10"}}},
		{"77.0.79.10.in-addr.arpa", "PTR", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"PTR web.default.svc.cluster.local."}}},
		{"nobody.default.svc.cluster.local", "A", client.Answer{Code: "NXDOMAIN", Authoritative: true}},
	} {
		for _, network := range []string{"udp", "tcp"} {
			got, err := client.Ask(network, p.DNS, tt.name, tt.kind)
			require.NoError(t, err)
			require.Equal(t, tt.want, got, "%s %s", network, tt.name)
		}
	}
	t.Run("it reads Services and no Secrets", func(t *testing.T) {
		p.user("master-01", "cluster-dns", "cluster-dns").must(http.StatusForbidden, "GET", "/api/v1/secrets", nil)
	})
}

func TestStoppingIsQuick(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	begin := time.Now()
	p.StopOne("kube-apiserver")
	require.Less(t, time.Since(begin), 8*time.Second, "while others watch")
	begin = time.Now()
	p.Stop()
	require.Less(t, time.Since(begin), 8*time.Second)
}
