package cluster

import (
	"net/netip"
	"regexp"
	"slices"

	"spore/cluster/roles"
	"spore/cluster/spec"
)

// checkServices checks the settings of every enabled service.
func (k *checker) checkServices() {
	s := &k.c.Services
	if s.MQTT != nil {
		k.checkMQTT(k.c.services["mqtt"], s.MQTT)
	}
	if s.DNS != nil {
		k.checkDNS(k.c.services["dns"], s.DNS)
	}
	if s.Kubernetes != nil {
		k.checkKubernetes(k.c.services["kubernetes"], s.Kubernetes)
	}
	if s.Kafka != nil {
		k.checkKafka(k.c.services["kafka"], s.Kafka)
	}
	if s.Ceph != nil {
		k.checkCeph(k.c.services["ceph"], s.Ceph)
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

// failureDomains are CRUSH bucket types.
var failureDomains = []string{"host", "osd"}

// defaultPoolSize is the number of copies that Ceph keeps unless told otherwise (osd_pool_default_size).
const defaultPoolSize = 3

func (k *checker) checkCeph(src *source, s *spec.Ceph) {
	p := in(src)
	size := s.PoolSize
	if size == 0 {
		size = defaultPoolSize
	} else {
		p = in(src, "poolSize")
	}
	if !k.between(p, "poolSize", size, 1, 10) {
		return
	}
	domain := s.FailureDomain
	if domain == "" {
		domain = "host"
	} else if !k.oneOf(in(src, "failureDomain"), "the failure domain", domain, failureDomains) {
		return
	}
	hosts, disks := k.membersOf("ceph-osd"), 0
	for _, i := range hosts {
		if f, ok := k.files[k.c.Cluster.Nodes[i].Name]; ok {
			for _, d := range k.c.NodeFiles[f].Disks {
				if d.Use == "osd" {
					disks++
				}
			}
		}
	}
	have, what := len(hosts), "nodes with OSDs"
	if domain == "osd" {
		have, what = disks, "OSD disks"
	}
	switch {
	case have > 0 && size > have:
		k.errorf(p, "poolSize %d with failureDomain %s needs %d %s, and there are %d, so pools would never be clean; lower poolSize or add disks", size, domain, size, what, have)
	case size == 1:
		k.warningf(p, "with poolSize 1 every disk that fails loses data; write 2, or better 3")
	}
}

// forwardersOf returns where the DNS servers' forwarders stand.
func (k *checker) forwardersOf(src *source, s *spec.DNS) ([]string, func(i int) place) {
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
func (k *checker) inService(service string) bool {
	return slices.ContainsFunc(roles.Roles(), func(r roles.Role) bool { return r.Service == service && len(k.membersOf(r.Name)) > 0 })
}
