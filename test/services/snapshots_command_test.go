//go:build e2e

package services

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/cluster"
	"spore/pki/bundle"
	"spore/pki/vault"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/test/program"
	"spore/wire/nodeapi"
)

// TestTheOperatorFetchesTheNewestSnapshot runs the command against a master's API, with the operator's own folder.
func TestTheOperatorFetchesTheNewestSnapshot(t *testing.T) {
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	spore, err := program.Spore("../..")
	require.NoError(t, err)
	out, err := exec.Command(spore, "pki", "init", "testdata/kubernetes", "--plain", "--dir", keys).CombinedOutput()
	require.NoError(t, err, string(out))

	d := snapshot.Dir{Path: filepath.Join(dir, "master")}
	unlock, err := d.Lock(t.Context())
	require.NoError(t, err)
	defer unlock()
	put := func(age time.Duration, content string) nodeapi.SnapshotName {
		w, err := d.Draft()
		require.NoError(t, err)
		defer w.Discard()
		_, err = io.WriteString(w, content)
		require.NoError(t, err)
		n := nodeapi.SnapshotName{Taken: time.Now().Add(-age).UTC().Truncate(time.Second), Revision: 7, Node: "master-01", Hash: w.Hash()}
		require.NoError(t, w.Commit(n))
		return n
	}
	address := serveSnapshots(t, keys, d)
	run := func(args ...string) (string, string, error) {
		cmd := exec.Command(spore, append([]string{"snapshots", "testdata/kubernetes", "--pki", keys, "--address", "master-01=" + address}, args...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		return stdout.String(), stderr.String(), err
	}
	folder := filepath.Join(dir, "backup")
	_, errs, err := run("--fetch", folder)
	require.Error(t, err)
	require.Contains(t, errs, "no snapshot yet")

	put(2*time.Hour, "older")
	newest := put(time.Hour, "newest")
	text, errs, err := run()
	require.NoError(t, err, errs)
	require.Len(t, strings.Split(strings.TrimSpace(text), "\n"), 2)
	text, errs, err = run("--json")
	require.NoError(t, err, errs)
	var list []struct{ Name string }
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Equal(t, newest.String(), list[0].Name)

	for range 2 { // the second time it is there
		text, errs, err = run("--fetch", folder)
		require.NoError(t, err, errs)
		require.Equal(t, filepath.Join(folder, newest.String()), strings.TrimSpace(text))
	}
	data, err := os.ReadFile(filepath.Join(folder, newest.String()))
	require.NoError(t, err)
	require.Equal(t, "newest", string(data))

	require.NoError(t, os.WriteFile(d.At(newest), []byte("neWest"), 0o644))
	other := filepath.Join(dir, "other")
	_, errs, err = run("--fetch", other)
	require.Error(t, err)
	require.Contains(t, errs, "the downloaded file is not "+newest.String())
	left, err := os.ReadDir(other)
	require.NoError(t, err)
	require.Empty(t, left, "nothing that is damaged is kept")

	_, errs, err = run("--node", "worker-01")
	require.Error(t, err)
	require.Contains(t, errs, "these nodes are not masters")
}

// serveSnapshots answers as the API of master-01, and returns where.
func serveSnapshots(t *testing.T, keys string, d snapshot.Dir) string {
	t.Helper()
	config, report := cluster.LoadDir("testdata/kubernetes")
	require.NoError(t, report.Err())
	shared, nodes := cluster.Facts(config)
	v, err := vault.Open(keys, vault.Keys{})
	require.NoError(t, err)
	defer v.Close()
	data, err := v.Tree.BundleFor(&shared, &nodes[0], time.Now())
	require.NoError(t, err)
	signing, err := v.Tree.Public().SigningKeys()
	require.NoError(t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: shared.ID, Node: "master-01", Keys: signing})
	require.NoError(t, err)
	identity := nodeapi.Identity{
		Certificate: []byte(b.Secrets["agent-certificate"]), Key: []byte(b.Secrets["agent-key"]), Authorities: v.Tree.Public().Files()["pki/agent.crt"],
	}
	row := func(rest string) api.Row {
		return api.Row{
			Method: http.MethodGet, Path: nodeapi.SnapshotsPath + rest, Who: []nodeapi.Role{nodeapi.Admin}, Handle: api.Plain(snapshot.Handler(d)),
		}
	}
	server := api.Server{
		Rows: []api.Row{row(""), row("/{name}")}, Now: time.Now, Say: func(s string) { t.Log(s) },
		Identity: func() (nodeapi.Identity, error) { return identity, nil },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
