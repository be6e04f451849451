//go:build e2e

package services

import (
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki"
	"spore/services/kubernetes"
)

// What spore kubeconfig --group gives, with the API server itself: a namespace that comes later has its bindings.
func TestPeopleHaveOneRightInOneNamespace(t *testing.T) {
	p := newControlPlane(t)
	admin := p.admin()
	p.daemon(p.cluster.Nodes)
	person := func(right, namespace string) *kubeUser {
		made, err := p.cluster.Tree.Member(&p.cluster.Shared, "anna", kubernetes.PersonGroup(right, namespace), time.Hour,
			pki.Options{Now: time.Now(), Random: rand.Reader})
		require.NoError(t, err)
		return p.userWith([]byte(made.Certificate), []byte(made.Key))
	}
	for _, name := range []string{"shop", "bank"} {
		admin.must(http.StatusCreated, "POST", "/api/v1/namespaces", object{
			"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name},
		})
	}
	in := func(namespace string) string { return "/api/v1/namespaces/" + namespace + "/configmaps" }
	note := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"generateName": "note-"}}
	editor := person("edit", "shop")
	require.Eventually(t, func() bool {
		code, _ := editor.do("POST", in("shop"), note)
		return code == http.StatusCreated
	}, time.Minute, 100*time.Millisecond, "the namespace gets its bindings a moment after it came")
	editor.must(http.StatusForbidden, "POST", in("bank"), note)
	editor.must(http.StatusForbidden, "GET", in("default"), nil)
	editor.must(http.StatusForbidden, "GET", "/api/v1/namespaces", nil)
	editor.must(http.StatusForbidden, "GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", nil)

	reader := person("view", "bank")
	require.Eventually(t, func() bool {
		code, _ := reader.do("GET", in("bank"), nil)
		return code == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
	reader.must(http.StatusForbidden, "POST", in("bank"), note)
	reader.must(http.StatusForbidden, "GET", "/api/v1/namespaces/bank/secrets", nil)
	reader.must(http.StatusForbidden, "GET", in("shop"), nil)

	all := person("view", "")
	all.must(http.StatusOK, "GET", "/api/v1/configmaps", nil)
	all.must(http.StatusForbidden, "POST", in("shop"), note)
	all.must(http.StatusForbidden, "GET", "/api/v1/secrets", nil)
	owner := person("admin", "shop")
	owner.must(http.StatusOK, "GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/spore:edit", nil)
	owner.must(http.StatusForbidden, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", nil)
	stranger := person("admin", "nowhere")
	stranger.must(http.StatusForbidden, "GET", in("shop"), nil)

	// What somebody has taken away is there again when the namespace changes.
	binding := "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/spore:edit"
	admin.must(http.StatusOK, "DELETE", binding, nil)
	admin.must(http.StatusOK, "PATCH", "/api/v1/namespaces/shop", object{"metadata": object{"labels": object{"team": "a"}}})
	require.Eventually(t, func() bool {
		code, _ := admin.do("GET", binding, nil)
		return code == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
	admin.must(http.StatusOK, "DELETE", "/api/v1/namespaces/shop", nil)
}
