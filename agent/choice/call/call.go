// Package call is what a program on the machine that shows pages asks of what keeps the choice of a node (package
// choice): one line of JSON, and one in return. It imports nothing of the agent, so that who shows pages stays small.
package call

// What is asked for.
const (
	// Look lists the nodes.
	Look = "look"
	// Choose keeps a choice, and restarts the machine.
	Choose = "choose"
	// Undo takes a choice back that was made here, and restarts the machine.
	Undo = "undo"
)

// Bounds of a line in bytes.
const (
	MaxCall   = 4 << 10
	MaxAnswer = 8 << 20
)

// Call is a question.
type Call struct {
	Do string `json:"do"`
	// Node is chosen, or was; Confirm is the same name as the person typed it.
	Node    string `json:"node,omitempty"`
	Confirm string `json:"confirm,omitempty"`
}

// Answer answers it.
type Answer struct {
	// Error says why it was not done, and what to do instead. Nothing was changed then.
	Error string `json:"error,omitempty"`
	// Done says what was done.
	Done string `json:"done,omitempty"`
	// View answers Look.
	View *View `json:"view,omitempty"`
}

// View is what there is to choose.
type View struct {
	// Refused says why no node can be chosen here, and what to do; empty where one can.
	Refused string `json:"refused,omitempty"`
	// Chosen is the node that was chosen on this machine; empty where none was. Stays says why that cannot be undone.
	Chosen string `json:"chosen,omitempty"`
	Stays  string `json:"stays,omitempty"`
	// Bundle says that the medium has a bundle of secrets. Nobody has looked for which node.
	Bundle bool `json:"bundle,omitempty"`
	// Enroll is the server that a node without a bundle asks for one; empty where it asks nobody.
	Enroll string `json:"enroll,omitempty"`
	// Nodes are those of the cluster: first those that nothing speaks against, among them first those that something
	// speaks for, in the order of their names.
	Nodes []Node `json:"nodes,omitempty"`
}

// Node is one that the machine could be.
type Node struct {
	Name  string   `json:"name"`
	Roles []string `json:"roles,omitempty"`
	// For is what of the machine is the node's by the configuration, Against what the configuration says otherwise.
	For     []string `json:"for,omitempty"`
	Against []string `json:"against,omitempty"`
}
