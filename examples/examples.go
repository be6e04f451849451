// Package examples embeds the smaller example clusters, so that `spore init --example` writes the same files that the tests
// boot. The whole one is configs/.
package examples

import "embed"

// Files holds the examples as they are, each in a folder of its name.
//
//go:embed edge kubernetes
var Files embed.FS
