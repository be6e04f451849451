package spec

// Defaults of values that are 0 in YAML.
const (
	DefaultMaxPods = 110 // what Kubernetes is tested with ("Considerations for large clusters")
)

// KubernetesLine is the release line that payloads/kubernetes pins.
const KubernetesLine = "v1.36"

// DefaultServiceDomain is the DNS domain that people expect of a cluster.
const DefaultServiceDomain = "cluster.local"

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

// EndOfWords is the last word of an image's kernel command line: what is behind it came from elsewhere.
const EndOfWords = "spore.end"

// MaxSlow bounds SlowMachine: it is enough for an emulated processor.
const MaxSlow = 20

// Slow is the factor by which the machines are slower than usual, at least 1.
func (k *Kubernetes) Slow() int {
	if k == nil {
		return 1
	}
	return max(k.SlowMachine, 1)
}

// ServiceDomain is the DNS domain of Kubernetes services.
func (k *Kubernetes) ServiceDomain() string {
	if k == nil || k.DNSDomain == "" {
		return DefaultServiceDomain
	}
	return k.DNSDomain
}

// PodLimit is the most pods that a node runs.
func (k *Kubernetes) PodLimit() int {
	if k == nil || k.MaxPods == 0 {
		return DefaultMaxPods
	}
	return k.MaxPods
}

// PodSecurityLevel is what namespaces without labels enforce.
func (k *Kubernetes) PodSecurityLevel() string {
	if k == nil || k.PodSecurity == "" {
		return PodSecurityBaseline
	}
	return k.PodSecurity
}

// AuditLevel is how much of a request is logged.
func (k *Kubernetes) AuditLevel() string {
	if k == nil || k.Audit == "" {
		return AuditMetadata
	}
	return k.Audit
}

// Defaults of Snapshots.
const (
	defaultSnapshotEvery = 60 // minutes
	defaultSnapshotKeep  = 24
	defaultSnapshotDays  = 7
)

// AllSnapshots is when etcd is saved and how much of it is kept, with the defaults filled in; Days is 0 for none.
func (k *Kubernetes) AllSnapshots() Snapshots {
	var s Snapshots
	if k != nil && k.Snapshots != nil {
		s = *k.Snapshots
	}
	if s.Every == 0 {
		s.Every = defaultSnapshotEvery
	}
	if s.Keep == 0 {
		s.Keep = defaultSnapshotKeep
	}
	if s.Days == 0 {
		s.Days = defaultSnapshotDays
	}
	s.Days = max(s.Days, 0)
	return s
}

// Parts of services, by the names that service.Program.With knows besides those of services.
const (
	// PartEndpoint is the virtual address of the Kubernetes API, which is a setting of the network and not of a service.
	PartEndpoint = "control-plane-endpoint"
)
