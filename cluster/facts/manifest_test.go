package facts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnObjectIsToldByItsNameAndHash(t *testing.T) {
	shop := Manifest{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "web", "name": "shop"}, "n": 7}}
	web := Manifest{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	require.Equal(t, "Deployment.apps web/shop", shop.Name())
	require.Equal(t, "Namespace web", web.Name())
	require.Equal(t, " ", Manifest{}.Name(), "what is malformed has no name")

	sums := Sums([]Manifest{shop, web})
	require.Len(t, sums, 2)
	text, err := json.Marshal(shop)
	require.NoError(t, err)
	var read Manifest
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	require.NoError(t, d.Decode(&read))
	require.Equal(t, sums["Deployment.apps web/shop"], Sums([]Manifest{read})["Deployment.apps web/shop"], "the node has the same hash")
	shop.Object["n"] = 8
	require.NotEqual(t, sums["Deployment.apps web/shop"], Sums([]Manifest{shop})["Deployment.apps web/shop"])
}
