//go:build e2e

package services

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/secrets"
	"spore/cluster"
	"spore/pki"
	"spore/pki/bundle"
	"spore/test/client"
)

// The broker serves with the certificate and the passwords of its node's bundle, and clients verify it with what
// `spore pki export` gives them.
func TestMosquittoServesWithTheSecretsOfItsBundle(t *testing.T) { eachBroker(t, servesWithItsBundle) }

func servesWithItsBundle(t *testing.T, k brokerKind) {
	config, report := cluster.LoadDir("../../examples/" + k.configs)
	require.NoError(t, report.Err())
	shared, nodes := cluster.Facts(config)
	tree := pki.New(&shared)
	now := time.Now()
	_, err := tree.Update(&shared, nodes, pki.Options{Now: now, Random: rand.Reader})
	require.NoError(t, err)
	data, err := tree.BundleFor(&shared, &nodes[0], now)
	require.NoError(t, err)
	keys, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	got, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: shared.ID, Node: "edge-01", Keys: keys})
	require.NoError(t, err)
	entries := map[string][]byte{}
	for _, ref := range append(secrets.Refs(shared.Services.Get(k.service)), k.certificate, k.key) {
		require.Contains(t, got.Secrets, ref, "the bundle has what the configuration names")
		entries[ref] = []byte(got.Secrets[ref])
	}

	b := brokerWith(t, k, entries)
	b.start()
	roots := func(authority string) *x509.CertPool {
		p := x509.NewCertPool()
		require.True(t, p.AppendCertsFromPEM(tree.Public().Files()[pki.PublicDir+"/"+authority+".crt"]))
		return p
	}
	for _, tt := range []struct {
		name, authority, server string
		good                    bool
	}{
		{"by its authority", k.authority, "edge-01.plant.example", true},
		{"by the root", "root", "edge-01.plant.example", true},
		{"by the service's name", k.authority, "mqtt.plant.example", true},
		{"by its address", k.authority, "10.77.0.11", true},
		{"by another authority", "agent", "edge-01.plant.example", false},
		{"by another name", k.authority, "dns-01.plant.example", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := client.DialMQTT(client.MQTTOptions{
				Address: b.address(), ServerName: tt.server, Roots: roots(tt.authority),
				ID: "t-bundle", User: "sensor", Password: got.Secrets[k.passwords["sensor"]],
			})
			if tt.good {
				require.NoError(t, err)
				c.Close()
				return
			}
			require.ErrorContains(t, err, "x509")
		})
	}
}
