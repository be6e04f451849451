// Package send takes what a node logs to the stores of logs: the journal, which systemd-journal-upload brings over
// loopback, and further sources. Each store gets everything, at its own pace. What a store has not acknowledged stays
// where it came from: in the journal, or in the files of a source. It never waits in memory for more than two batches.
//
// What is sent, and how a store answers, stands in docs/logs.md.
package send

import (
	"context"

	"spore/wire/journalexport"
)

// Values of the field SourceField.
const (
	Journal = "journal"
	Pod     = "pod"
	Audit   = "audit"
)

// Fields that a source sets, or the sender.
const (
	SourceField = journalexport.Prefix + "SOURCE"
	CursorField = "__CURSOR"
	TimeField   = "__REALTIME_TIMESTAMP"
)

// Source is something besides the journal that a node logs. Sources of a sender have different names.
type Source interface {
	// Name is Pod or Audit: the field SourceField of its entries, and a label of their counters.
	Name() string
	// Open begins to read for one store: behind what that store has acknowledged before, and at the oldest where it has
	// nothing. It is called once for each store. The source keeps the position of each store by itself, such as in
	// Positions.
	Open(store string) (Reader, error)
}

// Reader is a source as one store reads it. Done comes from another goroutine than Next, and may come while Next waits.
type Reader interface {
	// Next waits until there are entries, and returns them: at most 1 MiB or some thousands, so that other sources have
	// their turn. Each has CursorField and TimeField. An error is said, and Next is called again, until ctx is over.
	Next(ctx context.Context) (Batch, error)
	// Done tells that the store has what Next returned, or will never take it. Batches come in the order of Next, each
	// once; those without entries do not come. An error is said.
	Done(Batch) error
	// Close ends the reading, and saves what Done was told. Nothing is called after it.
	Close() error
}

// Counted is a Source that counts what nobody can send.
type Counted interface {
	Source
	// Lost is how many files went before they were read to their end, what is known of their bytes, and how many lines
	// were left out because they are malformed.
	Lost() (files, bytes, lines int64)
}

// Batch is what Next returns.
type Batch struct {
	Entries []journalexport.Entry
	// Position is whatever the source wants to know of them in Done.
	Position any
}
