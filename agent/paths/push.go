package paths

// Files of updates that are pushed to the node.
const (
	// Push is where the API of the node leaves what was pushed, for a unit of root. What lies there is untrusted.
	Push = "/run/spore-push"
	// PushCopy is what of it is being looked at, where nobody else can change it.
	PushCopy = "/var/lib/spore/push.update"
	// UpdateWork holds what has come of an update that is on its way, for root alone.
	UpdateWork = "/var/lib/spore/update"
	// UpdateRoot is where the root of an update is mounted for a moment, to be looked at.
	UpdateRoot = "/run/spore/update-root"
	// Update is what the node remembers of the last one (JSON, package slot).
	Update = "/var/lib/spore/update.json"
	// Fetched is of spore-api, the user who fetches updates: FetchedPieces are kept for other nodes (package share),
	// Looked says when the node looked for an update last, and what came of it (JSON, package looked).
	Fetched       = "/var/cache/spore-update"
	FetchedPieces = Fetched + "/shelf"
	// BroughtSnapshot is the directory of the snapshot of etcd that an operator brought last.
	BroughtSnapshot = Fetched + "/snapshot"
	Looked          = Fetched + "/looked.json"
	// Loader holds a boot loader that came with an update, and what became of it (package bootloader).
	Loader = "/var/lib/spore/loader"
	// EFIVars is where the kernel shows the firmware's variables (efivarfs).
	EFIVars = "/sys/firmware/efi/efivars"
	// LiveParts holds configurations that the running node took, by their hashes, and LiveNow leads to the one that is
	// shown.
	LiveParts = "/run/spore/parts"
	LiveNow   = LiveParts + "/now"
	// BootID is the kernel's id of this boot.
	BootID = "/proc/sys/kernel/random/boot_id"
)
