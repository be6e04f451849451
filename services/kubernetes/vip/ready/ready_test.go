package ready

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/kubernetes/vip"
)

func authorities(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestAServerIsReadyWhenItSaysSo(t *testing.T) {
	code := http.StatusOK
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/readyz", r.URL.Path)
		w.WriteHeader(code)
	}))
	defer s.Close()
	is, err := Server(s.URL+"/readyz", authorities(s), "example.com")
	require.NoError(t, err)
	require.NoError(t, is(context.Background()))
	code = http.StatusInternalServerError
	require.EqualError(t, is(context.Background()), "it answers 500 Internal Server Error")

	is, err = Server(s.URL+"/readyz", authorities(s), "master-02")
	require.NoError(t, err)
	require.ErrorContains(t, is(context.Background()), "certificate", "another's answer does not count")
}

func TestAServerThatDoesNotRunIsGone(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	require.ErrorIs(t, Plain(s.URL)(context.Background()), vip.ErrGone)
}

func TestAServerThatHangsDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := Plain(s.URL)(ctx)
	require.EqualError(t, err, "it does not answer")
	require.NotErrorIs(t, err, vip.ErrGone)
}

func TestAnAuthorityWithoutACertificateIsAnError(t *testing.T) {
	_, err := Server("https://127.0.0.1:6443/readyz", []byte("none"), "master-01")
	require.ErrorContains(t, err, "no certificate")
}
