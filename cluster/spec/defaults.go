package spec

// Defaults of values that are 0 in YAML.
const (
	DefaultMQTTPort = 8883 // IANA secure-mqtt
	DefaultDNSTTL   = 60   // seconds
)

// ListenPort is the TLS listener's port.
func (m *MQTT) ListenPort() int {
	if m.Port == 0 {
		return DefaultMQTTPort
	}
	return m.Port
}

// RecordTTL is the lifetime of records in seconds.
func (d *DNS) RecordTTL() int {
	if d.TTL == 0 {
		return DefaultDNSTTL
	}
	return d.TTL
}
