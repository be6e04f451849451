package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"spore/agent/node"
	"spore/agent/wait"
	"spore/services/kubernetes"
	"spore/storage/atomicfile"
)

const (
	// felixBound is the longest wait for it, on a machine of usual speed.
	felixBound = 2 * time.Minute
	// cniConfig is where containerd looks for the network of pods; kubelet calls the node's network ready when there is one.
	cniConfig = "/run/cni/net.d"
	// maxCNIFile bounds a file of it in bytes.
	maxCNIFile = 1 << 20
)

// felixReady is where felix says that it has put its rules in place (felix/config, HealthHost and HealthPort).
var felixReady = fmt.Sprintf("http://127.0.0.1:%d/readiness", kubernetes.PortFelixHealth)

// cniFiles are those of calico-node's rendering that are the plugins', the list of plugins last.
var cniFiles = []struct {
	name string
	mode fs.FileMode
}{{"calico-kubeconfig", 0o600}, {"10-calico.conflist", 0o600}}

// Network waits until felix is ready, and only then lays in the configuration by which pods get a network:
// no pod is to run before its policies can hold it.
func Network(ctx context.Context, m *node.Machine) error {
	dir := node.RuntimeDirectory("calico-node")
	if dir == "" {
		return errors.New("RUNTIME_DIRECTORY is not set: kubernetes-network is for ExecStartPost= of calico-node.service")
	}
	c, err := m.Part.Cluster()
	if err != nil {
		return err
	}
	ctx, cancel, err := wait.WhileMainRuns(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	factor := time.Duration(kubernetes.Of(c.Services).Slow())
	client := http.Client{Timeout: 5 * time.Second * factor}
	err = wait.Until(ctx, wait.Condition{
		For: "felix to put its rules in place", Bound: felixBound * factor, Every: 500 * time.Millisecond, Say: m.Say, Patience: 30 * time.Second,
		Met: func() bool {
			res, err := client.Get(felixReady)
			if err != nil {
				return false
			}
			res.Body.Close()
			return res.StatusCode/100 == 2
		},
	})
	if err != nil {
		return err
	}
	return layNetwork(dir, m.Root.At(cniConfig))
}

// layNetwork copies the files of the plugins from one directory to another, each whole or not at all.
func layNetwork(from, to string) error {
	for _, f := range cniFiles {
		data, err := atomicfile.ReadLimited(filepath.Join(from, f.name), maxCNIFile)
		if err != nil {
			return fmt.Errorf("network of pods: %w", err)
		}
		if _, err := atomicfile.Write(filepath.Join(to, f.name), data, f.mode); err != nil {
			return fmt.Errorf("network of pods: %w", err)
		}
	}
	return nil
}
