// Package sending is what spore-logs is told by the node: spore-agent renders it, and spore-logs reads it.
package sending

import (
	"encoding/json"
	"errors"
	"fmt"
)

// File is its name in the runtime directory, and Dir that of the folder with a file for each store, by its number,
// which systemd-journal-upload is started with.
const (
	File = "send.json"
	Dir  = "stores"
)

// MaxSize bounds it, in bytes.
const MaxSize = 64 << 10

// MostStores is how many stores there are.
const MostStores = 2

// Listen is where systemd-journal-upload brings the journal, on the node itself.
const Listen = "127.0.0.1:19532"

// Config is all that spore-logs is told.
type Config struct {
	// Stores get everything, each. Their numbers are their places, from 1 on.
	Stores []Store `json:"stores"`
	// CA is a file with the authority of the nodes' API, Certificate and Key those by which the node is known.
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	// Pods says that the node runs pods, whose lines are sent; Audit that it writes the audit log of Kubernetes.
	Pods  bool `json:"pods,omitempty"`
	Audit bool `json:"audit,omitempty"`
}

// Store is a node with a store.
type Store struct {
	// Name is the node's.
	Name string `json:"name"`
	// Address is where its API listens, with the port; ServerName is in its certificate.
	Address    string `json:"address"`
	ServerName string `json:"serverName"`
}

// Parse reads the file.
func Parse(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s is malformed: %w", File, err)
	}
	if len(c.Stores) == 0 || len(c.Stores) > MostStores {
		return c, fmt.Errorf("%s has %d stores; there are 1 to %d", File, len(c.Stores), MostStores)
	}
	for _, s := range c.Stores {
		if s.Name == "" || s.Address == "" || s.ServerName == "" {
			return c, fmt.Errorf("%s has a store without a name or an address", File)
		}
	}
	if c.CA == "" || c.Certificate == "" || c.Key == "" {
		return c, errors.New(File + " does not say whom to trust, or who the node is")
	}
	return c, nil
}
