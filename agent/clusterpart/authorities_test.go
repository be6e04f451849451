package clusterpart

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/pki"
	"spore/services/mqtt"
	"spore/services/service"
)

func TestAuthoritiesAreKnownByTheirKeys(t *testing.T) {
	c := &facts.Cluster{
		ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Name: "plant", Members: map[string][]string{"mqtt-broker": {"edge-01"}},
		Services: spec.Services{&mqtt.Settings{TLS: mqtt.TLS{Certificate: spec.SecretRef{SecretRef: "c"}, Key: spec.SecretRef{SecretRef: "k"}}}},
	}
	tree := pki.New(c)
	_, err := tree.Update(c, []facts.Node{{Name: "edge-01", Roles: []string{"mqtt-broker"}}}, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	p := Part{Dir: t.TempDir()}
	a, err := p.Authorities()
	require.NoError(t, err, "an image that was built without keys has none")
	require.False(t, a.Knows("mqtt", ""))

	for name, data := range tree.Public().Files() {
		path := filepath.Join(p.Dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	a, err = p.Authorities()
	require.NoError(t, err)
	for _, row := range tree.Public().Authorities {
		require.True(t, a.Knows(row.Name, pki.KeyID(row.Keys[0])), "%s, as bundles name it", row.Name)
		require.False(t, a.Knows(row.Name, "00"))
		require.Equal(t, row.Kind == service.CA, a.Certificates[row.Name] != "", row.Name)
	}
	require.False(t, a.Knows("agent", pki.KeyID(tree.Public().Authorities[0].Keys[0])), "the root's key is not the agents'")

	require.NoError(t, os.WriteFile(filepath.Join(p.Dir, pki.PublicDir, "mqtt.crt"), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o644))
	_, err = p.Authorities()
	require.ErrorContains(t, err, "mqtt.crt")
	require.ErrorContains(t, err, "build the image again")
}
