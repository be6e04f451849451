package nodeapi

// EntriesPath is where a node brings what it logs to a store of logs: a batch of entries in the Journal Export Format
// (package journalexport), packed by zstd. The answer 204 says that all are on the store's disk; 503 that the sender is
// to keep them, and to ask again after Retry-After; 400 and 413 that they will never be taken.
const EntriesPath = "/v1/logs/entries"

// Bounds of a batch, in bytes: as it comes, and before it was packed.
const (
	MaxEntries       = 4<<20 + 64<<10
	MaxPackedEntries = MaxEntries + 64<<10
)

// EntriesOf is the header by which the node's API tells the store's program which node has brought a batch, as its
// certificate says. Nothing from outside comes by it.
const EntriesOf = "Spore-Node"
