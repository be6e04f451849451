package kubeapi

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testClient speaks to a server that answers as handle does.
func testClient(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewTLSServer(handle)
	t.Cleanup(s.Close)
	key := testKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "c"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	c, err := NewClient(Credentials{
		Server:      s.URL,
		Authorities: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, 1)
	require.NoError(t, err)
	return c
}

func TestACollectionIsFollowedThroughPagesWatchesAndLoss(t *testing.T) {
	// What the server answers, one after the other.
	answers := []struct{ query, body string }{
		{"limit=500", `{"metadata":{"resourceVersion":"5","continue":"c1"},"items":[{"metadata":{"name":"a"}}]}`},
		{"continue=c1", `{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"b"}}]}`},
		{"resourceVersion=5", `{"type":"ADDED","object":{"metadata":{"name":"c","resourceVersion":"6"}}}` + "\n" + `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`},
		{"resourceVersion=9", `{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"10"}}}`},
		{"resourceVersion=10", `{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}`},
		{"limit=500", `{"metadata":{"resourceVersion":"20"},"items":[{"metadata":{"name":"d"}}]}`},
		{"resourceVersion=20", "410"},
		{"limit=500", `{"metadata":{"resourceVersion":"30"},"items":[]}`},
		{"resourceVersion=30", `{"type":"MODIFIED","object":{"metadata":{"name":"d","resourceVersion":"31"}}`}, // cut off
	}
	n := 0
	c := testClient(t, func(w http.ResponseWriter, r *http.Request) {
		require.Less(t, n, len(answers))
		a := answers[n]
		n++
		require.Contains(t, r.URL.RawQuery, a.query)
		if a.body == "410" {
			w.WriteHeader(http.StatusGone)
			a.body = `{"code":410,"reason":"Expired"}`
		}
		_, _ = io.WriteString(w, a.body) // the client says what it misses
	})
	var seen []string
	err := c.follow(context.Background(), "/things", func() error { seen = append(seen, "listed"); return nil }, func(deleted bool, o json.RawMessage) error {
		var m meta
		require.NoError(t, json.Unmarshal(o, &m))
		seen = append(seen, fmt.Sprintf("%s %t", m.Metadata.Name, deleted))
		return nil
	})
	require.ErrorContains(t, err, "watch /things: unexpected EOF")
	require.Equal(t, []string{"a false", "b false", "listed", "c false", "a true", "d false", "listed", "listed"}, seen)
	require.Equal(t, len(answers), n)
}

func TestAnErrorOfTheServerIsPassedOn(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		code             int
	}{
		{"a status", `{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}`, "the API server answers 403: no", 403},
		{"text", "[-]etcd failed\n", "the API server answers 500: [-]etcd failed", 500},
		{"nothing", "", "the API server answers 503", 503},
		{"long text", strings.Repeat("x", 1000), "the API server answers 500: " + strings.Repeat("x", 200), 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := testClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
				_, _ = io.WriteString(w, tt.body)
			})
			err := c.Ready(context.Background())
			require.EqualError(t, err, "GET /readyz: "+tt.want)
			require.True(t, isStatus(err, tt.code))
			require.False(t, isStatus(err, 404))
		})
	}
}

func TestApplyIsServerSideApply(t *testing.T) {
	var got *http.Request
	var body []byte
	c := testClient(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "{}")
	})
	require.NoError(t, c.Apply(context.Background(), namespace("kube-system", "privileged"), true))
	require.Equal(t, "PATCH", got.Method)
	require.Equal(t, "/api/v1/namespaces/kube-system?fieldManager=spore&force=true", got.URL.String())
	require.Equal(t, "application/apply-patch+yaml", got.Header.Get("Content-Type"))
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, string(body))
}

func TestClientsThatCannotBe(t *testing.T) {
	_, err := NewClient(Credentials{Authorities: []byte("x")}, 1)
	require.ErrorContains(t, err, "the file of its authorities has no certificate")
	c := testClient(t, func(http.ResponseWriter, *http.Request) {})
	require.ErrorContains(t, c.Apply(context.Background(), Object{"apiVersion": "v1", "kind": "Pod"}, true), "Pod of v1 is not in the table of resources")
	require.ErrorContains(t, c.Apply(context.Background(), Object{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "x"}}, true), `Service "x" has a wrong name or namespace`)
}
