package kubeapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// awaited is a client of a server that knows the node n from the nth request on, and 0 means never.
func awaited(t *testing.T, from int64) (*Client, *atomic.Int64) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/api/v1/nodes/n", r.URL.Path)
		if n := asked.Add(1); from == 0 || n < from {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","code":404,"message":"nodes \"n\" not found"}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"Node"}`))
	}))
	t.Cleanup(s.Close)
	return &Client{server: s.URL, http: s.Client(), time: time.Minute}, &asked
}

func TestAWaitForANodeEndsWhenItsKubeletHasRegisteredIt(t *testing.T) {
	c, asked := awaited(t, 2)
	var said []string
	require.NoError(t, c.AwaitNode(context.Background(), "n", 1, func(s string) { said = append(said, s) }))
	require.EqualValues(t, 2, asked.Load())
	require.Equal(t, []string{"waiting for node n of Kubernetes: its kubelet has not registered it yet"}, said)
}

func TestAWaitForRulesEndsWhenAMasterHasAppliedThem(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		require.Equal(t, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", r.URL.Path)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",
			"spec":{"resourceAttributes":{"verb":"create","group":"certificates.k8s.io","resource":"certificatesigningrequests"}}}`, string(body))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"status":{"allowed":%t}}`, asked.Add(1) > 1)
	}))
	t.Cleanup(s.Close)
	c := &Client{server: s.URL, http: s.Client(), time: time.Minute}
	var said []string
	require.NoError(t, c.AwaitAllowed(context.Background(), "create", "certificatesigningrequests.certificates.k8s.io", 1, func(s string) { said = append(said, s) }))
	require.EqualValues(t, 2, asked.Load())
	require.Equal(t, []string{"waiting for an API server that is ready and allows to create certificatesigningrequests.certificates.k8s.io: no master has applied the rules of this cluster yet"}, said)
}

func TestAWaitForANodeEndsWithItsContext(t *testing.T) {
	c, _ := awaited(t, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := c.AwaitNode(ctx, "n", 1, func(string) {})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for node n of Kubernetes")
}

func TestAWaitForTheAPIEndsWhenItIsReady(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/readyz", r.URL.Path)
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	c := &Client{server: s.URL, http: s.Client(), time: time.Minute}
	var said []string
	require.NoError(t, c.AwaitReady(context.Background(), 1, func(s string) { said = append(said, s) }))
	require.EqualValues(t, 2, asked.Load())
	require.Len(t, said, 1)
	require.Contains(t, said[0], "waiting for an API server that is ready: ")
}
