// Package bridge is what the bridge of alerts is told by the node: spore-agent renders it, and spore-alerts reads it.
package bridge

import (
	"encoding/json"
	"fmt"
)

// File is its name in the runtime directory.
const File = "bridge.json"

// MaxSize bounds it, in bytes.
const MaxSize = 4 << 20

// Paths that Alertmanager posts to.
const (
	// ReceiverPath is that of a receiver, with its name behind it.
	ReceiverPath = "/receivers/"
	// HeartbeatPath is that of the rule that always fires.
	HeartbeatPath = "/heartbeat"
)

// Config is all that the bridge is told.
type Config struct {
	// Listen is its address, on the node itself.
	Listen string `json:"listen"`
	// PasswordFile has the bearer token by which Alertmanager is known.
	PasswordFile string `json:"passwordFile"`
	// Cluster and Node are in what it sends.
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Receivers are what it reaches, by name.
	Receivers map[string]Receiver `json:"receivers,omitempty"`
	// Heartbeat is where the heartbeat goes; nil without one.
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
}

// Receiver has one of its fields.
type Receiver struct {
	MQTT   *MQTT   `json:"mqtt,omitempty"`
	Syslog *Syslog `json:"syslog,omitempty"`
}

// MQTT is a topic of a broker that speaks TLS.
type MQTT struct {
	Address      string `json:"address"`
	Topic        string `json:"topic"`
	User         string `json:"user"`
	PasswordFile string `json:"passwordFile"`
	// CA has certificates as PEM; those of the system when empty.
	CA string `json:"ca,omitempty"`
}

// Syslog is a server; Transport is udp, tcp or tls.
type Syslog struct {
	Address   string `json:"address"`
	Transport string `json:"transport"`
	CA        string `json:"ca,omitempty"`
}

// Heartbeat has one of its fields, or both.
type Heartbeat struct {
	HTTP *HTTP `json:"http,omitempty"`
	MQTT *MQTT `json:"mqtt,omitempty"`
}

// HTTP is a place that is asked by POST: URL, or what URLFile has.
type HTTP struct {
	URL       string `json:"url,omitempty"`
	URLFile   string `json:"urlFile,omitempty"`
	TokenFile string `json:"tokenFile,omitempty"`
}

// Parse reads the file.
func Parse(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s is malformed: %w", File, err)
	}
	return c, nil
}
