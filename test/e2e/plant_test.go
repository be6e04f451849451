//go:build e2e

package e2e

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/vault"
	"spore/test/program"
)

// plant is an image, what its configuration says, and the keys that it was built with.
type plant struct {
	image string
	// iso is there when the plant was built with that format.
	iso     string
	cluster facts.Cluster
	nodes   []facts.Node
	// dir is the operator's folder.
	dir string

	mu   sync.Mutex
	keys *pki.Tree
}

// compiled is the path of the program spore, which is compiled once.
var compiled = sync.OnceValues(func() (string, error) { return program.Spore(sourceTree) })

// flashTool is that path, for commands that a test runs as an operator does: flash, serve, boot and others.
func flashTool(t *testing.T) string {
	t.Helper()
	path, err := compiled()
	require.NoError(t, err)
	return path
}

// spore runs a command of the builder from the source tree.
func spore(args ...string) error {
	path, err := compiled()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = sourceTree
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("spore %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// buildPlant makes the keys of a configuration and builds its image, as an operator does; both come into the folder
// dir. The path of the configuration is seen from the source tree. secrets are those that the operator brings; formats
// are those of the configuration when none are given.
func buildPlant(configs, dir string, secrets map[string]string, formats ...string) (*plant, error) {
	p, err := makeKeys(configs, dir, secrets)
	if err != nil {
		return nil, err
	}
	p.image, p.iso = filepath.Join(dir, "spore.img"), filepath.Join(dir, "spore.iso")
	args := []string{"build", configs, "-o", dir, "--pki", p.dir}
	if len(formats) > 0 {
		args = append(args, "--format", strings.Join(formats, ","))
	}
	return p, spore(args...)
}

// makeKeys is buildPlant without the image.
func makeKeys(configs, dir string, secrets map[string]string) (*plant, error) {
	seen := configs
	if !filepath.IsAbs(configs) {
		seen = filepath.Join(sourceTree, configs)
	}
	config, report := cluster.LoadDir(seen)
	if err := report.Err(); err != nil {
		return nil, err
	}
	p := &plant{dir: filepath.Join(dir, "keys.pki")}
	p.cluster, p.nodes = cluster.Facts(config)
	args := []string{"pki", "init", configs, "--plain", "--dir", p.dir}
	for name, value := range secrets {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--secret", name+"="+file)
	}
	if err := spore(args...); err != nil {
		return nil, err
	}
	v, err := vault.Open(p.dir, vault.Keys{})
	if err != nil {
		return nil, err
	}
	p.keys = v.Tree
	return p, v.Close()
}

// node is what the image says of a node.
func (p *plant) node(name string) (*facts.Node, error) {
	for i := range p.nodes {
		if p.nodes[i].Name == name {
			return &p.nodes[i], nil
		}
	}
	return nil, errors.New("no node " + name)
}

// bundle makes a bundle for a node. Each has a serial of its own.
func (p *plant) bundle(t *testing.T, node string) []byte {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.node(node)
	require.NoError(t, err)
	data, err := p.keys.BundleFor(&p.cluster, n, time.Now())
	require.NoError(t, err)
	return data
}

// authority is what a client trusts that knows one authority.
func (p *plant) authority(t *testing.T, name string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(p.keys.Public().Files()[pki.PublicDir+"/"+name+".crt"]), name)
	return pool
}
