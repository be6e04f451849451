package service

import "spore/cluster/facts"

// Quorum is a program whose members agree before one of them makes data anew (agent/formation).
type Quorum struct {
	// Name is in paths and file names.
	Name string
	// Unit is whose start the gate holds back.
	Unit string
	// Data is the directory of a member's data, for people; NODE stands for the member's name.
	Data string
	// Initial lists the members by the configuration, sorted.
	Initial func(*facts.Cluster) []string
}
