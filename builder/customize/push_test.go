package customize_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	keys "spore/builder/cmd/pki"
	pushcmd "spore/builder/cmd/push"
	"spore/builder/customize"
	"spore/builder/media"
	"spore/builder/push"
	"spore/builder/secureboot"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/pki/vault"
	"spore/wire/nodeapi"
	"spore/wire/update"
	"spore/wire/update/updatetest"
)

func TestAPushSignsOnlyWhatTheCertificateSigned(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	keys, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: now})
	require.NoError(t, err)
	ours := media.Keys{Boot: keys.DB}
	for name, tc := range map[string]struct {
		image, push media.Keys
		trust       bool
		err         string
	}{
		"signed by us":                   {ours, ours, false, ""},
		"not signed":                     {media.Keys{}, ours, false, "it is not signed"},
		"not signed, and trusted":        {media.Keys{}, ours, true, ""},
		"not signed, and nothing is":     {media.Keys{}, media.Keys{}, false, ""},
		"signed by another":              {media.Keys{Boot: keys.KEK}, ours, false, `it is signed by "CN=plant Secure Boot Key Exchange Key"`},
		"signed by another, and trusted": {media.Keys{Boot: keys.KEK}, ours, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			image, config := customize.Built(t, tc.image)
			facts, nodes := cluster.Facts(config)
			tree := pki.New(&facts)
			_, err := tree.Update(&facts, nodes, pki.Options{Now: now, Random: rand.Reader})
			require.NoError(t, err)
			config.Public = cluster.Public{SigningKeys: []string{"AAAA"}}
			u, err := push.Make(push.Options{
				Image: image, Config: config, Folder: os.DirFS("../../examples/edge"), Keys: tc.push, TrustUnsigned: tc.trust, Tree: tree, Now: now,
			})
			if tc.err != "" {
				require.ErrorContains(t, err, "the UKI of "+image+" is not signed by the certificate that is given")
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, u.Close())
		})
	}
}

// site is an operator's folder, and nodes of it that answer over TLS on loopback.
type site struct {
	t       *testing.T
	dir     string
	cluster facts.Cluster
	nodes   map[string]*updatetest.Node
	at      map[string]string
	// old and fresh are images of two roots.
	old, fresh string
	// ancient has nodes be of a time before updates in pieces.
	ancient bool
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), nodes: map[string]*updatetest.Node{}, at: map[string]string{}}
	require.NoError(t, os.CopyFS(s.configs(), os.DirFS("../../examples/edge")))
	code, _, errs := s.run("pki", "init", s.configs(), "--plain")
	require.Equal(t, exit.OK, code, errs)
	program := make([]byte, 1<<20)
	for i, r := 0, mathrand.New(mathrand.NewPCG(1, 2)); i < len(program); i++ {
		program[i] = byte(r.Uint32())
	}
	s.old = customize.BuiltOf(t, s.configs(), "disk", program)
	copy(program[500_000:], "a fix of OpenSSL")
	s.fresh = customize.BuiltOf(t, s.configs(), "iso", program)
	config, report := cluster.LoadDir(s.configs())
	require.NoError(t, report.Err())
	var nodes []facts.Node
	s.cluster, nodes = cluster.Facts(config)
	for i := range nodes {
		s.serve(&nodes[i])
	}
	return s
}

func (s *site) configs() string { return filepath.Join(s.dir, "configs") }

// serve has a node run the old image and answer.
func (s *site) serve(node *facts.Node) {
	s.t.Helper()
	v, err := vault.Open(s.configs()+".pki", vault.Keys{})
	require.NoError(s.t, err)
	defer v.Close()
	public, err := v.Tree.Public().SigningKeys()
	require.NoError(s.t, err)
	s.nodes[node.Name] = s.node(node.Name, v.Tree, public)
	data, err := v.Tree.BundleFor(&s.cluster, node, time.Now())
	require.NoError(s.t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: s.cluster.ID, Node: node.Name, Keys: public})
	require.NoError(s.t, err)
	id := nodeapi.Identity{
		Certificate: []byte(b.Secrets["agent-certificate"]), Key: []byte(b.Secrets["agent-key"]),
		Authorities: v.Tree.Public().Files()[pki.PublicDir+"/agent.crt"],
	}
	config, err := id.ServerConfig(nodeapi.Clock{Now: time.Now()}, func(nodeapi.Caller) error { return nil })
	require.NoError(s.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	s.at[node.Name] = l.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ancient && r.Method == "POST" {
			http.NotFound(w, r)
			return
		}
		s.nodes[node.Name].ServeHTTP(w, r)
	})}
	go server.Serve(tls.NewListener(l, config))
	s.t.Cleanup(func() { server.Close() })
}

// node is one that runs the old image.
func (s *site) node(name string, tree *pki.Tree, public []ed25519.PublicKey) *updatetest.Node {
	s.t.Helper()
	config, report := cluster.LoadDir(s.configs())
	require.NoError(s.t, report.Err())
	config.Public = cluster.Public{SigningKeys: []string{"AAAA"}}
	u, err := push.Make(push.Options{Image: s.old, Config: config, Folder: os.DirFS(s.configs()), Tree: tree, Now: time.Now()})
	require.NoError(s.t, err)
	defer u.Close()
	require.Empty(s.t, u.Notes)
	n := &updatetest.Node{Name: name, Cluster: s.cluster.ID, ClusterName: s.cluster.Name, Keys: public, Dir: s.t.TempDir()}
	runs, err := updatetest.SystemOf(n.Dir, u.Head, u.Object)
	require.NoError(s.t, err)
	runs.Serial = 0
	n.Start(runs)
	return n
}

func (s *site) run(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(keys.Command(), pushcmd.Command())
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = exit.Run(context.Background(), root)
	return code, stdout.String(), stderr.String()
}

// push pushes to the nodes at their addresses.
func (s *site) push(args ...string) (code int, out, errs string) {
	all := []string{"push", s.configs(), "--timeout", "20s"}
	for name, at := range s.at {
		all = append(all, "--address", name+"="+at)
	}
	return s.run(append(all, args...)...)
}

func TestPushBringsAnotherRootToNodes(t *testing.T) {
	s := newSite(t)
	code, out, errs := s.push("--image", s.fresh, "--dry-run", "--was", s.old)
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "edge-01 would get another root: ")
	require.Regexp(t, `edge-01 lacks \d+ pieces, 1\.0 MiB`, out)
	require.Contains(t, out, "edge-01 would run it from its next start on (--reboot)")
	require.Contains(t, out, "the same packages and programs")
	before := s.nodes["edge-01"].Runs().RootHash
	require.Empty(t, s.nodes["edge-01"].Status().Configuration.Staged)

	code, out, errs = s.push("--image", s.fresh)
	require.Equal(t, exit.OK, code, errs)
	for name, n := range s.nodes {
		require.Regexp(t, name+` lacks \d+ pieces, 1\.0 MiB`, out)
		require.Contains(t, out, name+" has it on its disk, and takes it at its next start")
		n.Restart()
		require.NotEqual(t, before, n.Runs().RootHash)
	}

	code, out, errs = s.push("--image", s.fresh)
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "edge-01 has it already")

	code, out, errs = s.push("--back", "--dry-run", "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "edge-01 would restart, and return from ")
	require.NotEqual(t, before, s.nodes["edge-01"].Runs().RootHash)
	code, out, errs = s.push("--back", "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, "edge-01 restarts with the system before\nedge-01 is up with it\n", out)
	require.Equal(t, before, s.nodes["edge-01"].Runs().RootHash)
}

func TestPushRestartsOneNodeAfterTheOther(t *testing.T) {
	s := newSite(t)
	code, out, errs := s.push("--image", s.fresh, "--reboot", "--json")
	require.Equal(t, exit.OK, code, errs)
	var answers []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &answers))
	require.Len(t, answers, 3)
	for _, a := range answers {
		require.Equal(t, true, a["reboot"])
		require.NotEmpty(t, a["clusterHash"])
	}
}

func TestPushWritesFilesForWhomNoNetworkReaches(t *testing.T) {
	s := newSite(t)
	n := s.nodes["edge-01"]
	file, folder := filepath.Join(s.dir, "edge.update"), filepath.Join(s.dir, "update")
	code, out, errs := s.push("--image", s.fresh, "--output", file, "--root", "--json")
	require.Equal(t, exit.OK, code, errs)
	var said struct{ RootHash string }
	require.NoError(t, json.Unmarshal([]byte(out), &said))
	message, err := os.ReadFile(file)
	require.NoError(t, err)
	a, err := n.Take(bytes.NewReader(message), nil)
	require.NoError(t, err)
	require.Empty(t, a.Error)
	require.NotEmpty(t, a.Entry)
	n.Restart()
	require.Equal(t, said.RootHash, n.Runs().RootHash)

	code, _, errs = s.push("--image", s.fresh, "--output", file)
	require.Equal(t, exit.OK, code, errs)
	message, err = os.ReadFile(file)
	require.NoError(t, err)
	a, err = s.nodes["dns-01"].Take(bytes.NewReader(message), nil)
	require.NoError(t, err)
	require.NotNil(t, a.Lacks, "without --root there is none for a node that runs another one")

	code, out, errs = s.push("--image", s.fresh, "--output", folder+"/")
	require.Equal(t, exit.OK, code, errs)
	require.True(t, strings.HasPrefix(out, folder+": update "), out)
	head, err := os.ReadFile(filepath.Join(folder, "update.head"))
	require.NoError(t, err)
	a, err = s.nodes["mqtt-01"].Take(bytes.NewReader(head), nil)
	require.NoError(t, err)
	for a.Lacks != nil {
		message = bytes.Clone(head)
		for _, sum := range a.Lacks.Objects {
			object, err := os.ReadFile(filepath.Join(folder, "pieces", sum))
			require.NoError(t, err)
			message = update.AppendObject(message, object)
		}
		a, err = s.nodes["mqtt-01"].Take(bytes.NewReader(message), nil)
		require.NoError(t, err)
	}
	require.NotEmpty(t, a.Entry)
}

func TestPushSaysWhatNodesRefuse(t *testing.T) {
	s := newSite(t)
	n := s.nodes["edge-01"]
	n.KeepsWayBack = true
	one := []string{"--image", s.fresh, "--node", "edge-01"}
	code, out, errs := s.push(one...)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "edge-01: the node would lose its way back to the root before: say --give-up-way-back", "nobody is asked without a terminal")
	require.Empty(t, out)
	code, out, errs = s.push(append(one, "--dry-run", "--json")...)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "1 of 1 nodes would not do it, or do not answer")
	var outlook struct {
		Serial uint64
		Nodes  []struct{ Node, Error string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &outlook))
	require.NotZero(t, outlook.Serial)
	require.Contains(t, outlook.Nodes[0].Error, "--give-up-way-back")
	code, _, errs = s.push(append(one, "--give-up-way-back")...)
	require.Equal(t, exit.OK, code, errs)

	n.Restart()
	code, out, _ = s.push("--back", "--node", "dns-01", "--dry-run")
	require.Equal(t, exit.Failed, code)
	require.Equal(t, "dns-01 would not do it: there is no system before\n", out)
	code, _, errs = s.push("--back", "--node", "dns-01")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "dns-01: there is no system before")
	s.at["mqtt-01"] = "127.0.0.1:1"
	code, _, errs = s.push("--image", s.fresh, "--node", "mqtt-01")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "mqtt-01: no answer: connect: connection refused")
	code, out, _ = s.push("--image", s.fresh, "--dry-run", "--node", "mqtt-01", "--node", "edge-01")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, "mqtt-01 does not say what it would do: no answer: connect: connection refused")
	require.Contains(t, out, "edge-01 has it already: ")
}

func TestPushSaysThatAnImageIsTooOldForIt(t *testing.T) {
	s := newSite(t)
	s.ancient = true
	code, _, errs := s.push("--image", s.fresh, "--node", "edge-01")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "edge-01: its image is from before updates in pieces: write it anew with `spore flash`")
	code, out, _ := s.push("--back", "--dry-run", "--node", "edge-01")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, "edge-01 does not say what it would do: its image is from before updates in pieces")
}

func TestPushGoesOnWhereAConnectionBroke(t *testing.T) {
	s := newSite(t)
	n := s.nodes["edge-01"]
	n.Break = func(message int) error {
		if message == 2 {
			return errors.New("the cable was pulled")
		}
		return nil
	}
	code, out, errs := s.push("--image", s.fresh, "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "edge-01 is tried again in 1s: no answer")
	require.Contains(t, out, "edge-01 has it on its disk")
}
