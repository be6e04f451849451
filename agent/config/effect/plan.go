// Package effect says what of a new configuration a running node can take at once, and what it takes at its next start,
// and why.
//
// The table is short on purpose. What is taken at once is what one program reads when it starts and nothing else of the
// node stands on: settings of the MQTT broker and of the DNS server, names and addresses of other nodes, resolvers,
// time servers. Who the node is, its network and disks, and all that forms a quorum wait for a start, which is judged
// and taken back as a whole.
package effect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
)

// Input is what a node was told by one configuration.
type Input struct {
	Cluster *facts.Cluster
	Node    *facts.Node
	// Hosts is the hosts file of the cluster part, Keys are its public keys and certificates by name.
	Hosts []byte
	Keys  map[string][]byte
	// Manifests has a hash of what each file of manifests/ holds.
	Manifests map[string]string
}

// Plan is what comes of the difference between two configurations.
type Plan struct {
	// Changes are the settings that differ, sorted, such as services.dns.ttl.
	Changes []string
	// Units are restarted, sorted.
	Units []string
	// Reboot says, for each change that is not taken at once, why.
	Reboot []string
}

// row is what a change of a setting leads to.
type row struct {
	// path is the setting; whatever begins with it is meant.
	path string
	// units are restarted where the node runs them; why is the reason to wait for a start instead.
	units []string
	why   string
	// service limits the reason to nodes that run programs of it; others have nothing to do.
	service string
}

const timesyncd = "systemd-timesyncd.service"

// table is looked at from the top where no service has a row for a setting; the first row that fits counts.
var table = []row{
	{path: "trialMinutes"},
	{path: "trialSettle"},
	{path: "enroll"}, // A node that takes a configuration has its bundle.
	{path: "updates."},
	{path: "withdrawn"},
	{path: "logRights."},
	{path: "nodes"},
	{path: "members."},
	{path: "network.ntpServers", units: []string{timesyncd}},
	{path: "network.", why: "the network is set up at the start"},
	{path: "keys.", why: "whom the node trusts is read at the start (without one: spore pki rotate-ca)"},
	{path: "signingKeys", why: "whom the node trusts is read at the start"},
	{path: "node.", why: "who the node is and what it has is found at the start"},
	{path: "", why: "it is read at the start"},
}

// Compare makes the plan from one configuration to the next.
func Compare(old, fresh Input) (Plan, error) {
	changes, err := differences(old, fresh)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Changes: changes}
	programs := services.NodePrograms(fresh.Cluster, fresh.Node)
	for _, path := range changes {
		for _, r := range rowsOf(path, services.Of(fresh.Cluster), services.Of(old.Cluster)) {
			if r.why != "" && (r.service == "" || fresh.serves(r.service) || old.serves(r.service)) {
				p.Reboot = append(p.Reboot, path+": "+r.why)
			}
			for _, unit := range r.units {
				runs := unit == timesyncd || slices.ContainsFunc(programs, func(p service.Program) bool { return p.Unit == unit })
				if runs && !slices.Contains(p.Units, unit) {
					p.Units = append(p.Units, unit)
				}
			}
		}
	}
	slices.Sort(p.Units)
	return p, nil
}

// rowsOf are the rows of all services that a setting is of, in the first of the lists that has any; where no service
// has one, the first of the table that fits. Of the rows of one service those count that say the most of the path.
func rowsOf(path string, lists ...*services.List) []row {
	if name, _, ok := strings.Cut(strings.TrimPrefix(path, rolesPath), "."); ok && strings.HasPrefix(path, rolesPath) {
		return []row{{path: rolesPath + name, why: "the role is made at the start", service: name}}
	}
	for _, list := range lists {
		var out []row
		for _, s := range list.All() {
			most := 0
			for _, l := range s.Live {
				if isOf(path, l.Path) {
					most = max(most, len(l.Path))
				}
			}
			for _, l := range s.Live {
				if isOf(path, l.Path) && len(l.Path) == most {
					out = append(out, row{path: l.Path, units: l.Units, why: l.Why, service: s.Name})
				}
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return table[slices.IndexFunc(table, func(r row) bool { return strings.HasPrefix(path, r.path) }):][:1]
}

// isOf tells whether a path is what a row of a service means, or is in it. Names are whole: what is said of the service
// kafka is not said of kafka-ui, and what is said of the role worker is not said of worker-exporter.
func isOf(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	if strings.HasSuffix(of, ".") || strings.HasSuffix(of, "/") {
		return ok
	}
	return ok && (rest == "" || rest[0] == '.')
}

// rolesPath is before the definitions of the configuration's own roles, by the names of their services.
const rolesPath = "roles."

// serves tells whether the node has a role of a service.
func (in Input) serves(service string) bool {
	return slices.ContainsFunc(in.Node.Roles, func(name string) bool {
		r, ok := services.Of(in.Cluster).Lookup(name)
		return ok && r.Service == service
	})
}

// differences lists the settings that differ.
func differences(old, fresh Input) ([]string, error) {
	was, err := flatten(old)
	if err != nil {
		return nil, err
	}
	is, err := flatten(fresh)
	if err != nil {
		return nil, err
	}
	var out []string
	for path, v := range was {
		if w, there := is[path]; !there || w != v {
			out = append(out, path)
		}
	}
	for path := range is {
		if _, there := was[path]; !there {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out, nil
}

// flatten is all that an input says, by path. Lists are one value.
func flatten(in Input) (map[string]string, error) {
	out := map[string]string{"hosts": string(in.Hosts)}
	for name, data := range in.Keys {
		out["keys."+name] = string(data)
	}
	for name, hash := range in.Manifests {
		out[name] = hash
	}
	for prefix, v := range map[string]any{"": in.Cluster, "node.": in.Node} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("internal error: compare configurations: %w", err)
		}
		var all map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			return nil, fmt.Errorf("internal error: compare configurations: %w", err)
		}
		walk(out, prefix, all)
	}
	return out, nil
}

func walk(out map[string]string, prefix string, m map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		path := prefix + key
		if inner, ok := m[key].(map[string]any); ok && len(inner) > 0 {
			walk(out, path+".", inner)
			continue
		}
		if v := reflect.ValueOf(m[key]); !v.IsValid() || v.IsZero() {
			continue // Nothing said is nothing said, whatever its form.
		}
		text, _ := json.Marshal(m[key])
		out[path] = string(text)
	}
}
