package logs

import (
	"slices"

	"spore/cluster/role/setting"
	"spore/cluster/spec"
)

// Settings is configs/services/logs.yaml.
type Settings struct {
	// Days is for how many days entries are kept; 30 when 0.
	Days int `yaml:"days,omitempty" json:"days,omitempty"`
	// Size is what entries and their index may fill on the disk of a store, such as 200GiB; the oldest days go where
	// they fill more. Without a bound when empty.
	Size string `yaml:"size,omitempty" json:"size,omitempty"`
	// Queue is what entries may fill on the disk of a store that wait for a receiver of Give, or for the store itself;
	// 2GiB when empty.
	Queue string `yaml:"queue,omitempty" json:"queue,omitempty"`
	// Give is who else gets entries, as they come. Of two stores one gives them on.
	Give []Receiver `yaml:"give,omitempty" json:"give,omitempty"`
}

// Receiver is a server, or a file, that gets entries, in one way.
type Receiver struct {
	// Name is in logs and metrics.
	Name string `yaml:"name" json:"name"`
	// Sources are which entries it gets: journal, pod (what containers of pods write) and audit (the audit log of
	// Kubernetes); all when empty.
	Sources []string `yaml:"sources,omitempty" json:"sources,omitempty"`
	// Priority is the least important one that it gets, in the words of syslog, such as warning. An entry that has none
	// counts as info. All when empty.
	Priority string `yaml:"priority,omitempty" json:"priority,omitempty"`
	// Syslog is a server that takes lines of RFC 5424.
	Syslog *Syslog `yaml:"syslog,omitempty" json:"syslog,omitempty"`
	// Loki is a server with the HTTP interface of Loki.
	Loki *Loki `yaml:"loki,omitempty" json:"loki,omitempty"`
	// Elasticsearch is a server with the HTTP interface of Elasticsearch.
	Elasticsearch *Elasticsearch `yaml:"elasticsearch,omitempty" json:"elasticsearch,omitempty"`
	// File is a file on the store's disk.
	File *File `yaml:"file,omitempty" json:"file,omitempty"`
}

// Syslog is a server of syslog.
type Syslog struct {
	// Address is the server's name or address, with its port.
	Address string `yaml:"address" json:"address"`
	// Transport is udp, tcp or tls; tls when empty.
	Transport string `yaml:"transport,omitempty" json:"transport,omitempty"`
	// CA is whose certificates the server has: certificates as PEM, or the authorities that Debian knows when empty.
	CA string `yaml:"ca,omitempty" json:"ca,omitempty"`
}

// Loki is a server with the HTTP interface of Loki. It wants a user with a password, a token, or nothing.
type Loki struct {
	// URL is the server, such as https://loki.plant.example:3100. It holds nothing secret.
	URL string `yaml:"url" json:"url"`
	// Tenant is the organization of Loki; none when empty.
	Tenant string `yaml:"tenant,omitempty" json:"tenant,omitempty"`
	// User is the account of the server.
	User string `yaml:"user,omitempty" json:"user,omitempty"`
	// Password names the entry of its password.
	Password *spec.SecretRef `yaml:"password,omitempty" json:"password,omitempty"`
	// Token names the entry of a bearer token.
	Token *spec.SecretRef `yaml:"token,omitempty" json:"token,omitempty"`
	// CA is whose certificates the server has: certificates as PEM, or the authorities that Debian knows when empty.
	CA string `yaml:"ca,omitempty" json:"ca,omitempty"`
}

// Elasticsearch is a server with the HTTP interface of Elasticsearch. It wants a user with a password, a key, or
// nothing.
type Elasticsearch struct {
	// URL is the server, such as https://search.plant.example:9200. It holds nothing secret.
	URL string `yaml:"url" json:"url"`
	// Index is the index, or the data stream, that entries go into.
	Index string `yaml:"index" json:"index"`
	// User is the account of the server.
	User string `yaml:"user,omitempty" json:"user,omitempty"`
	// Password names the entry of its password.
	Password *spec.SecretRef `yaml:"password,omitempty" json:"password,omitempty"`
	// APIKey names the entry of a key of the server, in base64.
	APIKey *spec.SecretRef `yaml:"apiKey,omitempty" json:"apiKey,omitempty"`
	// CA is whose certificates the server has: certificates as PEM, or the authorities that Debian knows when empty.
	CA string `yaml:"ca,omitempty" json:"ca,omitempty"`
}

// File is a file on the store's disk, in the folder give of what spore-logs-store keeps (/var/lib/spore-logs-store
// where the store has no disk of its own), which begins anew when it is full; the one before stays.
type File struct {
	// Size is what both may fill together, such as 1GiB.
	Size string `yaml:"size" json:"size"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }

const (
	defaultDays  = 30
	defaultQueue = 2 << 30
)

// Sources are the values of the field _SPORE_SOURCE.
var Sources = []string{"journal", "pod", "audit"}

// Priorities are the words of syslog for 0 to 7 (RFC 5424, section 6.2.1), as journalctl(1) has them.
var Priorities = []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

// transports are those of syslog.
var transports = []string{"tls", "tcp", "udp"}

// KeptDays is for how many days entries are kept.
func (s *Settings) KeptDays() int {
	if s.Days == 0 {
		return defaultDays
	}
	return s.Days
}

// Bytes is what the data of the store may fill; 0 is without a bound.
func (s *Settings) Bytes() uint64 { return bytes(s.Size, 0) }

// QueueBytes is what may wait on the disk of a store.
func (s *Settings) QueueBytes() uint64 { return bytes(s.Queue, defaultQueue) }

// Bytes is what the file and the one before it may fill together.
func (f File) Bytes() uint64 { return bytes(f.Size, 0) }

func bytes(size string, otherwise uint64) uint64 {
	n, err := setting.ParseSize(size)
	if err != nil { // Empty; others are refused before.
		return otherwise
	}
	return uint64(n)
}

// Of is which sources a receiver gets entries of.
func (r Receiver) Of() []string {
	if len(r.Sources) == 0 {
		return Sources
	}
	return r.Sources
}

// Least is the highest number of PRIORITY that a receiver gets: 7, which is everything, where it says nothing.
func (r Receiver) Least() int {
	if i := slices.Index(Priorities, r.Priority); i >= 0 {
		return i
	}
	return len(Priorities) - 1
}

// Way is how the syslog server is reached.
func (s Syslog) Way() string {
	if s.Transport == "" {
		return "tls"
	}
	return s.Transport
}

// secrets are the entries that the settings name.
func secrets(s spec.Services) []string {
	var out []string
	add := func(refs ...*spec.SecretRef) {
		for _, r := range refs {
			if r != nil && r.SecretRef != "" && !slices.Contains(out, r.SecretRef) {
				out = append(out, r.SecretRef)
			}
		}
	}
	settings := Of(s)
	if settings == nil {
		return nil
	}
	for _, r := range settings.Give {
		if r.Loki != nil {
			add(r.Loki.Password, r.Loki.Token)
		}
		if r.Elasticsearch != nil {
			add(r.Elasticsearch.Password, r.Elasticsearch.APIKey)
		}
	}
	return out
}
