// Package sitebench is what the test of a site of many nodes tells the benchmark: how often the pieces of an update
// came over the uplink (goal of `make bench`).
package sitebench

import "time"

// Variable is the environment variable with the file that the test writes its Result to, as JSON.
const Variable = "SPORE_SITE_RESULT"

// Goal is how often a piece may come over the uplink at most.
const Goal = 2

// Result is what was seen.
type Result struct {
	Nodes, Pieces int
	// Size is that of all pieces together, Uplink what came over the uplink, in bytes.
	Size, Uplink int64
	// Fetches are all fetches over the uplink, Most those of the piece that was fetched most often.
	Fetches, Most int
	// CPU is the processor time of all nodes together with the web server, their start included.
	CPU, Wall time.Duration
}
