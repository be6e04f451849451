package cluster

// checkServices checks the settings of every enabled service.
func (k *checker) checkServices() {
	for _, s := range k.list.All() {
		if s.Check != nil && k.Services.Has(s.Name) {
			s.Check(k.Checker, k.c.services[s.Name])
		}
	}
}
