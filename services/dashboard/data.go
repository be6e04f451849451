package dashboard

import "spore/services/dataversion"

// data says that the program keeps nothing: what nodes have said is in its memory.
var data = []dataversion.Row{{
	Name: Program, Roles: []string{Role}, Own: Program, Format: "1.0",
	Rule:   "every release: it keeps nothing between two starts, what nodes have said is in its memory",
	Source: "dashboard/watch.go, View",
}}
