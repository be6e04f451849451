package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// SecretRef names an entry of the node's secret bundle. A secret itself never stands in YAML.
type SecretRef struct {
	// SecretRef is the entry's name: 1 to 63 lower-case letters, digits and -.
	SecretRef string `yaml:"secretRef" json:"secretRef"`
}

// Settings are the settings of one service: what its file in services/ of the configuration says, in the service's own type.
type Settings interface {
	// Service is the name of the service in cluster.yaml.
	Service() string
}

// Services holds the settings of the enabled services, in the order of the list of services; a service that is not enabled
// has none. It knows no service: Of finds settings by their type, and package services reads them from JSON.
type Services []Settings

// Of returns the settings of the type T, which is a service's own, or nil where the service is not enabled.
func Of[T any](s Services) *T {
	for _, one := range s {
		if found, ok := any(one).(*T); ok {
			return found
		}
	}
	return nil
}

// Get returns the settings of a service; nil when it has none.
func (s Services) Get(service string) Settings {
	for _, one := range s {
		if one.Service() == service && !reflect.ValueOf(one).IsNil() {
			return one
		}
	}
	return nil
}

// Has tells whether a service has settings.
func (s Services) Has(service string) bool { return s.Get(service) != nil }

// Set puts settings in the place of those of the same service, or behind the others.
func (s *Services) Set(settings Settings) {
	out := slices.Clone(*s)
	if i := slices.IndexFunc(out, func(one Settings) bool { return one.Service() == settings.Service() }); i >= 0 {
		out[i] = settings
	} else {
		out = append(out, settings)
	}
	*s = out
}

// Remove takes away the settings of services.
func (s *Services) Remove(services ...string) {
	*s = slices.DeleteFunc(slices.Clone(*s), func(one Settings) bool { return slices.Contains(services, one.Service()) })
}

// MarshalJSON writes the settings by the names of the services.
func (s Services) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for _, one := range s {
		if !s.Has(one.Service()) {
			continue
		}
		text, err := json.Marshal(one)
		if err != nil {
			return nil, fmt.Errorf("settings of %s: %w", one.Service(), err)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(strconv.AppendQuote(b, one.Service()), ':'), text...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON is an error: only package services knows the types of settings, and settings that nobody decodes would be
// services that are silently off.
func (s *Services) UnmarshalJSON([]byte) error {
	return errors.New("internal error: settings of services are read with services.ReadCluster")
}

// The service that has its types here still.

// Service is the name of the service.
func (*Kafka) Service() string { return "kafka" }

// Kafka are the settings of Kafka; nil when it is not enabled.
func (s Services) Kafka() *Kafka { return Of[Kafka](s) }

// Kafka is configs/services/kafka.yaml.
type Kafka struct {
	// ReplicationFactor is the default for topics; 3, or the number of brokers where it is less, when 0.
	ReplicationFactor int `yaml:"replicationFactor,omitempty" json:"replicationFactor,omitempty"`
	// MinInsyncReplicas is how many copies an acknowledged record has at least, by default; one less than ReplicationFactor, and at least 1, when 0.
	MinInsyncReplicas int `yaml:"minInsyncReplicas,omitempty" json:"minInsyncReplicas,omitempty"`
	// AcknowledgeFromMemory has brokers acknowledge a record before it is on their disks; a topic's own flush.messages counts more.
	AcknowledgeFromMemory bool `yaml:"acknowledgeFromMemory,omitempty" json:"acknowledgeFromMemory,omitempty"`
	// Heap is the Java heap in MiB; from the machine's memory when 0.
	Heap int `yaml:"heap,omitempty" json:"heap,omitempty"`
	// Users may connect, besides the user admin that there always is; nobody else may. Users and rights that are not here are taken away.
	Users []KafkaUser `yaml:"users,omitempty" json:"users,omitempty"`
}

// KafkaUser is one client account (SCRAM-SHA-512).
type KafkaUser struct {
	// Name is what the client calls itself.
	Name string `yaml:"name" json:"name"`
	// Password names the entry that holds the password; nodes have it in salted form only.
	Password SecretRef `yaml:"password" json:"password"`
	// ACL holds what the user may do; nothing when empty.
	ACL []KafkaACL `yaml:"acl,omitempty" json:"acl,omitempty"`
}

// KafkaACL allows operations on one resource: exactly one of Topic, Group, TransactionalID and Cluster is set.
type KafkaACL struct {
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
