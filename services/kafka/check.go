package kafka

import (
	"regexp"

	"spore/cluster/check"
)

// checkMembers checks how many brokers and controllers there are.
func checkMembers(k *check.Checker, listed check.Place) {
	brokers, n := len(k.MembersOf(broker)), len(k.MembersOf(controller))
	if n > 0 && brokers == 0 {
		k.Errorf(listed, "there are nodes with the role kafka-controller but no node with kafka-broker; give it to the nodes that shall keep the data")
	}
	if n == 0 {
		n = brokers
	}
	k.Quorum(listed, n, "KRaft controllers", "their")
}

// rackForm is a rack's name.
var rackForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// checkRack checks the rack of a node.
func checkRack(k *check.Checker, node int, f check.NodeFile) {
	rack := f.Content.Rack
	switch {
	case !f.Has("rack"):
	case !rackForm.MatchString(rack):
		k.Errorf(check.In(f, "rack"), "the rack %q is not valid; write 1 to 63 letters, digits, -, _ and ., the first and last a letter or digit", check.Clip(rack))
	case !k.HasRole(node, broker):
		k.Warningf(check.In(f, "rack"), "the rack is for Kafka, and node %s has no role kafka-broker; remove it", f.Content.Node)
	}
}
