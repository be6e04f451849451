package secrets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
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
	_, ok, err := FromCredential("", clusterID, "a")
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = FromCredential(t.TempDir(), clusterID, "a")
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
