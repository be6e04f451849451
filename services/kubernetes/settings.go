package kubernetes

import "spore/cluster/spec"

// Settings is configs/services/kubernetes.yaml. An empty file takes the defaults.
type Settings struct {
	// Version is the release line, v1.36, when a change of it is to be an error; an image carries one line.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// SlowMachine lengthens etcd's heartbeats, leases, probes and time limits by this factor, for slow hardware or emulation; 1 when 0, at most 20.
	SlowMachine int `yaml:"slowMachine,omitempty" json:"slowMachine,omitempty"`
	// DNSDomain is the DNS domain of Kubernetes services; cluster.local when empty. Do not change it later.
	DNSDomain string `yaml:"dnsDomain,omitempty" json:"dnsDomain,omitempty"`
	// MaxPods is the most pods that a node runs; 110 when 0.
	MaxPods int `yaml:"maxPods,omitempty" json:"maxPods,omitempty"`
	// PodSecurity is the Pod Security Standard that namespaces without labels enforce: privileged, baseline (default) or restricted.
	PodSecurity string `yaml:"podSecurity,omitempty" json:"podSecurity,omitempty"`
	// Audit is how much of each request that changes something is logged: none, metadata (default) or request, which adds bodies but those of secrets.
	Audit string `yaml:"audit,omitempty" json:"audit,omitempty"`
	// Snapshots says when the database of the cluster is saved, and how much of that is kept; never nothing.
	Snapshots *Snapshots `yaml:"snapshots,omitempty" json:"snapshots,omitempty"`
	// Images lists container images that are laid into the image: OCI archives as paths in the configuration folder that end in .tar, or references NAME:TAG@sha256:DIGEST that the build pulls.
	Images []string `yaml:"images,omitempty" json:"images,omitempty"`
}

// Snapshots is how often etcd is saved and how much of that each master keeps.
type Snapshots struct {
	// Every is the time between two snapshots in minutes, at least 10; 60 when 0.
	Every int `yaml:"every,omitempty" json:"every,omitempty"`
	// Keep is how many of the newest are kept; 24 when 0.
	Keep int `yaml:"keep,omitempty" json:"keep,omitempty"`
	// Days is of how many days the last one is kept besides; 7 when 0, none when -1.
	Days int `yaml:"days,omitempty" json:"days,omitempty"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }

// defaultMaxPods is what Kubernetes is tested with ("Considerations for large clusters").
const defaultMaxPods = 110

// Line is the release line that payloads/kubernetes pins.
const Line = "v1.36"

// defaultServiceDomain is the DNS domain that people expect of a cluster.
const defaultServiceDomain = "cluster.local"

// Pod Security Standards.
const (
	PodSecurityPrivileged = "privileged"
	PodSecurityBaseline   = "baseline"
	PodSecurityRestricted = "restricted"
)

// Levels of the audit log.
const (
	AuditNone     = "none"
	AuditMetadata = "metadata"
	AuditRequest  = "request"
)

// PauseImage is the image of the container that holds a pod's namespaces; it is in every image with Kubernetes.
const PauseImage = "spore.local/pause:1"

// Slow is the factor by which the machines are slower than usual, at least 1.
func (s *Settings) Slow() int {
	if s == nil {
		return 1
	}
	return max(s.SlowMachine, 1)
}

// ServiceDomain is the DNS domain of Kubernetes services.
func (s *Settings) ServiceDomain() string {
	if s == nil || s.DNSDomain == "" {
		return defaultServiceDomain
	}
	return s.DNSDomain
}

// PodLimit is the most pods that a node runs.
func (s *Settings) PodLimit() int {
	if s == nil || s.MaxPods == 0 {
		return defaultMaxPods
	}
	return s.MaxPods
}

// PodSecurityLevel is what namespaces without labels enforce.
func (s *Settings) PodSecurityLevel() string {
	if s == nil || s.PodSecurity == "" {
		return PodSecurityBaseline
	}
	return s.PodSecurity
}

// AuditLevel is how much of a request is logged.
func (s *Settings) AuditLevel() string {
	if s == nil || s.Audit == "" {
		return AuditMetadata
	}
	return s.Audit
}

// Defaults of Snapshots.
const (
	defaultSnapshotEvery = 60 // minutes
	defaultSnapshotKeep  = 24
	defaultSnapshotDays  = 7
)

// AllSnapshots is when etcd is saved and how much of it is kept, with the defaults filled in; Days is 0 for none.
func (s *Settings) AllSnapshots() Snapshots {
	var out Snapshots
	if s != nil && s.Snapshots != nil {
		out = *s.Snapshots
	}
	if out.Every == 0 {
		out.Every = defaultSnapshotEvery
	}
	if out.Keep == 0 {
		out.Keep = defaultSnapshotKeep
	}
	if out.Days == 0 {
		out.Days = defaultSnapshotDays
	}
	out.Days = max(out.Days, 0)
	return out
}
