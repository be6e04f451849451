package kubernetes

import "spore/cluster/spec"

// Settings is configs/services/kubernetes.yaml. An empty file takes the defaults.
type Settings struct {
	// Version is the release line, v1.36, when a change of it is to be an error; an image carries one line.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// SlowMachine lengthens etcd's heartbeats, leases, probes and time limits by this factor, for slow hardware or
	// emulation; 1 when 0, at most 20.
	SlowMachine int `yaml:"slowMachine,omitempty" json:"slowMachine,omitempty"`
	// DNSDomain is the DNS domain of Kubernetes services; cluster.local when empty. Do not change it later.
	DNSDomain string `yaml:"dnsDomain,omitempty" json:"dnsDomain,omitempty"`
	// MaxPods is the most pods that a node runs; 110 when 0.
	MaxPods int `yaml:"maxPods,omitempty" json:"maxPods,omitempty"`
	// PodSecurity is the Pod Security Standard that namespaces without labels enforce: privileged, baseline (default) or
	// restricted.
	PodSecurity string `yaml:"podSecurity,omitempty" json:"podSecurity,omitempty"`
	// Audit is how much of each request that changes something is logged: none, metadata (default) or request, which adds
	// bodies but those of secrets.
	Audit string `yaml:"audit,omitempty" json:"audit,omitempty"`
	// Snapshots says when the database of the cluster is saved, and how much of that is kept; never nothing.
	Snapshots *Snapshots `yaml:"snapshots,omitempty" json:"snapshots,omitempty"`
	// OIDC has the API server take people's tokens of an issuer as Kubernetes knows them (oidc); without it, certificates
	// alone say who people are.
	OIDC *OIDC `yaml:"oidc,omitempty" json:"oidc,omitempty"`
	// Images lists container images that are laid into the image: OCI archives as paths in the configuration folder that
	// end in .tar, or references NAME:TAG@sha256:DIGEST that the build pulls.
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

// OIDC is an issuer of tokens, and what of them says who somebody is.
type OIDC struct {
	// Issuer is the issuer's https address, exactly as its tokens have it (iss).
	Issuer string `yaml:"issuer" json:"issuer"`
	// ClientID is for whom the tokens have to be (aud).
	ClientID string `yaml:"clientID" json:"clientID"`
	// UsernameClaim is the claim with the person's name; sub when empty. A claim email counts only where the issuer has
	// verified it.
	UsernameClaim string `yaml:"usernameClaim,omitempty" json:"usernameClaim,omitempty"`
	// GroupsClaim is the claim with the person's groups; without it, people have none.
	GroupsClaim string `yaml:"groupsClaim,omitempty" json:"groupsClaim,omitempty"`
	// Prefix is put before names and groups, so that the issuer can give nobody a name of Kubernetes' own or of Spore's;
	// "oidc:" when empty.
	Prefix string `yaml:"prefix,omitempty" json:"prefix,omitempty"`
	// CertificateAuthority holds, as PEM, the certificates that the issuer's is verified with; those of the image when
	// empty.
	CertificateAuthority string `yaml:"certificateAuthority,omitempty" json:"certificateAuthority,omitempty"`
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

// Defaults of OIDC.
const (
	defaultUsernameClaim = "sub"
	defaultOIDCPrefix    = "oidc:"
)

// People is the issuer with the defaults filled in; nil without one.
func (s *Settings) People() *OIDC {
	if s == nil || s.OIDC == nil {
		return nil
	}
	out := *s.OIDC
	if out.UsernameClaim == "" {
		out.UsernameClaim = defaultUsernameClaim
	}
	if out.Prefix == "" {
		out.Prefix = defaultOIDCPrefix
	}
	return &out
}

// ServiceAccountIssuer is the issuer of the tokens of service accounts.
func (s *Settings) ServiceAccountIssuer() string {
	return "https://kubernetes.default.svc." + s.ServiceDomain()
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
