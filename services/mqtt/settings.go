package mqtt

import "spore/cluster/spec"

// Settings is configs/services/mqtt.yaml, for mosquitto.
type Settings struct {
	// Port is the TLS listener's port; 8883 when 0.
	Port int `yaml:"port,omitempty" json:"port,omitempty"`
	// TLS names the listener's certificate and key.
	TLS TLS `yaml:"tls" json:"tls"`
	// Users may connect; nobody else may.
	Users []User `yaml:"users" json:"users"`
	// MaxConnections limits clients; -1 or 0 means no limit.
	MaxConnections int `yaml:"maxConnections,omitempty" json:"maxConnections,omitempty"`
	// MessageSizeLimit is the largest payload in bytes; 0 means the protocol's limit.
	MessageSizeLimit int `yaml:"messageSizeLimit,omitempty" json:"messageSizeLimit,omitempty"`
}

// TLS names the PEM certificate chain and key of the listener in the bundle.
type TLS struct {
	// Certificate is the certificate chain.
	Certificate spec.SecretRef `yaml:"certificate" json:"certificate"`
	// Key is the private key.
	Key spec.SecretRef `yaml:"key" json:"key"`
}

// User is one client account.
type User struct {
	// Name is what the client calls itself.
	Name string `yaml:"name" json:"name"`
	// Password names the entry that holds the password.
	Password spec.SecretRef `yaml:"password" json:"password"`
	// ACL holds what the user may do; nothing when empty.
	ACL []ACL `yaml:"acl,omitempty" json:"acl,omitempty"`
}

// ACL allows access to a topic filter.
type ACL struct {
	// Topic is an MQTT topic filter, with + and # as wildcards.
	Topic string `yaml:"topic" json:"topic"`
	// Access is read, write, readwrite or deny.
	Access string `yaml:"access" json:"access"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }

// How the collector of metrics asks the broker: MetricsSocket and MetricsPassword are names of files in the program's
// runtime directory. MetricsUser begins with a sign that no user of mqtt.yaml can begin with.
const (
	MetricsUser     = "_spore-metrics"
	MetricsSocket   = "metrics.sock"
	MetricsPassword = "metrics-password"
)

// DefaultPort is the port where mqtt.yaml names none (IANA: secure-mqtt).
const DefaultPort = 8883

// ListenPort is the TLS listener's port.
func (s *Settings) ListenPort() int {
	if s.Port == 0 {
		return DefaultPort
	}
	return s.Port
}
