package reach

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/testca"
	"spore/wire/nodeapi"
)

func access(t *testing.T, person string, organizations ...string) Access {
	t.Helper()
	ca, err := testca.New("agents")
	require.NoError(t, err)
	certificate, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: person, Organization: organizations}, NotAfter: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	return Access{Cluster: "c", Person: person, Role: nodeapi.Reader, Certificate: string(certificate), Key: string(key), Authorities: string(ca.PEM())}
}

func TestAFileOfAccessSaysWhatItsCertificateSays(t *testing.T) {
	a := access(t, "anna", "spore:admin")
	a.Person, a.Ends = "somebody else", time.Now()
	text, err := a.Encode()
	require.NoError(t, err)
	got, err := ParseAccess(text)
	require.NoError(t, err)
	require.Equal(t, "anna", got.Person)
	require.Equal(t, nodeapi.Admin, got.Role, "whatever else the file says")
	require.Equal(t, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), got.Ends)
	require.Equal(t, []byte(a.Key), got.identity().Key)
}

func TestWhatIsNoFileOfAccess(t *testing.T) {
	text := func(a Access) string {
		data, err := a.Encode()
		require.NoError(t, err)
		return string(data)
	}
	good := text(access(t, "anna", "spore:reader"))
	other := access(t, "anna", "spore:reader")
	other.Key = access(t, "anna", "spore:reader").Key
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                   {"", "not a file that `spore access` writes"},
		"a kubeconfig":              {"apiVersion: v1\n", "not a file that `spore access` writes"},
		"other JSON":                {`{"kind":"Config"}`, `it is a "Config" of version 0`},
		"a later version":           {strings.Replace(good, `"version": 1`, `"version": 2`, 1), "of version 2"},
		"more than it has":          {strings.Replace(good, `"version": 1`, `"version": 1, "x": 1`, 1), "unknown field"},
		"two":                       {good + good, "there is data after its end"},
		"the key of another":        {text(other), "private key does not match"},
		"no certificate":            {strings.Replace(good, "BEGIN CERTIFICATE", "BEGIN", 1), "its certificate"},
		"a node's":                  {text(access(t, "edge-01", "spore:nodes")), `belongs to "edge-01" of "spore:nodes", and not to an operator`},
		"a Kubernetes user's":       {text(access(t, "anna", "system:masters")), "not to an operator"},
		"one that is far too large": {strings.Repeat(" ", maxAccess+1), "has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAccess([]byte(tc.text))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAFileOfAccessSaysWhichNodesItIsFor(t *testing.T) {
	ca, err := testca.New("agents")
	require.NoError(t, err)
	file := func(e pkix.Extension) []byte {
		certificate, key, err := ca.Issue(&x509.Certificate{
			Subject: pkix.Name{CommonName: "anna", Organization: []string{"spore:reader"}}, ExtraExtensions: []pkix.Extension{e},
		})
		require.NoError(t, err)
		text, err := Access{Nodes: []string{"x"}, Certificate: string(certificate), Key: string(key)}.Encode()
		require.NoError(t, err)
		return text
	}
	limit, err := nodeapi.Limit([]string{"n-2", "n-1"})
	require.NoError(t, err)
	a, err := ParseAccess(file(limit))
	require.NoError(t, err)
	require.Equal(t, []string{"n-1", "n-2"}, a.Nodes, "whatever else the file says")
	require.NotEmpty(t, a.Serial)
	limit.Value = []byte{0x30, 0}
	_, err = ParseAccess(file(limit))
	require.ErrorContains(t, err, "1 to 256 nodes")
}

func FuzzParseAccess(f *testing.F) {
	f.Add([]byte(`{"kind":"node-access","version":1,"cluster":"c","person":"p","role":"spore:reader","ends":"2027-01-01T00:00:00Z","certificate":"","key":"","authorities":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ParseAccess(data)
		if err == nil {
			require.Contains(t, nodeapi.Lookers(), a.Role)
		}
	})
}
