package kafka

import (
	"maps"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/form"
	"spore/services/mqtt"
)

const (
	// Admin is the user that there always is.
	Admin = "admin"
	// leastHeap is the smallest heap, in MiB, with which a broker with a few topics works.
	leastHeap = 256
	// mostHeap is one from which the JVM has long pointers, and so less room than with less; in MiB.
	mostHeap = 31 << 10
)

// userName is what SCRAM (RFC 5802, section 5.1) and principals carry without escapes. That of the nodes has a colon in
// it, so no user can be it.
var userName = form.New(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// topicName is a topic's name (org.apache.kafka.common.internals.Topic).
var topicName = form.New(`^[A-Za-z0-9._-]{1,249}$`)

// operations lists what can be allowed on each kind of resource (org.apache.kafka.security.authorizer.AclEntry), as
// kafka.yaml calls it.
var operations = map[string][]string{
	"topic":           {"all", "read", "write", "create", "delete", "alter", "describe", "describe-configs", "alter-configs"},
	"group":           {"all", "read", "describe", "delete", "describe-configs", "alter-configs"},
	"transactionalID": {"all", "write", "describe"},
	"cluster":         {"all", "create", "alter", "describe", "describe-configs", "alter-configs", "idempotent-write"},
}

// resources lists the keys of operations in the order in which people think of them.
var resources = []string{"topic", "group", "transactionalID", "cluster"}

// allOperations lists every operation, sorted.
func allOperations() []string {
	var out []string
	for _, list := range slices.Collect(maps.Values(operations)) {
		out = append(out, list...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkSettings checks kafka.yaml.
func checkSettings(k *check.Checker, file check.File) {
	s := Of(k.Services)
	brokers := len(k.MembersOf(Broker))
	if s.ReplicationFactor < 0 || s.MinInsyncReplicas < 0 {
		k.Errorf(check.In(file), "replicationFactor and minInsyncReplicas count brokers; write 1 or more, or leave them out")
		return
	}
	factor := s.ReplicationFactor
	if factor == 0 {
		factor = min(3, brokers)
	}
	if brokers > 0 && factor > brokers {
		k.Errorf(check.In(file, "replicationFactor"), "replicationFactor %d needs as many brokers, and there are %d; lower it, or give more nodes the role kafka-broker", factor, brokers)
	}
	if factor > 0 && s.MinInsyncReplicas > factor {
		k.Errorf(check.In(file, "minInsyncReplicas"), "minInsyncReplicas %d is more than replicationFactor %d, so nothing could be written; lower it", s.MinInsyncReplicas, factor)
	} else if factor > 1 && s.MinInsyncReplicas == factor {
		k.Warningf(check.In(file, "minInsyncReplicas"), "with minInsyncReplicas equal to replicationFactor (%d) one broker that is down stops all writes; have one less", factor)
	} else if s.ReplicationFactor == 1 && brokers > 1 {
		k.Warningf(check.In(file, "replicationFactor"), "with replicationFactor 1 a broker that is down takes its part of every topic with it; write %d, or leave it out", min(3, brokers))
	}
	if s.AcknowledgeFromMemory && factor == 1 {
		k.Warningf(check.In(file, "acknowledgeFromMemory"), "with one copy of a topic each power cut takes records that were acknowledged; leave acknowledgeFromMemory out")
	}
	if s.Heap != 0 {
		k.Between(check.In(file, "heap"), "the heap", s.Heap, leastHeap, mostHeap)
	}
	checkUsers(k, file, s.Users)
	checkNodes(k)
}

// checkNodes checks what brokers and controllers need to know each other by.
func checkNodes(k *check.Checker) {
	ids := map[int32]string{}
	for i, n := range k.Cluster.Nodes {
		if !k.HasRole(i, Broker) && !k.HasRole(i, Controller) {
			continue
		}
		if len(n.IPs) == 0 {
			k.Errorf(check.In(k.File, "nodes", i), "node %s is part of Kafka and has no ips, so the others and its clients could not find it; add its address", check.Clip(n.Name))
		}
		id := ID(n.Name)
		if other, taken := ids[id]; taken && other != n.Name {
			k.Errorf(check.In(k.File, "nodes", i, "name"), "the names %s and %s have the same hash and so the same node.id %d in Kafka; choose another name for one of them", check.Clip(other), check.Clip(n.Name), id)
		}
		ids[id] = n.Name
	}
}

func checkUsers(k *check.Checker, file check.File, users []User) {
	elsewhere := map[string]bool{}
	if m := mqtt.Of(k.Services); m != nil {
		elsewhere[m.TLS.Certificate.SecretRef], elsewhere[m.TLS.Key.SecretRef] = true, true
		for _, u := range m.Users {
			elsewhere[u.Password.SecretRef] = true
		}
	}
	names, refs := k.Unique(), map[string]int{}
	for i, u := range users {
		p := check.In(file, "users", i)
		if file.Has("users", i, "name") {
			switch {
			case u.Name == Admin:
				k.Errorf(p.Then("name"), "the user admin always exists, with every right; its password is the secret %s: choose another name", AdminSecret)
			case !userName.MatchString(u.Name):
				k.Errorf(p.Then("name"), "the user name %q is not valid; write 1 to 64 letters, digits, -, _, . and @, the first a letter or digit", check.Clip(u.Name))
			default:
				names.Add(p.Then("name"), "the user", u.Name, "each user has one entry")
			}
		}
		k.SecretRef(p.Then("password"), "password", u.Password)
		if ref := u.Password.SecretRef; ref != "" {
			first, twice := refs[ref]
			switch {
			case twice:
				k.Warningf(p.Then("password"), "the users %s and %s share the bundle entry %q, so they have the same password", check.Clip(users[first].Name), check.Clip(u.Name), check.Clip(ref))
			case ref == AdminSecret || elsewhere[ref]:
				k.Errorf(p.Then("password"), "the password of %s is a bundle entry that something else uses already, %q; give it its own entry", check.Clip(u.Name), check.Clip(ref))
			}
			if !twice {
				refs[ref] = i
			}
		}
		if len(u.ACL) == 0 {
			k.Warningf(p, "the user %s may connect but neither read nor write; add acl: [{topic: …, operations: [read]}]", check.Clip(u.Name))
		}
		checkACL(k, p, u)
	}
}

func checkACL(k *check.Checker, p check.Place, u User) {
	resources := k.Unique()
	for j, a := range u.ACL {
		q := p.Then("acl", j)
		kind, name, ok := resource(k, q, a)
		if !ok {
			continue
		}
		what := kind
		if kind != "cluster" {
			what += " " + name
		}
		if a.Prefix {
			what += "*"
		}
		resources.Add(q, "the entry for", what, "put all operations into one entry")
		if p.File.Has(append(q.Path, "operations")...) && len(a.Operations) == 0 {
			k.Errorf(q.Then("operations"), "the entry allows nothing; write operations such as [%s], or remove it", operations[kind][1])
		}
		seen := k.Unique()
		for l, o := range a.Operations {
			if k.OneOf(q.Then("operations", l), "the operation on a "+kind, o, operations[kind]) {
				seen.Add(q.Then("operations", l), "the operation", o, "remove one")
			}
		}
	}
}

// resource says what an entry is about.
func resource(k *check.Checker, p check.Place, a ACL) (kind, name string, ok bool) {
	var set []string
	for _, r := range resources {
		value := map[string]string{"topic": a.Topic, "group": a.Group, "transactionalID": a.TransactionalID}[r]
		if r == "cluster" && !a.Cluster || r != "cluster" && value == "" {
			continue
		}
		set = append(set, r)
		kind, name = r, value
	}
	switch {
	case len(set) != 1:
		k.Errorf(p, "the entry has %d resources; write exactly one of topic, group, transactionalID and cluster: true, and further entries for others", len(set))
		return "", "", false
	case a.Prefix && (kind == "cluster" || name == "*"):
		k.Errorf(p.Then("prefix"), "prefix needs a name to begin with; remove it")
		return "", "", false
	case kind == "topic" && name != "*" && !topicName.MatchString(name):
		k.Errorf(p.Then("topic"), "the topic %q is not valid; write up to 249 letters, digits, -, _ and ., without wildcards: prefix: true means every name that begins so", check.Clip(name))
		return "", "", false
	case name != "*" && strings.Contains(name, "*") && !a.Prefix:
		k.Warningf(p.Then(kind), "in Kafka %q is a name with a * in it; for every name that begins so, write the beginning and prefix: true", check.Clip(name))
	}
	return kind, name, true
}

// checkMembers checks how many brokers and controllers there are.
func checkMembers(k *check.Checker, listed check.Place) {
	brokers, n := len(k.MembersOf(Broker)), len(k.MembersOf(Controller))
	if n > 0 && brokers == 0 {
		k.Errorf(listed, "there are nodes with the role kafka-controller but no node with kafka-broker; give it to the nodes that shall keep the data")
	}
	if n == 0 {
		n = brokers
	}
	k.Quorum(listed, n, "KRaft controllers", "their")
}

// rackForm is a rack's name.
var rackForm = form.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// checkRack checks the rack of a node.
func checkRack(k *check.Checker, node int, f check.NodeFile) {
	rack := f.Content.Rack
	switch {
	case !f.Has("rack"):
	case !rackForm.MatchString(rack):
		k.Errorf(check.In(f, "rack"), "the rack %q is not valid; write 1 to 63 letters, digits, -, _ and ., the first and last a letter or digit", check.Clip(rack))
	case !k.HasRole(node, Broker):
		k.Warningf(check.In(f, "rack"), "the rack is for Kafka, and node %s has no role kafka-broker; remove it", f.Content.Node)
	}
}
