package facts

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestReadAClusterPart(t *testing.T) {
	part := fstest.MapFS{
		ClusterFile:               {Data: []byte(`{"name":"plant","nodes":2}`)},
		NodeDir + "/edge-01.json": {Data: []byte(`{"name":"edge-01","roles":["mqtt-broker"]}`)},
		NodeDir + "/dns-01.json":  {Data: []byte(`{"name":"dns-01"}`)},
	}
	c, nodes, err := Read(part)
	require.NoError(t, err)
	require.Equal(t, "plant", c.Name)
	require.Equal(t, []string{"dns-01", "edge-01"}, Names(nodes))
	require.Equal(t, []string{"mqtt-broker"}, nodes[1].Roles)

	part[NodeDir+"/dns-01.json"] = &fstest.MapFile{Data: []byte("{")}
	_, _, err = Read(part)
	require.ErrorContains(t, err, NodeDir+"/dns-01.json: ")
	_, _, err = Read(fstest.MapFS{ClusterFile: part[ClusterFile]})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, _, err = Read(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}
