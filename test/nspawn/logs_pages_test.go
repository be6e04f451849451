//go:build e2e

package nspawn

import (
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki"
	"spore/services/dashboard"
)

// pages opens what the observer serves as a browser does.
func (l *logsLab) pages(t *testing.T) {
	base := "https://" + net.JoinHostPort(l.observer.IP(), strconv.Itoa(dashboard.DefaultPort))
	open := func(shown *pki.Admin, path string) (int, string) {
		config := &tls.Config{RootCAs: l.Authority("root"), MinVersion: tls.VersionTLS13}
		if shown != nil {
			pair, err := tls.X509KeyPair([]byte(shown.Certificate), []byte(shown.Key))
			require.NoError(t, err)
			// A browser shows what its person chooses.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 2 * time.Minute}
		res, err := client.Get(base + path)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text)
	}
	now := pki.Options{Now: time.Now(), Random: rand.Reader}
	anna, err := l.Keys.Access(&l.Cluster, pki.NodeReader, "anna", time.Hour, now)
	require.NoError(t, err)
	other := pki.New(&l.Cluster)
	_, err = other.Update(&l.Cluster, nil, now)
	require.NoError(t, err)
	mallory, err := other.Access(&l.Cluster, pki.NodeAdmin, "mallory", time.Hour, now)
	require.NoError(t, err)

	text := ""
	require.Eventually(t, func() bool {
		status := 0
		status, text = open(anna, "/")
		require.Equal(t, http.StatusOK, status, text)
		return !strings.Contains(text, "it has not answered yet")
	}, time.Minute, time.Second, "all nodes take the certificate of the page")
	for _, n := range l.Nodes() {
		require.Contains(t, text, "/nodes/"+n.Facts.Name)
	}
	require.Contains(t, text, "You are <strong>anna</strong>, reader, until ")
	require.Contains(t, text, "observer serves it.")
	status, text := open(anna, "/nodes/edge-1")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, "mosquitto")
	_, text = open(anna, "/logs?node=edge-1&since=1h&pattern=%5Efirst+000200%24")
	require.Contains(t, text, "first 000200", "from the store")
	require.Contains(t, text, "observer")
	_, text = open(anna, "/certificates")
	require.Contains(t, text, "edge-2")
	_, text = open(anna, "/configuration")
	require.Contains(t, text, "observer, which serves it, has none.")

	for want, shown := range map[string]*pki.Admin{
		"This browser has shown no certificate": nil, "This certificate is not one of this cluster": mallory,
	} {
		for _, path := range []string{"/", "/logs?node=edge-1", "/static/style.css"} {
			status, text := open(shown, path)
			require.Equal(t, http.StatusForbidden, status, path)
			require.Contains(t, text, want)
			require.NotContains(t, text, "edge-1")
		}
	}
	said := l.observer.MustExec("journalctl", "--quiet", "--output=cat", "--unit=spore-dashboard.service")
	require.Regexp(t, `"anna" \(reader\) at \S+ asks GET "/logs\?node=edge-1`, said)
	memory := l.observer.MustExec("sh", "-ec", "grep VmHWM /proc/$(systemctl show --property=MainPID --value spore-dashboard.service)/status")
	kib, err := strconv.Atoi(strings.Fields(memory)[1])
	require.NoError(t, err)
	t.Logf("spore-dashboard took %d KiB at most", kib)
	require.Less(t, kib, 96<<10, "KiB of memory at most")
}
