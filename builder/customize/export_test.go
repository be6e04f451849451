package customize

import (
	"testing"

	"spore/builder/media"
	"spore/cluster"
)

// Built is an image of the example, and its configuration, for tests of who stands on this package.
func Built(t testing.TB, keys media.Keys) (name string, config *cluster.Config) {
	t.Helper()
	config = small(load(t, example))
	return newFactory(t, config).build(t, config, keys, "disk", nil), config
}
