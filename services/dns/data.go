package dns

import "spore/services/dataversion"

// data says that the server keeps nothing: it answers from its configuration, and its cache is in memory.
var data = []dataversion.Row{{
	Name: "coredns", Roles: []string{role}, Payload: "coredns",
	Rule:   "every release: it keeps nothing between two starts, its cache is in memory",
	Source: "CoreDNS documentation, plugins file, hosts, cache and forward",
}}
