// Package serving is what spore-dashboard is told by the node: spore-agent renders it, and spore-dashboard reads it.
package serving

import (
	"encoding/json"
	"errors"
	"fmt"
)

// File is its name in the runtime directory.
const File = "dashboard.json"

// MaxSize bounds it, in bytes.
const MaxSize = 64 << 10

// Config is all that spore-dashboard is told; the rest is in the cluster part.
type Config struct {
	// Node is the name of this node, and Listen where browsers ask, as an address with a port.
	Node   string `json:"node"`
	Listen string `json:"listen"`
	// Server is what a browser is shown, and Reader what other nodes are.
	Server Pair `json:"server"`
	Reader Pair `json:"reader"`
}

// Pair are the files of a certificate, with the chain that leads to it, and of its key, as PEM.
type Pair struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// Parse reads the file.
func Parse(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s is malformed: %w", File, err)
	}
	if c.Node == "" || c.Listen == "" {
		return c, errors.New(File + " does not say which node this is, or where it listens")
	}
	for _, p := range []Pair{c.Server, c.Reader} {
		if p.Certificate == "" || p.Key == "" {
			return c, errors.New(File + " does not say who the node is")
		}
	}
	return c, nil
}
