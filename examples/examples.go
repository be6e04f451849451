// Package examples embeds the example clusters besides configs/, so that `spore init --example` writes the same files
// that the tests boot. The folder own-valkey stands beside them alone: it has a Go module of its own, which the go
// command does not embed.
package examples

import "embed"

// Files holds the examples as they are, each in a folder of its name. Of names that begin with _, as modules of Python
// may, the go command embeds those that are named.
//
//go:embed edge kubernetes observed plant own-mqtt own-programs own-programs/overlay/opt/recorder/__main__.py
var Files embed.FS
