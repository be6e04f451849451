package pki

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestARightInKubernetesEndsWithinEightHours(t *testing.T) {
	tree, c, nodes := made(t)
	o := options(begin)
	require.NotContains(t, tree.Leaves, KubernetesAdmin)
	for life, ok := range map[time.Duration]bool{
		time.Minute: false, minPersonLife: true, KubernetesLife: true, KubernetesLife + time.Second: false, LeafLife: false,
	} {
		for name, make := range map[string]func() (*Admin, error){
			"everything": func() (*Admin, error) { return tree.Admin(c, "anna", life, o) },
			"a group":    func() (*Admin, error) { return tree.Member(c, "anna", "spore:view", life, o) },
		} {
			made, err := make()
			if !ok {
				require.ErrorContains(t, err, "is out of bounds; choose 5m0s to 8h0m0s", "%s for %s", name, life)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, o.Now.Add(life), made.Ends)
		}
	}
	_, err := tree.Access(c, NodeReader, "anna", LeafLife, o)
	require.NoError(t, err, "nodes can be told whom to refuse")

	// A folder of before has one.
	old := *tree.Leaves["node-admin"]
	tree.Leaves[KubernetesAdmin] = &old
	require.Equal(t, []Change{{KubernetesAdmin, "dropped", "it is no longer needed"}}, update(t, tree, c, nodes, begin))
}

func TestAScraperOfMetricsIsNothingElse(t *testing.T) {
	tree, c, nodes := made(t)
	o := options(begin)
	for name, make := range map[string]func() (*Admin, error){
		"everywhere": func() (*Admin, error) { return tree.Access(c, NodeScraper, "prometheus", LeafLife, o) },
		"on a node": func() (*Admin, error) {
			return tree.AccessTo(c, NodeScraper, "prometheus", []string{nodes[0].Name}, LeafLife, o)
		},
	} {
		made, err := make()
		require.NoError(t, err, name)
		block, _ := pem.Decode([]byte(made.Certificate))
		require.NotNil(t, block, name)
		certificate, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err, name)
		require.Equal(t, []string{string(nodeapi.Scraper)}, certificate.Subject.Organization, name)
		require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, certificate.ExtKeyUsage, name)
	}
	require.NotContains(t, tree.Leaves, NodeScraper, "the folder keeps none")
}
