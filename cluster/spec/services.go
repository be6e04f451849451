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

// Settings are the settings of one service: what its file in services/ of the configuration says, in the service's own
// type.
type Settings interface {
	// Service is the name of the service in cluster.yaml.
	Service() string
}

// Referring are settings that tell which entries of the bundle they name, since the configuration declares their keys
// and no field of their type is a SecretRef.
type Referring interface {
	SecretRefs() []string
}

// Services holds the settings of the enabled services, in the order of the list of services; a service that is not
// enabled has none. It knows no service: Get finds settings by the name of their service, Of by the type that one
// service has for itself, and package services reads them from JSON. Services that a configuration has of its own share
// a type.
type Services []Settings

// Of returns the settings of the type T, which no other service has, or nil where the service is not enabled.
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
		if one.Service() == service && !isNil(one) {
			return one
		}
	}
	return nil
}

// isNil tells whether settings are a nil pointer.
func isNil(one Settings) bool {
	v := reflect.ValueOf(one)
	return v.Kind() == reflect.Pointer && v.IsNil()
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

// UnmarshalJSON is an error: only package services knows the types of settings, and settings that nobody decodes would
// be services that are silently off.
func (s *Services) UnmarshalJSON([]byte) error {
	return errors.New("internal error: settings of services are read with services.ReadCluster")
}
