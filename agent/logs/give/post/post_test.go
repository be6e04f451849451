package post

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/give/parcel"
	"spore/test/testca"
)

func secret(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	return file
}

func TestARequest(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			got = append(got, err.Error())
			return
		}
		body, _ := io.ReadAll(z)
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-More")+" "+
			r.Header.Get("Authorization")+" "+string(body))
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "slow\xff down\n")
	}))
	t.Cleanup(s.Close)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for _, tt := range []struct {
		server Server
		want   string
	}{
		{Server{}, ""},
		{Server{User: "u", PasswordFile: secret(t, "p")}, "Basic dTpw"},
		{Server{Scheme: "Bearer", TokenFile: secret(t, "t0ken")}, "Bearer t0ken"},
	} {
		tt.server.URL = s.URL + "/below/"
		c, err := New(tt.server, url.Values{"a": {"b c"}}, "x/..", "_bulk")
		require.NoError(t, err)
		a, err := c.Send(t.Context(), "text/plain", map[string]string{"X-More": "more"}, []byte("body"))
		require.NoError(t, err)
		require.Equal(t, "POST /below/x%2F../_bulk?a=b+c text/plain more "+tt.want+" body", got[len(got)-1])
		require.EqualError(t, a.Err(), "the HTTP server answers 429: slow? down")
		var later *parcel.Later
		require.True(t, errors.As(a.Err(), &later))
		require.Equal(t, 7*time.Second, later.After)
	}
}

func TestHostileServers(t *testing.T) {
	var asked int
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(elsewhere.Close)
	for name, tt := range map[string]struct {
		does func(http.ResponseWriter, *http.Request)
		want string
	}{
		"without an end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, "the answer of the HTTP server has more than 4194304 bytes"},
		"a long header": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, "ask the HTTP server: "},
		"cut off": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			panic(http.ErrAbortHandler)
		}, "ask the HTTP server: "},
		"echoes": {func(w http.ResponseWriter, r *http.Request) {
			_, password, _ := r.BasicAuth()
			http.Error(w, "not you: "+password+" "+r.Header.Get("Authorization"), http.StatusForbidden)
		}, "the HTTP server answers 403: not you: (secret) Basic (secret)"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "the HTTP server answers 307"},
	} {
		s := httptest.NewServer(http.HandlerFunc(tt.does))
		c, err := New(Server{URL: s.URL, User: "u", PasswordFile: secret(t, "swordfish")}, nil, "x")
		require.NoError(t, err)
		a, err := c.Send(t.Context(), "text/plain", nil, nil)
		if err == nil {
			err = a.Err()
		}
		require.ErrorContains(t, err, tt.want, name)
		require.NotContains(t, err.Error(), s.URL, name)
		s.Close()
	}
	require.Zero(t, asked)
}

func TestTheServersName(t *testing.T) {
	ca, err := testca.New("plant")
	require.NoError(t, err)
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	c, err := New(Server{URL: s.URL, CA: string(ca.PEM())}, nil)
	require.NoError(t, err)
	_, err = c.Send(t.Context(), "text/plain", nil, nil)
	require.ErrorContains(t, err, "certificate")
}

func TestClientsThatAreNone(t *testing.T) {
	for _, s := range []Server{{}, {URL: "ftp://x"}, {URL: "http://a b/"}, {URL: "http://"}, {URL: "http://x", CA: "nonsense"}} {
		_, err := New(s, nil)
		require.Error(t, err, s)
	}
	c, err := New(Server{URL: "http://127.0.0.1:1", User: "u", PasswordFile: "/nonexistent"}, nil)
	require.NoError(t, err)
	_, err = c.Send(t.Context(), "text/plain", nil, nil)
	require.ErrorContains(t, err, "read a secret: ")
	require.Zero(t, after("Wed, 21 Oct 2026 07:28:00 GMT"))
	require.Zero(t, after("-1"))
}
