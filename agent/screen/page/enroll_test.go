package page

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asking is a node without a bundle that asks for one.
func asking(problem string) *Model {
	m := node()
	m.Status.Bundle = &Bundle{Problem: problem, Fingerprint: fingerprint}
	m.Status.Roles = []string{"dns-server"}
	m.Status.Held = []Held{{"mqtt-broker", "missing secrets tls-cert, tls-key: " + problem}}
	m.Secrets = nil
	return m
}

const fingerprint = "k3vq-7xha-m2pd-wz4c-ab2e"

// TestPagesOfAMachineThatAsksForItsBundle compares them with their text in testdata; UPDATE=1 writes it. What the
// operator compares is on them whole, however long the words beside it are.
func TestPagesOfAMachineThatAsksForItsBundle(t *testing.T) {
	for name, problem := range map[string]string{
		"waiting": "no bundle came with the machine; waiting for the operator to approve the key of this machine (spore approve) at " +
			"http://10.77.0.2:8080/: spore serve must show the fingerprint " + fingerprint,
		"given": "edge-01 has been given to another machine (fingerprint hk3f-2mqa-7lzd-w4xe-p5nb, approved 2026-05-01 12:30 UTC): " +
			"this one needs another node, or spore approve --replace by the operator, says http://10.77.0.2:8080/; no bundle " +
			"came with the machine; the key of this machine has the fingerprint " + fingerprint,
	} {
		for page, view := range map[string]View{"status": {Page: StatusPage}, "secrets": {Page: SecretsPage}} {
			t.Run(name+"-"+page, func(t *testing.T) {
				g, _ := asking(problem).Render(view, 80, 24)
				require.Contains(t, g.String(), fingerprint)
				text := strings.Join(strings.Fields(g.String()), " ")
				require.Contains(t, text, "runs: spore approve OUT "+fingerprint)
				require.NotContains(t, text, "kept by nothing", "there is nothing to keep")
				if name == "given" {
					require.Contains(t, text, "edge-01 has been given to another machine (fingerprint hk3f-2mqa-7lzd-w4xe-p5nb, approved 2026-05-01 12:30 UTC)")
					require.Contains(t, text, "or spore approve --replace by the")
				}
				file := "testdata/enroll-" + name + "-" + page + "-80x24.txt"
				if os.Getenv("UPDATE") != "" {
					require.NoError(t, os.WriteFile(file, []byte(g.String()), 0o644))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, string(want), g.String())
			})
		}
	}
}
