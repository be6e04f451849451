//go:build e2e

package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/pipeline"
	"spore/builder/vm"
	"spore/test/client"
)

// editedConfigs is the configuration of the suite with some texts of its files replaced.
func editedConfigs(t *testing.T, edits ...[3]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "configs")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(sourceTree, "examples/edge"))))
	for _, e := range edits {
		name := filepath.Join(dir, e[0])
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Contains(t, string(text), e[1])
		require.NoError(t, os.WriteFile(name, bytes.ReplaceAll(text, []byte(e[1]), []byte(e[2])), 0o644))
	}
	return dir
}

// Another configuration on the media of the suite: what a build of it would have written, and what a machine becomes.
func TestACustomizedImageIsWhatABuildWritesAndBoots(t *testing.T) {
	inTurn(t)
	configs := editedConfigs(t,
		[3]string{
			"cluster.yaml", "  - name: edge-01\n    macs: [\"" + edgeMAC + "\"]\n",
			"  - name: edge-01\n    hostname: edge-eins\n    serial: " + testSerial + "\n",
		},
		[3]string{"services/dns.yaml", "  - name: mqtt\n", "  - name: customized\n    addresses: [10.77.0.99]\n  - name: mqtt\n"},
		[3]string{"services/dns.yaml", "cname: edge-01", "cname: edge-eins"},
	)
	built, customized := t.TempDir(), filepath.Join(t.TempDir(), "out")
	formats := "disk,iso,netboot,uki"
	require.NoError(t, spore("build", configs, "-o", built, "--pki", suite.dir, "--format", formats))
	start := time.Now()
	require.NoError(t, spore("customize", filepath.Dir(suite.image), "--config", configs, "--pki", suite.dir, "-o", customized))
	t.Logf("customized in %.1f s, with go run", time.Since(start).Seconds())
	// A customized image has no provenance: what its root was built from is not at hand.
	require.NoError(t, os.Remove(filepath.Join(built, pipeline.ProvenanceName)))
	requireSameFiles(t, built, customized)

	c := edge("customized", disc(filepath.Join(customized, filepath.Base(suite.iso))))
	c.SMBIOS = delivering("edge-01", renamedBundle(t, "edge-01", "edge-eins"))
	g := boot(t, c)
	var s vm.Status
	t.Run("an ISO boots as a disc under UEFI", func(t *testing.T) { s = runsFromADisc(t, g) })
	t.Run("its serial number makes it the node", func(t *testing.T) {
		requireMatched(t, s, "edge-01", "serial", strings.ToLower(testSerial))
	})
	requireServes(t, g, edgeIP, "edge-01") // Its certificate is of before.
	addr, err := g.Address("udp", edgeIP+":53")
	require.NoError(t, err)
	for name, want := range map[string]client.Answer{
		"mqtt-01":    {Code: "NOERROR", Authoritative: true, Records: []string{"A " + mqttIP}},
		"edge-eins":  {Code: "NOERROR", Authoritative: true, Records: []string{"A " + edgeIP}},
		"customized": {Code: "NOERROR", Authoritative: true, Records: []string{"A 10.77.0.99"}},
	} {
		a, err := client.Ask("udp", addr, name+"."+suite.cluster.Domain, "A")
		require.NoError(t, err)
		require.Equal(t, want, a, name)
	}
}

// renamedBundle is a bundle for a node of the suite that has another host name.
func renamedBundle(t *testing.T, node, hostname string) []byte {
	t.Helper()
	suite.plant.mu.Lock()
	defer suite.plant.mu.Unlock()
	n, err := suite.node(node)
	require.NoError(t, err)
	renamed := *n
	renamed.Hostname, renamed.FQDN = hostname, hostname+"."+suite.cluster.Domain
	data, err := suite.keys.BundleFor(&suite.cluster, &renamed, time.Now())
	require.NoError(t, err)
	return data
}

func TestAnImageWithoutAServiceCannotBecomeOneWithIt(t *testing.T) {
	inTurn(t)
	configs := editedConfigs(t, [3]string{"cluster.yaml", "services: [mqtt, dns]", "services: [mqtt, dns, kafka]"})
	require.NoError(t, os.WriteFile(filepath.Join(configs, "services", "kafka.yaml"), []byte("{}\n"), 0o644))
	err := spore("customize", suite.image, "--config", configs, "--pki", suite.dir, "-o", filepath.Join(t.TempDir(), "spore.img"))
	require.ErrorContains(t, err, "error: service kafka needs programs kafka, kafka-bootstrap, kafka-disks and package openjdk-21-jre-headless, which the image does not contain")
	require.ErrorContains(t, err, "nothing was changed")
}

// requireSameFiles compares two output folders byte by byte.
func requireSameFiles(t *testing.T, want, got string) {
	t.Helper()
	list := func(dir string) []string {
		var out []string
		require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(dir, p)
				out = append(out, rel)
			}
			return err
		}))
		return out
	}
	require.Equal(t, list(want), list(got))
	for _, name := range list(want) {
		run(t, "cmp", filepath.Join(want, name), filepath.Join(got, name))
	}
}
