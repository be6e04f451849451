package dashboard

import "spore/cluster/spec"

// DefaultPort is the port where dashboard.yaml names none.
const DefaultPort = 8644

// Settings is configs/services/dashboard.yaml.
type Settings struct {
	// Port is where browsers ask, 1024 to 65535; 8644 when 0.
	Port int `yaml:"port,omitempty" json:"port,omitempty"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }

// ListenPort is Port with its default.
func (s *Settings) ListenPort() int {
	if s == nil || s.Port == 0 {
		return DefaultPort
	}
	return s.Port
}
