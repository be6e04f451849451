package kafka

import "spore/cluster/spec"

// Settings is configs/services/kafka.yaml.
type Settings struct {
	// ReplicationFactor is the default for topics; 3, or the number of brokers where it is less, when 0.
	ReplicationFactor int `yaml:"replicationFactor,omitempty" json:"replicationFactor,omitempty"`
	// MinInsyncReplicas is how many copies an acknowledged record has at least, by default; one less than ReplicationFactor, and at least 1, when 0.
	MinInsyncReplicas int `yaml:"minInsyncReplicas,omitempty" json:"minInsyncReplicas,omitempty"`
	// AcknowledgeFromMemory has brokers acknowledge a record before it is on their disks; a topic's own flush.messages counts more.
	AcknowledgeFromMemory bool `yaml:"acknowledgeFromMemory,omitempty" json:"acknowledgeFromMemory,omitempty"`
	// Heap is the Java heap in MiB; from the machine's memory when 0.
	Heap int `yaml:"heap,omitempty" json:"heap,omitempty"`
	// Users may connect, besides the user admin that there always is; nobody else may. Users and rights that are not here are taken away.
	Users []User `yaml:"users,omitempty" json:"users,omitempty"`
}

// User is one client account (SCRAM-SHA-512).
type User struct {
	// Name is what the client calls itself.
	Name string `yaml:"name" json:"name"`
	// Password names the entry that holds the password; nodes have it in salted form only.
	Password spec.SecretRef `yaml:"password" json:"password"`
	// ACL holds what the user may do; nothing when empty.
	ACL []ACL `yaml:"acl,omitempty" json:"acl,omitempty"`
}

// ACL allows operations on one resource: exactly one of Topic, Group, TransactionalID and Cluster is set.
type ACL struct {
	// Topic is a topic, or * for all.
	Topic string `yaml:"topic,omitempty" json:"topic,omitempty"`
	// Group is a consumer group, or * for all.
	Group string `yaml:"group,omitempty" json:"group,omitempty"`
	// TransactionalID is the name that a transactional producer gives itself, or * for all.
	TransactionalID string `yaml:"transactionalID,omitempty" json:"transactionalID,omitempty"`
	// Cluster means the cluster as a whole.
	Cluster bool `yaml:"cluster,omitempty" json:"cluster,omitempty"`
	// Prefix means every name that begins with the given one.
	Prefix bool `yaml:"prefix,omitempty" json:"prefix,omitempty"`
	// Operations lists what is allowed; which there are depends on the resource. all is everything.
	Operations []string `yaml:"operations" json:"operations"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }
