package services

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/mqtt"
)

func TestSettingsComeBackInTheirOwnTypes(t *testing.T) {
	want := facts.Cluster{Name: "plant", Members: map[string][]string{"mqtt-broker": {"a"}}}
	for _, s := range All() {
		want.Services.Set(s.Settings())
	}
	mqtt.Of(want.Services).Port = 1884
	text, err := json.Marshal(want)
	require.NoError(t, err)
	var got facts.Cluster
	require.NoError(t, ReadCluster(text, &got))
	require.Equal(t, want, got)
}

func TestReadingAClusterAnewDropsWhatWasThere(t *testing.T) {
	got := facts.Cluster{}
	got.Services.Set(&mqtt.Settings{})
	require.NoError(t, ReadCluster([]byte(`{"name":"plant","services":{}}`), &got))
	require.Equal(t, facts.Cluster{Name: "plant"}, got)
}

func TestAClusterThatIsMalformed(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":                       `{`,
		"services that are a list":      `{"services":[]}`,
		"a setting of another type":     `{"services":{"mqtt":{"port":"x"}}}`,
		"another field of another type": `{"name":5}`,
	} {
		require.Error(t, ReadCluster([]byte(text), new(facts.Cluster)), name)
	}
}
