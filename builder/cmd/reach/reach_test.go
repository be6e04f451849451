package reach

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/test/testca"
	"spore/wire/nodeapi"
)

func TestAFileOfAccessMustBeOfUse(t *testing.T) {
	ca, err := testca.New("agents")
	require.NoError(t, err)
	file := func(cluster, role string, ends time.Time) string {
		certificate, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "anna", Organization: []string{role}}, NotAfter: ends})
		require.NoError(t, err)
		text, err := Access{Cluster: cluster, Certificate: string(certificate), Key: string(key), Authorities: string(ca.PEM())}.Encode()
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "access")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	large := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(large, bytes.Repeat([]byte("x"), maxAccess+1), 0o600))
	later := time.Now().Add(time.Hour)
	c := &facts.Cluster{ID: "AB"}
	for name, tc := range map[string]struct {
		path string
		need nodeapi.Role
		want string
	}{
		"a reader who looks":                      {file("ab", "spore:reader", later), nodeapi.Reader, ""},
		"an administrator who looks":              {file("ab", "spore:admin", later), nodeapi.Reader, ""},
		"an administrator who changes":            {file("AB", "spore:admin", later), nodeapi.Admin, ""},
		"a reader who would change":               {file("ab", "spore:reader", later), nodeapi.Admin, "it is for the role reader"},
		"one whose time is over":                  {file("ab", "spore:admin", time.Now().Add(-time.Minute)), nodeapi.Reader, "it expired at"},
		"one of another cluster":                  {file("cd", "spore:admin", later), nodeapi.Reader, "it is for the cluster with the id cd"},
		"a file that is far too large":            {large, nodeapi.Reader, "more than"},
		"no file":                                 {filepath.Join(t.TempDir(), "none"), nodeapi.Reader, "no such file"},
		"a node's, which is no operator's at all": {file("ab", "spore:nodes", later), nodeapi.Reader, "and not to an operator"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Flags{}.fromFile(tc.path, c, tc.need)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestOnlyTheNodesOfTheCertificateAreAsked(t *testing.T) {
	nodes := []facts.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for name, tc := range map[string]struct {
		nodes []facts.Node
		only  []string
		named bool
		want  []string
		err   string
	}{
		"one for all":            {nodes, nil, false, []string{"a", "b", "c"}, ""},
		"one for some":           {nodes, []string{"c", "a"}, false, []string{"a", "c"}, ""},
		"one that was named":     {nodes[:1], []string{"a", "c"}, true, []string{"a"}, ""},
		"one that it is not for": {nodes[:2], []string{"a"}, true, nil, "the certificate is limited to a; make another"},
		"nodes that are gone":    {nodes, []string{"d"}, false, nil, "the certificate is limited to d"},
	} {
		got, err := within(tc.nodes, tc.only, tc.named)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, facts.Names(got), name)
	}
	require.Equal(t, []string{"a", "b", "c"}, facts.Names(nodes), "the list itself stays as it is")
}
