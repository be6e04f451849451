package secrets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
	"spore/services/mqtt"
)

func TestInstallGivesEachProgramExactlyItsSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	wanted := map[string][]string{"mosquitto": {"a", "b", "missing"}, "kafka": {"k"}}
	install := func(have map[string]string) map[string][]string {
		changed, err := Install(dir, have, wanted)
		require.NoError(t, err)
		return changed
	}
	have := map[string]string{"a": "1", "b": "2", "k": "4"}
	require.Equal(t, map[string][]string{"kafka": {"k"}, "mosquitto": {"a", "b"}}, install(have))
	require.FileExists(t, filepath.Join(dir, "kafka", "k"))
	require.NoFileExists(t, filepath.Join(dir, "mosquitto", "k"), "a program gets no secret of another")
	require.Empty(t, install(have), "the same again changes nothing")

	delete(wanted, "kafka")
	require.Equal(t, map[string][]string{"mosquitto": {"a"}}, install(map[string]string{"b": "2", "k": "4", "nobody": "5"}), "one is gone")
	require.NoDirExists(t, filepath.Join(dir, "kafka"))
	entries, err := os.ReadDir(filepath.Join(dir, "mosquitto"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, map[string][]string{"mosquitto": {"b"}}, install(map[string]string{"b": "3"}))
	data, err := os.ReadFile(filepath.Join(dir, "mosquitto", "b"))
	require.NoError(t, err)
	require.Equal(t, "3", string(data))
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "mosquitto"): 0o700, filepath.Join(dir, "mosquitto", "b"): 0o600} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm())
	}
}

func TestANameThatIsAPathIsNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	_, err := Install(dir, map[string]string{"../x": "1"}, map[string][]string{"p": {"../x"}})
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "x"))
}

func TestRefsFindsEverySecretThatSettingsName(t *testing.T) {
	m := &mqtt.Settings{
		TLS:   mqtt.TLS{Certificate: spec.SecretRef{SecretRef: "cert"}, Key: spec.SecretRef{SecretRef: "key"}},
		Users: []mqtt.User{{Name: "a", Password: spec.SecretRef{SecretRef: "pw"}}, {Name: "b", Password: spec.SecretRef{SecretRef: "pw"}}, {Name: "c"}},
	}
	require.Equal(t, []string{"cert", "key", "pw"}, Refs(m))
	require.Empty(t, Refs(nil))
	require.Empty(t, Refs((*mqtt.Settings)(nil)))
}
