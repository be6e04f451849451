// Package roles is the one table of what a machine can be: role, systemd target, services, their units, Debian packages,
// payloads, ports, users and whether they need secrets. Adding a service touches one row here, its unit, its template and
// its test.
package roles

// Role is one row of the contract between cluster.yaml and the image.
type Role struct {
	// Name is the canonical name.
	Name string
	// Aliases are other spellings that cluster.yaml may use.
	Aliases []string
	// Target is the systemd target that the agent starts.
	Target string
	// Service is the entry of cluster.yaml's services list that the role belongs to.
	Service string
	// Programs names what the target runs, each a row of Programs; empty while the image cannot run the role.
	Programs []string
}

// Program is one service program of the image.
type Program struct {
	// Name is the program's name and the argument of `spore-agent render`.
	Name string `json:"name"`
	// Unit is its systemd service.
	Unit string `json:"unit"`
	// Packages are Debian packages that carry it.
	Packages []string `json:"packages,omitempty"`
	// Payloads are entries of payloads/ that carry it.
	Payloads []string `json:"payloads,omitempty"`
	// Ports are its listeners, as port/protocol.
	Ports []string `json:"ports,omitempty"`
	// User is the account that it runs as.
	User string `json:"user"`
	// Secrets are the entries of the node's bundle that it is given.
	Secrets []string `json:"secrets,omitempty"`
	// NeedsSecrets gives it those entries, too, that its service's settings name. A role is held back until its programs
	// have what they are to be given.
	NeedsSecrets bool `json:"needsSecrets"`
}

// Roles lists every role, in the order in which people think of them.
func Roles() []Role {
	return []Role{
		{Name: "control-plane", Aliases: []string{"master"}, Target: "kubernetes-master.target", Service: "kubernetes"},
		{Name: "worker", Target: "kubernetes-worker.target", Service: "kubernetes"},
		{Name: "kafka-broker", Target: "kafka.target", Service: "kafka"},
		{Name: "ceph-mon", Target: "ceph-mon.target", Service: "ceph"},
		{Name: "ceph-osd", Target: "ceph-osd.target", Service: "ceph"},
		{Name: "mqtt-broker", Target: "mqtt.target", Service: "mqtt", Programs: []string{"mosquitto"}},
		{Name: "dns-server", Target: "dns.target", Service: "dns", Programs: []string{"coredns"}},
	}
}

// Programs lists every service program that an image can carry.
func Programs() []Program {
	return []Program{
		{Name: "mosquitto", Unit: "mosquitto.service", Packages: []string{"mosquitto"}, Ports: []string{"8883/tcp"}, User: "mosquitto", NeedsSecrets: true},
		{Name: "coredns", Unit: "coredns.service", Payloads: []string{"coredns"}, Ports: []string{"53/udp", "53/tcp"}, User: "coredns"},
	}
}

// Lookup finds a role by its name or alias.
func Lookup(name string) (Role, bool) {
	for _, r := range Roles() {
		if r.Name == name {
			return r, true
		}
		for _, a := range r.Aliases {
			if a == name {
				return r, true
			}
		}
	}
	return Role{}, false
}

// LookupProgram finds a program by its name.
func LookupProgram(name string) (Program, bool) {
	for _, p := range Programs() {
		if p.Name == name {
			return p, true
		}
	}
	return Program{}, false
}
