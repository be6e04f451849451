//go:build e2e

package nspawn

import (
	"context"
	"crypto/rand"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki"
	"spore/wire/nodeapi"
)

// edgesKnowWhoMay limits certificates, takes one back while its owner follows a log, and finds the record of a call.
func edgesKnowWhoMay(t *testing.T, l *Lab) {
	ctx := context.Background()
	file := filepath.Join(l.dir, "anna.access")
	out, errs, ok := l.spore(ctx, "access", "--user", "anna", "--node", "edge-1", "--lifetime", "1h", "-o", file)
	require.True(t, ok, errs)
	serial := regexp.MustCompile(`serial number ([0-9a-f]+)`).FindStringSubmatch(out)
	require.NotNil(t, serial, out)
	out, errs, ok = l.spore(ctx, "status", "--access", file)
	require.True(t, ok, errs)
	require.NotContains(t, out, "edge-2", "it is for one node")

	edge := l.Node("edge-1")
	ended := make(chan string, 1)
	go func() {
		_, errs, _ := l.spore(ctx, "logs", "edge-1", "mosquitto", "--lines", "0", "--follow", "--access", file)
		ended <- errs
	}()
	processes := func() int {
		return len(strings.Fields(edge.MustExec("cat", "/sys/fs/cgroup/system.slice/spore-api.service/cgroup.procs")))
	}
	require.Eventually(t, func() bool { return processes() == 2 }, time.Minute, 100*time.Millisecond, "the server, and journalctl")
	// As a configuration is shown that is taken at once (agent/config/running).
	edge.MustExec("sh", "-ec", `cp -r /run/spore/cluster /run/spore/withdrawn
		sed -i 's/^{/{"withdrawn":["`+serial[1]+`"],/' /run/spore/withdrawn/compiled/cluster.json
		mount --bind /run/spore/withdrawn /run/spore/cluster`)
	select {
	case errs := <-ended:
		require.Contains(t, errs, "spore logs: edge-1")
	case <-time.After(20 * time.Second):
		require.Fail(t, "who follows a log goes on with a certificate that was withdrawn")
	}
	require.Eventually(t, func() bool { return processes() == 1 }, time.Minute, 100*time.Millisecond)
	_, _, ok = l.spore(ctx, "status", "--access", file)
	require.False(t, ok, "and it is refused from then on")
	edge.MustExec("umount", "/run/spore/cluster")
	_, errs, ok = l.spore(ctx, "status", "--access", file)
	require.True(t, ok, "the configuration before does not withdraw it: %s", errs)

	// What edge-2 is asked to do is on its disk and on that of edge-3.
	made, err := l.Keys.Access(&l.Cluster, pki.NodeAdmin, "bert", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	second := l.Node("edge-2")
	c := nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: made.Authority}, nil
		},
		Addresses: func(string) ([]string, error) { return second.Facts.IPs, nil },
	}
	_, err = c.Read(ctx, "edge-2", nodeapi.Request{Method: http.MethodPost, Path: nodeapi.BundlePath, Body: strings.NewReader("no bundle")}, 1<<20)
	require.ErrorContains(t, err, "it answers 422")
	for _, at := range []string{"edge-2:own", "edge-3:others/edge-2"} {
		node, dir, _ := strings.Cut(at, ":")
		path := "/var/lib/spore-api/trail/" + dir + "/trail.jsonl"
		require.Eventually(t, func() bool {
			text, err := l.Node(node).Exec("cat", path)
			return err == nil && strings.Contains(text, `"stage":"failed"`) && strings.Contains(text, `"user":"bert"`)
		}, time.Minute, 200*time.Millisecond, at)
	}
	require.Equal(t, "spore-api 700", l.Node("edge-2").MustExec("stat", "--format=%U %a", "/var/lib/spore-api"))
	out, errs, ok = l.spore(ctx, "trail", "--user", "bert")
	require.True(t, ok, errs)
	require.Regexp(t, `(?m)^\S+Z +edge-2 +bert +admin +\S+ +\S+ +bundle +failed: .* +-$`, out)
}

// edgesRemember asks for the record of a call of a node whose state was wiped since.
func edgesRemember(t *testing.T, l *Lab) {
	out, errs, ok := l.spore(context.Background(), "trail", "--user", "bert")
	require.True(t, ok, errs)
	require.Regexp(t, `(?m)^\S+Z +edge-2 +bert .* only edge-3 has it; edge-2 answers, and has lost it$`, out)
}
