//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/pki/bundle"
	"spore/storage/pieces"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// A node that is told where updates are takes one by itself, for its next start, and gives other nodes pieces of the
// root that it runs.
func TestANodeTakesAnUpdateByItself(t *testing.T) {
	t.Parallel()
	require.NoError(t, serveTime(t))
	folder := t.TempDir()
	web := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(web.Close)
	u, err := url.Parse(web.URL)
	require.NoError(t, err)
	from := [3]string{
		"cluster.yaml", "domain: plant.example\n",
		fmt.Sprintf("domain: plant.example\n\nupdates:\n  from: [\"http://10.77.0.2:%s\"]\n  every: 1\n", u.Port()),
	}
	old := editedConfigs(t, from)
	fresh := editedConfigs(t, from,
		[3]string{"services/dns.yaml", "  - name: mqtt\n", "  - name: fetched\n    addresses: [10.77.0.98]\n  - name: mqtt\n"})
	image := filepath.Join(t.TempDir(), "spore.img")
	require.NoError(t, spore("customize", suite.image, "--config", old, "--pki", suite.dir, "-o", image))
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(image, disk, diskSize))
	require.NoError(t, spore("push", fresh, "--image", suite.image, "--pki", suite.dir, "--output", folder+"/", "--root"))

	c := edge("fetched", bootDisk(disk))
	c.SMBIOS = newBroker(t).bundle(t, "edge-01")
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
	g := boot(t, c)
	g.running()
	type looked struct {
		Updates struct {
			Serial          uint64 `json:"serial"`
			Result, Problem string
		} `json:"updates"`
	}
	var l looked
	s := g.await("a look for updates that was of use", func(s vm.Status) bool {
		l = looked{}
		require.NoError(t, json.Unmarshal([]byte(s.Raw), &l))
		return l.Updates.Result != ""
	})
	require.NotZero(t, l.Updates.Serial)
	require.Contains(t, l.Updates.Result, "is written")
	p := configurationOf(t, s).Configuration
	require.NotEmpty(t, p.Staged, s.Raw)
	require.False(t, p.Live, "it waits for a start")

	asksAsAnotherNode(t, g, folder)
}

// asksAsAnotherNode asks the node for a piece of the root that it runs, by the certificate of another one.
func asksAsAnotherNode(t *testing.T, g *guest, folder string) {
	t.Helper()
	keys, err := suite.keys.Public().SigningKeys()
	require.NoError(t, err)
	suite.plant.mu.Lock()
	n, err := suite.node("dns-01")
	require.NoError(t, err)
	data, err := suite.keys.BundleFor(&suite.cluster, n, time.Now())
	suite.plant.mu.Unlock()
	require.NoError(t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: suite.cluster.ID, Node: "dns-01", Keys: keys})
	require.NoError(t, err)
	at, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	id := nodeapi.Identity{
		Certificate: []byte(b.Secrets["agent-certificate"]), Key: []byte(b.Secrets["agent-key"]),
		Authorities: suite.keys.Public().Files()["pki/agent.crt"],
	}
	require.NotEmpty(t, id.Authorities)
	client := nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) { return id, nil }, Addresses: func(string) ([]string, error) { return []string{at}, nil },
	}

	head, err := os.ReadFile(filepath.Join(folder, "update.head"))
	require.NoError(t, err)
	_, line, ok := strings.Cut(string(head), "\n")
	require.True(t, ok)
	var h update.Head
	require.NoError(t, json.Unmarshal([]byte(line), &h))
	text, err := os.ReadFile(filepath.Join(folder, "pieces", h.Root.Index.SHA256))
	require.NoError(t, err)
	index, err := pieces.Parse(text)
	require.NoError(t, err)
	piece := index[len(index)/2]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := client.Read(ctx, "edge-01", nodeapi.Request{Path: nodeapi.PiecesPath + piece.Sum.String()}, pieces.MaxPiece)
	require.NoError(t, err)
	require.True(t, piece.Same(got))
	_, err = client.Read(ctx, "edge-01", nodeapi.Request{Path: nodeapi.PiecesPath + strings.Repeat("0", 64)}, pieces.MaxPiece)
	require.ErrorContains(t, err, "this node does not have it")
}
