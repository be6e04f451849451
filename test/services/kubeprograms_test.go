//go:build e2e

package services

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/kubecluster"
)

// kubernetesPrograms is a directory with what a master runs.
func kubernetesPrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kubecluster.Programs(context.Background(), "../..", dir, "etcd", "kubernetes", "cluster-dns"))
	return filepath.Join(dir, "usr/bin")
}

var kinds struct {
	sync.Mutex
	data []byte
}

// calicoKinds is what `calico crds` prints.
func calicoKinds(t *testing.T) []byte {
	t.Helper()
	kinds.Lock()
	defer kinds.Unlock()
	if kinds.data == nil {
		out, err := exec.Command(calicoProgram(t, "/usr/bin/calico"), "crds").Output()
		require.NoError(t, err)
		kinds.data = out
	}
	return kinds.data
}

// calicoProgram is one of Calico's programs, by its path in the image.
func calicoProgram(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kubecluster.Programs(context.Background(), "../..", dir, "calico"))
	return filepath.Join(dir, path)
}
