package machine

import "time"

// The sources of entries in a store of logs.
const (
	// LogJournal is the journal of a node: its units, its kernel, and audit records of that.
	LogJournal = "journal"
	// LogPod is what containers of pods write.
	LogPod = "pod"
	// LogAudit is the audit log of Kubernetes.
	LogAudit = "audit"
)

// LogSources are all of them.
func LogSources() []string { return []string{LogJournal, LogPod, LogAudit} }

// LogsEnd is the last part of the answer of a store of logs (verb logs-query).
type LogsEnd struct {
	// Newest is when the last entry of each node's journal was written that the store has. A node is missing where the
	// store has had none of it for a day.
	Newest map[string]time.Time `json:"newest,omitempty"`
	// Clocks are by how many seconds the clocks of nodes are ahead of the store's, negative where they are behind, of
	// those that are apart, and have sent something within ten minutes.
	Clocks map[string]float64 `json:"clocks,omitempty"`
	// Cut is true where there may be older entries that fit: there were more than were asked for, or than an answer has
	// room or time for.
	Cut bool `json:"cut,omitempty"`
	// Why says why it was cut where that was not the number of lines.
	Why string `json:"why,omitempty"`
}
