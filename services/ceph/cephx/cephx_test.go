package cephx

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

const seed = "AQAAgF5pAAAAABAAAAECAwQFBgcICQoLDA0ODw=="

func TestEachNodeHasItsOwnKey(t *testing.T) {
	seen := map[string]string{seed: "the seed"}
	for _, entity := range []string{OSD, RBD} {
		for _, node := range []string{"a", "b", "a.b", "of a"} {
			key, err := ForNode(seed, entity, node)
			require.NoError(t, err)
			require.NotContains(t, seen, key, "%s of %s", entity, node)
			seen[key] = entity
			again, err := ForNode(seed+"\n", entity, node)
			require.NoError(t, err)
			require.Equal(t, key, again, "a monitor makes the same")
			raw, err := base64.StdEncoding.DecodeString(key)
			require.NoError(t, err)
			old, err := base64.StdEncoding.DecodeString(seed)
			require.NoError(t, err)
			require.Len(t, raw, 28)
			require.Equal(t, old[:12], raw[:12], "type, age and length are the seed's")
		}
	}
}

func TestWhatIsNoSeed(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no base64": "?", "too short": base64.StdEncoding.EncodeToString(make([]byte, 20)), "another type": base64.StdEncoding.EncodeToString(make([]byte, 28)),
		"a length that is not its own": base64.StdEncoding.EncodeToString(append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0}, make([]byte, 17)...)),
	} {
		_, err := ForNode(text, "client.bootstrap-osd", "a")
		require.ErrorIs(t, err, ErrForm, name)
	}
}

func FuzzDerive(f *testing.F) {
	f.Add(seed, "a")
	f.Add("AQ==", "")
	f.Fuzz(func(t *testing.T, text, purpose string) {
		key, err := Derive(text, purpose)
		if err != nil {
			return
		}
		raw, err := base64.StdEncoding.DecodeString(key)
		require.NoError(t, err)
		require.Len(t, raw, 28)
		_, err = Derive(key, purpose)
		require.NoError(t, err, "a key can be a seed")
	})
}
