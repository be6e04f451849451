// Package ask is what the node's API asks its collector of metrics (package serve): where, and with which words. The
// API knows the configuration and the conditions of health; the collector needs neither and is told what follows from
// them.
package ask

import "spore/wire/nodeapi"

// Socket is where the collector is asked: HTTP, POST with a Question.
const Socket = "/run/spore/metrics.sock"

// Path is the path of the request.
const Path = "/metrics"

// MaxQuestion bounds a question in bytes, and MaxAnswer an answer.
const (
	MaxQuestion = 1 << 20
	MaxAnswer   = 32 << 20
)

// Question is the body of the request, in JSON.
type Question struct {
	// Programs are those that the node runs (package services).
	Programs []string `json:"programs"`
	// Address is the node's first address, without a port; kubelet listens there.
	Address string `json:"address,omitempty"`
	// Brokers are the addresses of Kafka's brokers by node.id, and Broker is this node's; only on a broker.
	Brokers map[int32]string `json:"brokers,omitempty"`
	Broker  int32            `json:"broker,omitempty"`
	// Health are the node's conditions; nil where they were not known in time.
	Health []nodeapi.Condition `json:"health,omitempty"`
}
