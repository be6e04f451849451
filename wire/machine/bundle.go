package machine

import "time"

// Bundle is the node's bundle of secrets (verb bundle). It has no secret.
type Bundle struct {
	// Serial is that of the bundle in use; 0 means that there is none. Made is when it was made.
	Serial uint64    `json:"serial,omitempty"`
	Made   time.Time `json:"made,omitzero"`
	// From is state, firmware, medium or network. Sealed is tpm2 or host, and empty where the node does not keep it.
	From   string `json:"from,omitempty"`
	Sealed string `json:"sealed,omitempty"`
	// Problem says in words what is not as it should be, and Forgets why the next boot would take an older bundle.
	Problem string `json:"problem,omitempty"`
	Forgets string `json:"forgets,omitempty"`
	// Certificates are those that the node's programs are given now, by their names: of the bundle, or made again since.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Pending are programs that have yet to take what is new, and Waits says for what they wait.
	Pending []string `json:"pending,omitempty"`
	Waits   string   `json:"waits,omitempty"`
}

// Certificate is one of a node's.
type Certificate struct {
	// Name is that of its row in the table of certificates (spore pki show).
	Name string `json:"name"`
	// Made and Ends are its times.
	Made time.Time `json:"made"`
	Ends time.Time `json:"ends"`
	// Problem is why it cannot be read.
	Problem string `json:"problem,omitempty"`
}
