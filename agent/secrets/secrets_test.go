package secrets

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
	"spore/pki/bundle"
)

const clusterID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ in, err string }{
		"a bundle for this node is taken":  {`{"cluster":"` + clusterID + `","node":"a","secrets":{"mqtt-key":"x"}}`, ""},
		"the cluster's id in capitals too": {`{"cluster":"` + strings.ToUpper(clusterID) + `","node":"a"}`, ""},
		"another cluster's is refused":     {`{"cluster":"other","node":"a"}`, `for the cluster with the id "other"`},
		"another node's is refused":        {`{"cluster":"` + clusterID + `","node":"b"}`, `for node "b", and this is "a"`},
		"a name that is a path is refused": {`{"cluster":"` + clusterID + `","node":"a","secrets":{"../shadow":"x"}}`, "named"},
		"unknown keys are refused":         {`{"cluster":"` + clusterID + `","node":"a","x":1}`, "not valid JSON"},
		"garbage is refused":               {`hunter2`, "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(tc.in), clusterID, "a")
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.err)
			require.NotContains(t, err.Error(), "hunter2", "an error must not quote a secret")
		})
	}
}

func TestInstallGivesEachServiceExactlyItsSecretsOfTheBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	wanted := map[string][]string{"mqtt": {"a", "b", "missing"}, "kafka": {"k"}}
	require.NoError(t, Install(dir, Bundle{Secrets: map[string]string{"a": "1", "b": "2", "k": "4"}}, wanted))
	require.FileExists(t, filepath.Join(dir, "kafka", "k"))
	require.NoFileExists(t, filepath.Join(dir, "mqtt", "k"), "a service gets no secret of another")

	delete(wanted, "kafka")
	require.NoError(t, Install(dir, Bundle{Secrets: map[string]string{"b": "3", "k": "4", "nobody": "5"}}, wanted))
	require.NoDirExists(t, filepath.Join(dir, "kafka"))
	entries, err := os.ReadDir(filepath.Join(dir, "mqtt"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	data, err := os.ReadFile(filepath.Join(dir, "mqtt", "b"))
	require.NoError(t, err)
	require.Equal(t, "3", string(data))
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "mqtt"): 0o700, filepath.Join(dir, "mqtt", "b"): 0o600} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm())
	}
}

func TestAServiceWithoutCredentialsHasNoBundle(t *testing.T) {
	_, ok, err := FromCredential("", Whose{Cluster: clusterID, Node: "a"})
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = FromCredential(t.TempDir(), Whose{Cluster: clusterID, Node: "a"})
	require.NoError(t, err)
	require.False(t, ok)
}

func TestRefsFindsEverySecretThatSettingsName(t *testing.T) {
	m := &spec.MQTT{
		TLS:   spec.MQTTTLS{Certificate: spec.SecretRef{SecretRef: "cert"}, Key: spec.SecretRef{SecretRef: "key"}},
		Users: []spec.MQTTUser{{Name: "a", Password: spec.SecretRef{SecretRef: "pw"}}, {Name: "b", Password: spec.SecretRef{SecretRef: "pw"}}, {Name: "c"}},
	}
	require.Equal(t, []string{"cert", "key", "pw"}, Refs(m))
	require.Empty(t, Refs(nil))
	require.Empty(t, Refs((*spec.MQTT)(nil)))
}

func FuzzParse(f *testing.F) {
	f.Add(`{"cluster":"c","node":"a","secrets":{"k":"v"}}`)
	f.Add(`{"secrets":{"..":"v"}}`)
	f.Fuzz(func(t *testing.T, in string) {
		b, err := Parse(strings.NewReader(in), "c", "a")
		if err != nil {
			return
		}
		for ref := range b.Secrets {
			require.Equal(t, filepath.Base(ref), ref)
			require.NotContains(t, ref, ".")
		}
	})
}

func TestWhereTheClusterHasKeysABundleMustBeSigned(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	_, foreign, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	content := bundle.Bundle{Cluster: clusterID, Node: "a", Serial: 1, Issued: time.Unix(1_700_000_000, 0), Secrets: map[string]string{"k": "v"}}
	signed, err := bundle.Sign(content, private)
	require.NoError(t, err)
	forged, err := bundle.Sign(content, foreign)
	require.NoError(t, err)
	flipped := slices.Clone(signed)
	flipped[len(flipped)-5] ^= 1

	key := base64.StdEncoding.EncodeToString(public)
	for name, tc := range map[string]struct {
		in   string
		node string
		keys []string
		err  string
	}{
		"signed by the cluster":      {string(signed), "a", []string{key}, ""},
		"signed by somebody else":    {string(forged), "a", []string{key}, "not signed by this cluster"},
		"changed afterwards":         {string(flipped), "a", []string{key}, "not signed by this cluster"},
		"cut short":                  {string(signed[:len(signed)-3]), "a", []string{key}, "not signed by this cluster"},
		"for another node":           {string(signed), "b", []string{key}, `for node "a", and this is "b"`},
		"not signed at all":          {`{"cluster":"` + clusterID + `","node":"a","secrets":{"k":"v"}}`, "a", []string{key}, "not of its form"},
		"a key that is none":         {string(signed), "a", []string{"AAAA"}, "build the image again"},
		"a new key beside a foreign": {string(signed), "a", []string{base64.StdEncoding.EncodeToString(foreign.Public().(ed25519.PublicKey)), key}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Open(strings.NewReader(tc.in), Whose{Cluster: clusterID, Node: tc.node, SigningKeys: tc.keys})
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.Empty(t, b.Secrets)
				return
			}
			require.NoError(t, err)
			require.Equal(t, map[string]string{"k": "v"}, b.Secrets)
		})
	}
}
