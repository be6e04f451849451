// Package configs embeds this folder, the example cluster, so that `spore init` writes the same files that the tests boot.
package configs

import "embed"

// ExampleID is the cluster id in cluster.yaml; each new folder gets one of its own instead.
const ExampleID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"

// Files holds the folder as it is.
//
//go:embed cluster.yaml image.yaml services/*.yaml nodes/*.yaml .schema/*.json
var Files embed.FS
