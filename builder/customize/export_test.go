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

// BuiltOf is an image in a format, of a folder of configuration and with a program of this content in its root.
func BuiltOf(t testing.TB, dir, format string, program []byte) string {
	t.Helper()
	config := small(load(t, dir))
	return newFactoryOf(t, config, program).build(t, config, media.Keys{}, format, nil)
}
