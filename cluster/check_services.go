package cluster

import (
	"slices"

	"spore/services"
	"spore/services/service"
)

// checkServices checks the settings of every enabled service.
func (k *checker) checkServices() {
	for _, s := range services.All() {
		if s.Check != nil && k.Services.Has(s.Name) {
			s.Check(k.Checker, k.c.services[s.Name])
		}
	}
	s := k.Services // of those whose checks are here still
	if s.Kubernetes() != nil {
		k.checkKubernetes(k.c.services["kubernetes"], s.Kubernetes())
	}
	if s.Kafka() != nil {
		k.checkKafka(k.c.services["kafka"], s.Kafka())
	}
	if s.Ceph() != nil {
		k.checkCeph(k.c.services["ceph"], s.Ceph())
	}
}

// inService reports whether any role of a service is in use.
func (k *checker) inService(name string) bool {
	return slices.ContainsFunc(services.Roles(), func(r service.Role) bool { return r.Service == name && len(k.MembersOf(r.Name)) > 0 })
}
