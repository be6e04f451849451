//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// notice is an object that nobody applies but the masters.
const notice = `apiVersion: v1
kind: ConfigMap
metadata: {name: notice, namespace: default}
data: {text: from the image}
`

// addManifest has the masters of a configuration keep an object.
func (l *lab) addManifest(plant string) {
	l.t.Helper()
	require.NoError(l.t, os.MkdirAll(filepath.Join(plant, "manifests"), 0o755))
	require.NoError(l.t, os.WriteFile(filepath.Join(plant, "manifests", "notice.yaml"), []byte(notice), 0o644))
}

func (l *lab) hasItsManifests(*testing.T) {
	l.await(kubeStep, "the object of manifests/", "from the image (manifests/notice.yaml)",
		"get", "configmap", "-n", "default", "notice", "-o", `jsonpath={.data.text} ({.metadata.annotations['spore/file']})`)
}
