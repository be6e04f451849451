package health

import (
	"fmt"
	"time"

	"spore/wire/nodeapi"
)

// Snapshots are those of etcd that a master has.
type Snapshots struct {
	// Every is the time between two of them by the configuration.
	Every time.Duration
	// Count is how many there are, Newest when the last one was taken, and By whom.
	Count  int
	Newest time.Time
	By     string
	// Problem says why it is not known.
	Problem string
}

// turns is how long the other masters may take when one does not take a snapshot (package etcd/snapshot).
const turns = 30 * time.Minute

func snapshots(in Input) (nodeapi.State, string) {
	s := in.Snapshots
	switch {
	case s == nil:
		return "", ""
	case s.Problem != "":
		return nodeapi.Warning, s.Problem
	case s.Count == 0:
		return nodeapi.Warning, "this master has no snapshot of etcd yet"
	}
	age := in.Now.Sub(s.Newest).Truncate(time.Second)
	reason := fmt.Sprintf("%d of etcd, the last %s ago by %s", s.Count, age, s.By)
	if age > s.Every+turns {
		return nodeapi.Warning, fmt.Sprintf("%s, and one is due every %s; look at the journal of etcd-snapshot", reason, s.Every)
	}
	return nodeapi.OK, reason
}
