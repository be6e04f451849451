// Package store is what spore-logs-store is told by the node: spore-agent renders it, and spore-logs-store reads it.
package store

import (
	"encoding/json"
	"fmt"
)

// File is its name in the runtime directory.
const File = "store.json"

// MaxSize bounds it, in bytes.
const MaxSize = 4 << 20

// GiveDir is the folder of the receivers' files, in the program's own data; a receiver's file is NAME.log.
const GiveDir = "give"

// Config is all that spore-logs-store is told.
type Config struct {
	// Cluster is the name of the cluster, and Node that of this node.
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Data is the folder of the program's own data.
	Data string `json:"data"`
	// Roles are the roles of each node of the cluster that has some, sorted and separated by commas.
	Roles map[string]string `json:"roles"`
	// Days is for how many days the store keeps entries.
	Days int `json:"days"`
	// Queue is what the entries on disk may fill that somebody still waits for, in bytes.
	Queue uint64 `json:"queue"`
	// URL is VictoriaLogs, without a slash at the end, which knows who asks by User and what PasswordFile has.
	URL          string `json:"url"`
	User         string `json:"user"`
	PasswordFile string `json:"passwordFile"`
	// Give is who else gets entries from this store; none where the other one gives them on.
	Give []Receiver `json:"give,omitempty"`
}

// Receiver has one of Syslog, Loki, Elasticsearch and File.
type Receiver struct {
	Name string `json:"name"`
	// Sources are the values of _SPORE_SOURCE that it gets.
	Sources []string `json:"sources"`
	// Least is the highest PRIORITY that it gets, from 0 to 7.
	Least         int            `json:"least"`
	Syslog        *Syslog        `json:"syslog,omitempty"`
	Loki          *Loki          `json:"loki,omitempty"`
	Elasticsearch *Elasticsearch `json:"elasticsearch,omitempty"`
	File          *FileReceiver  `json:"file,omitempty"`
}

// Syslog is a server; Transport is udp, tcp or tls.
type Syslog struct {
	Address   string `json:"address"`
	Transport string `json:"transport"`
	// CA has certificates as PEM; those of the system when empty.
	CA string `json:"ca,omitempty"`
}

// Loki is a server. Of PasswordFile, which is with User, and TokenFile it has one, or none.
type Loki struct {
	URL          string `json:"url"`
	Tenant       string `json:"tenant,omitempty"`
	User         string `json:"user,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	TokenFile    string `json:"tokenFile,omitempty"`
	CA           string `json:"ca,omitempty"`
}

// Elasticsearch is a server. Of PasswordFile, which is with User, and APIKeyFile it has one, or none.
type Elasticsearch struct {
	URL          string `json:"url"`
	Index        string `json:"index"`
	User         string `json:"user,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	APIKeyFile   string `json:"apiKeyFile,omitempty"`
	CA           string `json:"ca,omitempty"`
}

// FileReceiver is a file below GiveDir.
type FileReceiver struct {
	// Size is what it and the one before it may fill together, in bytes.
	Size uint64 `json:"size"`
}

// Parse reads the file.
func Parse(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s is malformed: %w", File, err)
	}
	return c, nil
}
