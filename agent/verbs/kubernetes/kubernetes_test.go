package kubernetes

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/services/kubernetes/kubeapi"
	"spore/test/testca"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

func TestTheAnswerComesInPartsThatFit(t *testing.T) {
	var nodes []string
	for i := range 1201 {
		nodes = append(nodes, fmt.Sprintf(`{"metadata":{"name":"n-%d"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, i))
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := `{"items":[]}`
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			body = `{"items":[` + strings.Join(nodes, ",") + `]}`
		}
		if r.Header.Get("Impersonate-User") != "spore:look:master-1" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	ca, err := testca.New("people")
	require.NoError(t, err)
	certificate, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "c"}})
	require.NoError(t, err)
	c, err := kubeapi.NewClient(kubeapi.Credentials{
		Server: s.URL, Certificate: certificate, Key: key,
		Authorities: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}, 1)
	require.NoError(t, err)
	m := node.New("test", paths.Root(t.TempDir()))
	n := &facts.Node{Name: "master-1", Roles: []string{"control-plane"}}
	events, done, err := verbstest.Do(t, m, &facts.Cluster{}, n, func(ctx context.Context, r *verbs.Run) (string, error) {
		return status(ctx, r, c)
	}, nodeapi.Order{})
	require.NoError(t, err)
	require.Equal(t, "1201 of 1201 nodes are ready; 0 workloads lack pods, 0 pods are not well", done)
	require.Len(t, events, 3)
	all := 0
	for _, e := range events {
		var part machine.Kubernetes
		require.NoError(t, json.Unmarshal(e.Result, &part))
		all += len(part.Nodes)
	}
	require.Equal(t, 1201, all)
}

func TestAMasterAloneAnswers(t *testing.T) {
	m := node.New("test", paths.Root(t.TempDir()))
	c := &facts.Cluster{Members: map[string][]string{"control-plane": {"master-1"}}}
	_, _, err := verbstest.Do(t, m, c, &facts.Node{Name: "worker-1", Roles: []string{"worker"}}, Status, nodeapi.Order{})
	require.EqualError(t, err, "worker-1 is no master (control-plane); masters are master-1")
	_, _, err = verbstest.Do(t, m, c, &facts.Node{Name: "master-1", Roles: []string{"control-plane"}}, Status, nodeapi.Order{})
	require.ErrorContains(t, err, "the certificate of this master: ")
}
