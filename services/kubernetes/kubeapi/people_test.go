package kubeapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/manifests"
)

func TestEachNamespaceHasGroupsOfItsOwn(t *testing.T) {
	var got []string
	for _, o := range namespaceBindings("shop") {
		path, err := pathOf(o)
		require.NoError(t, err)
		subject := o["subjects"].([]any)[0].(map[string]any)
		role := o["roleRef"].(map[string]any)["name"]
		got = append(got, fmt.Sprint(path, " ", role, " ", subject["kind"], " ", subject["name"]))
		name := o["metadata"].(map[string]any)["name"].(string)
		require.NotEmpty(t, manifests.Reserved(rbac, "RoleBinding", "shop", name), "nobody's folder has it")
	}
	const bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/"
	require.Equal(t, []string{
		bindings + "spore:view view Group spore:view:shop", bindings + "spore:edit edit Group spore:edit:shop",
		bindings + "spore:admin admin Group spore:admin:shop",
	}, got)
	for _, a := range peopleBindings() {
		require.Equal(t, "ClusterRoleBinding", a.object["kind"])
		require.NotContains(t, a.object["subjects"].([]any)[0].(map[string]any)["name"], "shop")
	}
}

func TestANamespaceGetsItsBindingsWhenItComes(t *testing.T) {
	var applied []string
	there := map[string]string{}
	watched := 0
	client := testClient(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/namespaces/gone/"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"code":403,"reason":"Forbidden","message":"it is being terminated"}`)
		case r.Method == http.MethodPatch:
			data, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			there[r.URL.Path] = string(data)
			applied = append(applied, strings.TrimPrefix(r.URL.Path, "/apis/rbac.authorization.k8s.io/v1/namespaces/"))
			_, _ = w.Write(data)
		case strings.Contains(r.URL.Path, "rolebindings"):
			if there[r.URL.Path] == "" {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"code":404,"reason":"NotFound"}`)
				return
			}
			_, _ = io.WriteString(w, there[r.URL.Path])
		case r.URL.Query().Get("watch") == "":
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"5"},"items":[
				{"metadata":{"name":"default"}},{"metadata":{"name":"gone"}},
				{"metadata":{"name":"old"},"status":{"phase":"Terminating"}}]}`)
		case watched == 0:
			watched++
			for _, event := range []string{"ADDED", "MODIFIED", "DELETED"} {
				_, _ = fmt.Fprintf(w, `{"type":%q,"object":{"metadata":{"name":"shop","resourceVersion":"6"}}}`+"\n", event)
			}
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	var said []string
	b := &bootstrap{Options: Options{Client: client, Say: func(s string) { said = append(said, s) }}}
	require.Error(t, b.followNamespaces(context.Background()), "the server is lost at the end")
	require.Equal(t, []string{
		"default/rolebindings/spore:view", "default/rolebindings/spore:edit", "default/rolebindings/spore:admin",
		"shop/rolebindings/spore:view", "shop/rolebindings/spore:edit", "shop/rolebindings/spore:admin",
	}, applied, "once each")
	require.Len(t, said, 3)
	require.Contains(t, said[0], "it is being terminated")
}
