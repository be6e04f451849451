package machine

// Bounds of a capture.
const (
	// MaxSeconds, MaxPackets and MaxBytes end it.
	MaxSeconds = 600
	MaxPackets = 10_000_000
	MaxBytes   = 1 << 30
	// MaxSnap is how much of a packet is kept, in bytes.
	MaxSnap = 65535
)

// Every is the name that stands for all interfaces.
const Every = "any"

// Numbers of what begins a captured packet (LINKTYPE_ values of tcpdump.org, which files of captures have).
const (
	LinkEthernet = 1
	// LinkCooked is Linux's header in place of that of the link.
	LinkCooked = 113
)

// Captured is a part of a capture (verb capture). The first has Link, Snap and Interface, and no packets.
type Captured struct {
	Link      int      `json:"link,omitempty"`
	Snap      int      `json:"snap,omitempty"`
	Interface string   `json:"interface,omitempty"`
	Packets   []Packet `json:"packets,omitempty"`
	// Dropped is how many packets the filter took, and the kernel dropped since nobody read them in time, so far.
	Dropped uint64 `json:"dropped,omitempty"`
}

// Packet is one packet.
type Packet struct {
	// At is when the kernel saw it, in Unix nanoseconds.
	At int64 `json:"at"`
	// Length is how long it was, in bytes; Data can be less.
	Length int    `json:"length"`
	Data   []byte `json:"data"`
}
