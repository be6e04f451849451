// Package configs embeds this folder, the example cluster with every service, so that `spore init` writes the same
// files that the tests boot.
package configs

import "embed"

// Files holds the folder as it is.
//
//go:embed .gitignore cluster.yaml image.yaml services/*.yaml nodes/*.yaml .schema/*.json
var Files embed.FS
