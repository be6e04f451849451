package service

// Way is how a program takes what is new. The higher one includes the lower.
type Way int

// Ways.
const (
	// Reads is a program that reads the file again by itself, or at its next start, which is soon enough.
	Reads Way = iota
	// Signals is one that reads it again when it gets the row's signal.
	Signals
	// Restarts is one that has to be started again.
	Restarts
)

// String says it in the words of the status.
func (w Way) String() string { return [...]string{"reads", "signals", "restarts"}[w] }

// Renewal is how one program takes new certificates, keys and public files. A secret that is no certificate is taken by a
// restart, always.
type Renewal struct {
	// Program is its name.
	Program string
	// Leaves is how it takes other certificates and keys of its own, which lie in paths.Live.
	Leaves Way
	// Trust is how it takes another file of paths.Trust, by the file's name; what is not here it does not read.
	Trust map[string]Way
	// Signal is the name of the signal.
	Signal string
	// Turns is the role whose nodes, with those of its stand-in, let one of them restart the program at a time, and only while it
	// runs on all others; empty where each node is by itself.
	Turns string
}
