package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// SecretRef names an entry of the node's secret bundle. A secret itself never stands in YAML.
type SecretRef struct {
	// SecretRef is the entry's name: 1 to 63 lower-case letters, digits and -.
	SecretRef string `yaml:"secretRef" json:"secretRef"`
}

// Settings are the settings of one service: what its file in services/ of the configuration says, in the service's own type.
type Settings interface {
	// Service is the name of the service in cluster.yaml.
	Service() string
}

// Services holds the settings of the enabled services, in the order of the list of services; a service that is not enabled
// has none. It knows no service: Of finds settings by their type, and package services reads them from JSON.
type Services []Settings

// Of returns the settings of the type T, which is a service's own, or nil where the service is not enabled.
func Of[T any](s Services) *T {
	for _, one := range s {
		if found, ok := any(one).(*T); ok {
			return found
		}
	}
	return nil
}

// Get returns the settings of a service; nil when it has none.
func (s Services) Get(service string) Settings {
	for _, one := range s {
		if one.Service() == service && !reflect.ValueOf(one).IsNil() {
			return one
		}
	}
	return nil
}

// Has tells whether a service has settings.
func (s Services) Has(service string) bool { return s.Get(service) != nil }

// Set puts settings in the place of those of the same service, or behind the others.
func (s *Services) Set(settings Settings) {
	out := slices.Clone(*s)
	if i := slices.IndexFunc(out, func(one Settings) bool { return one.Service() == settings.Service() }); i >= 0 {
		out[i] = settings
	} else {
		out = append(out, settings)
	}
	*s = out
}

// Remove takes away the settings of services.
func (s *Services) Remove(services ...string) {
	*s = slices.DeleteFunc(slices.Clone(*s), func(one Settings) bool { return slices.Contains(services, one.Service()) })
}

// MarshalJSON writes the settings by the names of the services.
func (s Services) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for _, one := range s {
		if !s.Has(one.Service()) {
			continue
		}
		text, err := json.Marshal(one)
		if err != nil {
			return nil, fmt.Errorf("settings of %s: %w", one.Service(), err)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(strconv.AppendQuote(b, one.Service()), ':'), text...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON is an error: only package services knows the types of settings, and settings that nobody decodes would be
// services that are silently off.
func (s *Services) UnmarshalJSON([]byte) error {
	return errors.New("internal error: settings of services are read with services.ReadCluster")
}

// The service that has its type here still.

// Service is the name of the service.
func (*Kubernetes) Service() string { return "kubernetes" }

// Kubernetes are the settings of Kubernetes; nil when it is not enabled.
func (s Services) Kubernetes() *Kubernetes { return Of[Kubernetes](s) }

// Kubernetes is configs/services/kubernetes.yaml. An empty file takes the defaults.
type Kubernetes struct {
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
