//go:build e2e

package services

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/agent/formation"
	"spore/agent/paths"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/etcdutl"
	"spore/services/kubernetes/etcd/restore"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/services/kubernetes/etcd/snapshot/keeper"
	"spore/services/kubernetes/etcd/snapshot/sealing"
	"spore/services/kubernetes/etcd/snapshot/source"
)

// snapshots are those of a running master.
type snapshots struct {
	*controlPlane
	*keeper.Keeper
	id *age.X25519Identity
}

func newSnapshots(t *testing.T, p *controlPlane, dir string) *snapshots {
	t.Helper()
	secret := func(ref string) []byte {
		data, err := p.cluster.Secret("master-01", "etcd-snapshot", ref)
		require.NoError(t, err)
		return data
	}
	id, err := sealing.Identity(secret("etcd-snapshot-key"))
	require.NoError(t, err)
	authorities, err := p.cluster.Public("etcd.crt")
	require.NoError(t, err)
	own := client.Identity{Certificate: secret("etcd-agent-certificate"), Key: secret("etcd-agent-key"), Authorities: authorities}
	return &snapshots{p, &keeper.Keeper{
		Dir: snapshot.Dir{Path: dir}, Cluster: p.cluster.Shared.ID, Node: "master-01", Masters: []string{"master-01"},
		Every: time.Hour, Keep: snapshot.Keep{Newest: 5}, Identity: id, Tool: etcdutl.Tool{Path: filepath.Join(p.programs, "etcdutl")},
		Etcd: source.Etcd{
			Connect:  func() (*clientv3.Client, error) { return client.Connect(own, 1, p.Etcd) },
			Endpoint: p.Etcd, Within: 10 * time.Second,
		},
		Peers: nobody{}, Now: time.Now, Say: func(s string) { t.Log(s) }, Status: func(string) {},
	}, id}
}

// nobody is there besides.
type nobody struct{}

func (nobody) Get(context.Context, string, string) (io.ReadCloser, error) {
	return nil, errors.New("there is no other master")
}

// watch gives the first event of a watch of config maps that begins at a revision.
func (p *controlPlane) watch(revision string) (code int, kind string) {
	p.t.Helper()
	u := p.admin()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.server+"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion="+revision, nil)
	require.NoError(p.t, err)
	res, err := u.http.Do(req)
	require.NoError(p.t, err)
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadBytes('\n')
	require.NoError(p.t, err)
	var event struct {
		Type   string `json:"type"`
		Object struct {
			Code int `json:"code"`
		} `json:"object"`
	}
	require.NoError(p.t, json.Unmarshal(line, &event), string(line))
	return event.Object.Code, event.Type
}

func TestASnapshotOfEtcdIsRestoredUnderTheAPI(t *testing.T) {
	p := newControlPlane(t)
	admin := p.admin()
	put := func(kind, name string) {
		admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/"+kind, object{
			"metadata": object{"name": name}, map[string]string{"configmaps": "data", "secrets": "stringData"}[kind]: object{"k": name},
		})
	}
	for i := range 20 {
		put("configmaps", fmt.Sprintf("before-%d", i))
	}
	put("secrets", "before")
	s := newSnapshots(t, p, filepath.Join(t.TempDir(), "snapshots"))
	began := time.Now()
	name, err := s.Take(t.Context())
	require.NoError(t, err)
	took := time.Since(began)
	sealed := s.Dir.At(name)
	info, err := os.Stat(sealed)
	require.NoError(t, err)
	put("configmaps", "after")
	last := admin.must(http.StatusOK, "GET", "/api/v1/namespaces/default/configmaps/after", nil)
	lastRevision := at(last, "metadata", "resourceVersion").(string)

	t.Run("age and a decompressor open it with the operator's key", func(t *testing.T) {
		f, err := os.Open(sealed)
		require.NoError(t, err)
		defer f.Close()
		id, err := age.ParseX25519Identity(string(p.cluster.Tree.Secrets["etcd-snapshot-key"].Value))
		require.NoError(t, err)
		plain, err := age.Decrypt(f, id)
		require.NoError(t, err)
		d, err := zstd.NewReader(plain)
		require.NoError(t, err)
		defer d.Close()
		db := filepath.Join(t.TempDir(), "db")
		out, err := os.Create(db)
		require.NoError(t, err)
		n, err := io.Copy(out, d)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		text, err := exec.Command(filepath.Join(p.programs, "etcdutl"), "snapshot", "status", db).CombinedOutput()
		require.NoError(t, err, string(text))
		t.Logf("a database of %d bytes is %d bytes as a snapshot, taken and opened again in %d ms; etcdutl: %s", n, info.Size(), took.Milliseconds(), strings.TrimSpace(string(text)))
	})
	t.Run("nothing in it can be read without", func(t *testing.T) {
		data, err := os.ReadFile(sealed)
		require.NoError(t, err)
		require.NotContains(t, string(data), "before-1")
		require.NotContains(t, string(data), "registry")
		other, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		_, _, err = sealing.Open(strings.NewReader(string(data)), other)
		require.ErrorContains(t, err, "another key")
	})

	p.StopOne("kube-scheduler")
	p.StopOne("kube-controller-manager")
	p.StopOne("kube-apiserver")
	p.StopOne("etcd")
	root := paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(root.At("/var/lib"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(p.Dir, "etcd"), root.At(paths.Etcd)))
	place := restore.Place{Root: root}
	end, err := place.Begin()
	require.NoError(t, err)
	commit := restore.Committed{Cluster: p.cluster.Shared.ID, Node: "master-01", Initial: []string{"master-01"}, Nonce: formation.NewNonce(), Snapshot: name.String(), Time: time.Now().UTC()}
	makeOf := func(t *testing.T, change func([]byte)) error {
		f, err := os.Open(sealed)
		require.NoError(t, err)
		defer f.Close()
		_, db, err := sealing.Open(f, s.id)
		require.NoError(t, err)
		defer db.Close()
		data, err := io.ReadAll(db)
		require.NoError(t, err)
		change(data)
		require.NoError(t, os.WriteFile(place.Plain(), data, 0o600))
		return s.Tool.Restore(t.Context(), etcdutl.Restore{
			Snapshot: place.Plain(), Data: place.Made(), Member: "master-01", Peer: peerOf(t, p), Token: commit.Cluster + "-" + commit.Nonce, Bump: 1_000_000_000,
		})
	}
	require.ErrorContains(t, makeOf(t, func(data []byte) { data[len(data)/2] ^= 1 }), "expected sha256", "a damaged database is not restored")
	end()
	end, err = place.Begin()
	require.NoError(t, err)
	began = time.Now()
	require.NoError(t, makeOf(t, func([]byte) {}))
	require.NoError(t, place.Commit(commit))
	_, done, err := place.Resume()
	require.NoError(t, err)
	require.True(t, done)
	end()
	t.Logf("restored in %d ms", time.Since(began).Milliseconds())

	require.NoError(t, p.Start(context.Background(), everyProgram...))
	for i := range 20 {
		o := admin.must(http.StatusOK, "GET", fmt.Sprintf("/api/v1/namespaces/default/configmaps/before-%d", i), nil)
		require.Equal(t, fmt.Sprintf("before-%d", i), at(o, "data", "k"))
	}
	require.Equal(t, "YmVmb3Jl", at(admin.must(http.StatusOK, "GET", "/api/v1/namespaces/default/secrets/before", nil), "data", "k"))
	admin.must(http.StatusNotFound, "GET", "/api/v1/namespaces/default/configmaps/after", nil)

	put("configmaps", "again")
	revision, err := strconv.ParseInt(at(admin.must(http.StatusOK, "GET", "/api/v1/namespaces/default/configmaps/again", nil), "metadata", "resourceVersion").(string), 10, 64)
	require.NoError(t, err)
	before, err := strconv.ParseInt(lastRevision, 10, 64)
	require.NoError(t, err)
	require.Greater(t, revision, before+999_000_000, "no revision comes a second time")
	code, kind := p.watch(lastRevision)
	require.Equal(t, "ERROR", kind)
	require.Equal(t, http.StatusGone, code, "whoever watched what was given up is told to list again")

	again, err := s.Take(t.Context())
	require.NoError(t, err, "the restored one is saved in turn")
	require.Greater(t, again.Revision, name.Revision+999_000_000)

	p.StopOne("kube-scheduler")
	p.StopOne("kube-controller-manager")
	p.StopOne("kube-apiserver")
	p.StopOne("etcd")
	_, err = s.Take(t.Context())
	require.ErrorContains(t, err, "ask this master's etcd for the size of its database", "nothing is taken of an etcd that is not there")
	list, err := s.Dir.List()
	require.NoError(t, err)
	require.Len(t, list, 2)
}

// peerOf is where other members would find this master's.
func peerOf(t *testing.T, p *controlPlane) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Dir, "run", "etcd", "config.json"))
	require.NoError(t, err)
	var config struct {
		Peer string `json:"initial-advertise-peer-urls"`
	}
	require.NoError(t, json.Unmarshal(data, &config))
	return config.Peer
}
