package nodeapi

import "time"

// Paths of renewal.
const (
	// RenewPath is where a master is asked for certificates: POST, from nodes alone (package agent/renewal).
	RenewPath = "/v1/renew"
	// RenewalPath is where a node says how far it is: GET, answered with a Renewal.
	RenewalPath = "/v1/renewal"
	// BundlePath is where a node is given a newer bundle: POST, from an administrator.
	BundlePath = "/v1/bundle"
)

// Renewal is how far a node is with taking new certificates and authorities.
type Renewal struct {
	// Serial is that of the bundle in use, Revision that of the authorities that the node trusts (pki.Tree).
	Serial   uint64 `json:"serial,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// Ends is when the first of the node's certificates does.
	Ends time.Time `json:"ends,omitzero"`
	// Settled is for how many seconds nothing has changed and nothing was restarted for a change.
	Settled float64 `json:"settled,omitempty"`
	// Pending lists programs that have yet to take what is new.
	Pending []string `json:"pending,omitempty"`
	// Turn says of programs that serve together with those of other nodes that this one wants to be restarted next, or is being
	// restarted.
	Turn map[string]string `json:"turn,omitempty"`
	// Problem says in words what is waited for, or what is not as it should be.
	Problem string `json:"problem,omitempty"`
	// Units are those of the node's roles that are active.
	Units []string `json:"units,omitempty"`
}

// Turns of a program (Renewal.Turn).
const (
	TurnWish  = "wish"
	TurnDoing = "doing"
)
