package plant

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/testca"
)

func TestSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	_, err := Secret(file)
	require.ErrorContains(t, err, "read a secret: ")
	for text, want := range map[string]string{"one": "one", "two\r\n\n": "two", " three ": " three "} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		got, err := Secret(file)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{"\n": "is empty", strings.Repeat("x", maxSecret+1): "4096"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Secret(file)
		require.ErrorContains(t, err, want)
	}
}

func TestWhoIsTrusted(t *testing.T) {
	c, err := TLS("")
	require.NoError(t, err)
	require.Nil(t, c.RootCAs, "the authorities of the system")
	require.False(t, c.InsecureSkipVerify)
	ca, err := testca.New("plant")
	require.NoError(t, err)
	c, err = TLS(string(ca.PEM()))
	require.NoError(t, err)
	require.True(t, c.RootCAs.Equal(ca.Pool()))
	_, err = TLS("nonsense")
	require.Error(t, err)
	_, err = HTTP("nonsense", time.Second)
	require.Error(t, err)
}

func TestAClientGoesNowhereElse(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	t.Cleanup(s.Close)
	c, err := HTTP("", 10*time.Second)
	require.NoError(t, err)
	a, err := c.Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	require.Equal(t, http.StatusFound, a.StatusCode)
	require.Equal(t, 1, asked)
	require.Nil(t, c.Transport.(*http.Transport).Proxy)
}
