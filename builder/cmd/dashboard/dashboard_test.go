package dashboard

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestWhoseCertificateSilences(t *testing.T) {
	for role, want := range map[nodeapi.Role]bool{
		nodeapi.Reader: false, nodeapi.Operator: true, nodeapi.Admin: true, nodeapi.Scraper: false, nodeapi.Node: false, "": false,
	} {
		require.Equal(t, want, acts(&x509.Certificate{Subject: pkix.Name{Organization: []string{"plant", string(role)}}}), role)
	}
}
