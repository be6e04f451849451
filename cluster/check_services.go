package cluster

import (
	"net/netip"
	"regexp"
	"slices"

	"spore/cluster/spec"
	"spore/services"
	"spore/services/dns"
	"spore/services/mqtt"
	"spore/services/service"
)

// checkServices checks the settings of every enabled service.
func (k *checker) checkServices() {
	s := k.c.Services
	if m := mqtt.Of(s); m != nil {
		k.checkMQTT(k.c.services["mqtt"], m)
	}
	if d := dns.Of(s); d != nil {
		k.checkDNS(k.c.services["dns"], d)
	}
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

// membersOf returns the indexes of the nodes with a role.
func (k *checker) membersOf(role string) []int {
	var out []int
	for i := range k.c.Cluster.Nodes {
		if k.hasRole(i, role) {
			out = append(out, i)
		}
	}
	return out
}

// refForm is the syntax of a name in the secret bundle.
var refForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

func (k *checker) secretRef(p place, what string, ref spec.SecretRef) {
	if p.src.has(append(p.path, "secretRef")...) && !refForm.MatchString(ref.SecretRef) {
		k.errorf(p.then("secretRef"), "%s: secretRef %q is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as mqtt-tls-key", what, clip(ref.SecretRef))
	}
}

// forwardersOf returns where the DNS servers' forwarders stand.
func (k *checker) forwardersOf(src *source, s *dns.Settings) ([]string, func(i int) place) {
	if len(s.Forwarders) > 0 {
		return s.Forwarders, func(i int) place { return in(src, "forwarders", i) }
	}
	return k.c.Cluster.Network.Nameservers, func(i int) place { return in(k.c.cluster, "network", "nameservers", i) }
}

// serverOf finds the node that has an address and a role.
func (k *checker) serverOf(a netip.Addr, role string) (int, bool) {
	i, ok := k.owners[a]
	return i, ok && k.hasRole(i, role)
}

// inService reports whether any role of a service is in use.
func (k *checker) inService(name string) bool {
	return slices.ContainsFunc(services.Roles(), func(r service.Role) bool { return r.Service == name && len(k.membersOf(r.Name)) > 0 })
}
