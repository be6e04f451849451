// Package cephstatus reads what a monitor answers to the verb ceph-status: the health in words, the monitors, the OSDs
// by host, and the pools. It comes in parts, as ceph(8) has it in JSON.
package cephstatus

import (
	"encoding/json"
	"fmt"
)

// Answer is what is shown of the answers of Ceph.
type Answer struct {
	Status struct {
		Health struct {
			Status string
			Checks map[string]struct {
				Severity string
				Summary  struct{ Message string }
			}
		}
		QuorumNames []string `json:"quorum_names"`
	}
	// Monitors has all members of the quorum, and who leads; nil of a node whose release does not tell.
	Monitors *Monitors
	OSDs     struct{ Nodes []OSD }
	Pools    struct{ Pools []Pool }
}

// Monitors are the members of the monitors' quorum.
type Monitors struct {
	All    []string
	Quorum []string
	Leader string
}

// OSD is a row of the tree: a host, or an OSD below the host before it.
type OSD struct {
	ID         int64
	Name, Type string
	Status     string
	Reweight   float64
	// KB and KBUsed are in KiB.
	KB     float64 `json:"kb"`
	KBUsed float64 `json:"kb_used"`
	PGs    int
}

// Pool is a pool; sizes are in bytes, and Percent is 1 where it is full.
type Pool struct {
	Name  string
	Stats struct {
		Stored   float64 `json:"stored"`
		MaxAvail float64 `json:"max_avail"`
		Percent  float64 `json:"percent_used"`
	}
}

// Read puts the parts together in which an answer comes.
func Read(results []json.RawMessage) (Answer, error) {
	var all Answer
	for _, part := range results {
		var a Answer
		if err := json.Unmarshal(part, &a); err != nil {
			return Answer{}, fmt.Errorf("the answer is malformed: %w", err)
		}
		if a.Status.Health.Status != "" {
			all.Status = a.Status
		}
		if a.Monitors != nil {
			all.Monitors = a.Monitors
		}
		all.OSDs.Nodes = append(all.OSDs.Nodes, a.OSDs.Nodes...)
		all.Pools.Pools = append(all.Pools.Pools, a.Pools.Pools...)
	}
	return all, nil
}
