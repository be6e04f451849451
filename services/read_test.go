package services

import (
	"encoding/json"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/mqtt"
)

func TestSettingsComeBackInTheirOwnTypes(t *testing.T) {
	want := facts.Cluster{Name: "plant", Members: map[string][]string{"mqtt-broker": {"a"}}}
	for _, s := range Ours().All() {
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

func TestReadAClusterPart(t *testing.T) {
	part := fstest.MapFS{
		facts.ClusterFile:               {Data: []byte(`{"name":"plant","nodes":2,"services":{"mqtt":{"port":1884}}}`)},
		facts.NodeDir + "/edge-01.json": {Data: []byte(`{"name":"edge-01","roles":["mqtt-broker"]}`)},
		facts.NodeDir + "/dns-01.json":  {Data: []byte(`{"name":"dns-01"}`)},
	}
	c, nodes, err := ReadPart(part)
	require.NoError(t, err)
	require.Equal(t, "plant", c.Name)
	require.Equal(t, 1884, mqtt.Of(c.Services).Port)
	require.Equal(t, []string{"dns-01", "edge-01"}, facts.Names(nodes))
	require.Equal(t, []string{"mqtt-broker"}, nodes[1].Roles)

	part[facts.NodeDir+"/dns-01.json"] = &fstest.MapFile{Data: []byte("{")}
	_, _, err = ReadPart(part)
	require.ErrorContains(t, err, facts.NodeDir+"/dns-01.json: ")
	_, _, err = ReadPart(fstest.MapFS{facts.ClusterFile: {Data: []byte(`{"services":{"mqtt":{"port":"x"}}}`)}})
	require.ErrorContains(t, err, facts.ClusterFile+": settings of mqtt: ")
	_, _, err = ReadPart(fstest.MapFS{facts.ClusterFile: part[facts.ClusterFile]})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, _, err = ReadPart(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}
