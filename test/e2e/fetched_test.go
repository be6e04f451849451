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
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/pki/bundle"
	"spore/storage/pieces"
	"spore/test/client"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// A node that is told where updates are takes one by itself, for its next start, and gives other nodes pieces of the
// root that it runs. The update brings another root and another boot loader: at the next start the root is on trial
// with the loader before, and when it stays, the loader is the next to be tried. It starts the machine once, and then
// stays. One that ends at once does not.
func TestANodeTakesAnUpdateByItself(t *testing.T) {
	inTurn(t)
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
	from[2] += "\ntrialMinutes: 10\ntrialSettle: 1\n" // Nothing waits for the end of a trial here.
	old := editedConfigs(t, from)
	fresh := editedConfigs(t, from,
		[3]string{"services/dns.yaml", "  - name: mqtt\n", "  - name: fetched\n    addresses: [10.77.0.98]\n  - name: mqtt\n"})
	image := filepath.Join(t.TempDir(), "spore.img")
	require.NoError(t, spore("customize", suite.image, "--config", old, "--pki", suite.dir, "-o", image))
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(image, disk, diskSize))
	later := anotherSystem(t, fresh)
	before := setLoader(t, later, renewed)
	require.NoError(t, spore("push", fresh, "--image", later, "--pki", suite.dir, "--output", folder+"/", "--root"))

	c := edge("fetched", bootDisk(disk))
	b := newBroker(t)
	c.SMBIOS, c.Reboots = b.bundle(t, "edge-01"), true
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
	g := boot(t, c)
	first := systemOf(t, g.running()).Configuration
	require.NoError(t, b.mustDial(t, g, edgeIP, "edge-01", "sensor").Publish("sensors/line", "acknowledged before", true))
	type looked struct {
		Updates struct {
			Serial          uint64 `json:"serial"`
			Outside         int64  `json:"outside"`
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
	require.NotZero(t, l.Updates.Outside)
	require.Less(t, l.Updates.Outside, int64(32<<20), "it has the rest of the root already")
	t.Logf("%d KiB of the update came from the web server", l.Updates.Outside>>10)
	require.Contains(t, loaderOf(t, s), "is tried at the restart after its system has shown that it stays")

	asksAsAnotherNode(t, g, folder)

	require.NoError(t, g.Reset())
	s = g.await("a status line of another root", func(s vm.Status) bool {
		return systemOf(t, s).Configuration.RootHash != first.RootHash && s.System == "running"
	})
	require.Equal(t, l.Updates.Serial, systemOf(t, s).Configuration.Serial)
	checkDNS(t, g, edgeIP)
	m := b.mustDial(t, g, edgeIP, "edge-01", "operator")
	require.NoError(t, m.Subscribe("sensors/#"))
	got, err := m.Await("sensors/line", time.Minute)
	require.NoError(t, err)
	require.Equal(t, client.Message{Payload: "acknowledged before", Retained: true}, got)
	// The minute of the trial may be over before all that no role waits for has started.
	g.await("a status line that tells of it", func(s vm.Status) bool {
		return !systemOf(t, s).Configuration.Trial && strings.Contains(loaderOf(t, s), "is tried at the next start")
	})
	triesItsLoaders(t, g, disk, renewed(before), func(loader []byte) string {
		setLoader(t, later, func([]byte) []byte { return loader })
		builder, err := compiled()
		require.NoError(t, err)
		api, err := g.Address("tcp", apiPort)
		require.NoError(t, err)
		out, err := exec.Command(builder, "push", fresh, "--image", later, "--pki", suite.dir, "--node", "edge-01",
			"--address", "edge-01="+api).CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
		return string(out)
	})
}

// anotherSystem builds the image of a configuration with one file more in its root.
func anotherSystem(t *testing.T, configs string) string {
	t.Helper()
	return imageOfSource(t, configs, func(source string) {
		file := filepath.Join(source, "overlay/usr/lib/sysctl.d/99-fetched.conf")
		require.NoError(t, os.WriteFile(file, []byte("# fetched\n"), 0o644))
	})
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
