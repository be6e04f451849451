//go:build e2e

package services

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kindsFile is the table of kinds that `spore validate` holds manifests to.
const kindsFile = "../../cluster/manifests/kinds.txt"

var writeKinds = flag.Bool("write-kinds", false, "write "+kindsFile+" anew, after another release of Kubernetes or Calico was pinned")

func TestTheTableOfKindsIsThatOfTheAPIServer(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	// The server describes a kind that it was given a moment later.
	admin, served, former := p.admin(), "", "-"
	for served != former {
		time.Sleep(2 * time.Second)
		served, former = strings.Join(admin.kinds(), "\n")+"\n", served
	}
	if *writeKinds {
		require.NoError(t, os.WriteFile(kindsFile, []byte(served), 0o644))
	}
	committed, err := os.ReadFile(kindsFile)
	require.NoError(t, err)
	require.Equal(t, string(committed), served, "write it anew: go test -tags e2e ./test/services -run TestTheTableOfKinds -write-kinds")
}

// kinds are the lines of the table: apiVersion, kind, namespaced or cluster, and whether objects of it are kept or only
// asked.
func (u *kubeUser) kinds() []string {
	u.t.Helper()
	type key struct{ version, kind string }
	rows := map[key]string{}
	read := func(path, version string) {
		list, _ := u.must(http.StatusOK, "GET", path, nil)["resources"].([]any)
		for _, r := range list {
			name, kind := at(r, "name").(string), at(r, "kind").(string)
			if strings.Contains(name, "/") { // a subresource
				continue
			}
			scope, use := "cluster", "asked"
			if at(r, "namespaced") == true {
				scope = "namespaced"
			}
			if verbs, _ := at(r, "verbs").([]any); slices.Contains(verbs, any("patch")) && slices.Contains(verbs, any("list")) {
				use = "kept"
			}
			rows[key{version, kind}] = fmt.Sprintf("%s %s %s %s", version, kind, scope, use)
		}
	}
	read("/api/v1", "v1")
	groups, _ := u.must(http.StatusOK, "GET", "/apis", nil)["groups"].([]any)
	for _, g := range groups {
		versions, _ := at(g, "versions").([]any)
		for _, v := range versions {
			version := at(v, "groupVersion").(string)
			read("/apis/"+version, version)
		}
	}
	var out []string
	for _, row := range rows {
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(a, b) })
	return out
}
