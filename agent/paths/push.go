package paths

// Files of configurations that are pushed to the node.
const (
	// Push is where the API of the node leaves what was pushed, for a unit of root. What lies there is untrusted.
	Push = "/run/spore-push"
	// PushCopy is what of it is being looked at, where nobody else can change it.
	PushCopy = "/var/lib/spore/push.update"
	// Update is what the node remembers of the last one (JSON, package slot).
	Update = "/var/lib/spore/update.json"
	// LiveParts holds configurations that the running node took, by their hashes, and LiveNow leads to the one that is shown.
	LiveParts = "/run/spore/parts"
	LiveNow   = LiveParts + "/now"
	// BootID is the kernel's id of this boot.
	BootID = "/proc/sys/kernel/random/boot_id"
)
