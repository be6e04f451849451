package spec

// Defaults of values that are 0 in YAML.
const (
	DefaultMQTTPort = 8883 // IANA secure-mqtt
	DefaultDNSTTL   = 60   // seconds
	DefaultMaxPods  = 110  // what Kubernetes is tested with ("Considerations for large clusters")
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
