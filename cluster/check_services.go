package cluster

import "spore/services"

// checkServices checks the settings of every enabled service.
func (k *checker) checkServices() {
	for _, s := range services.All() {
		if s.Check != nil && k.Services.Has(s.Name) {
			s.Check(k.Checker, k.c.services[s.Name])
		}
	}
}
