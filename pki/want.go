package pki

import (
	"fmt"
	"net/netip"
	"slices"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
)

// Leaf is a row of Leaves filled in for one node.
type Leaf struct {
	Row service.LeafRow
	// ID is the row's name, and the node behind a slash.
	ID string
	// Node is whom it is for; empty for the operator.
	Node         string
	CommonName   string
	Organization []string
	DNS          []string
	IPs          []netip.Addr
	// Certificate and Key are the bundle entries; empty when the key is made on the node.
	Certificate, Key string
}

// Entry is a row of Secrets filled in for one node.
type Entry struct {
	Row service.SecretRow
	// ID is the row's name, with the node or the user's entry behind a slash where there are several.
	ID string
	// Name is the bundle entry.
	Name string
	// From is the ID of the secret that it is derived from.
	From string
	// Node is whose it is, where each node has one.
	Node string
}

// Share is all that the tables give to one node, or to the operator alone.
type Share struct {
	// Authorities lists the authorities that the node's work depends on, the root first.
	Authorities []service.AuthorityRow
	// Issues lists those of which it holds the key.
	Issues  []service.AuthorityRow
	Leaves  []Leaf
	Secrets []Entry
}

// enabled tells whether a service is switched on and some node runs it.
func enabled(c *facts.Cluster, service string) bool {
	return service == "" || services.Enabled(c, service)
}

// plays tells whether a node is among those that a row names.
func plays(rowRoles []string, n *facts.Node) bool {
	return slices.ContainsFunc(rowRoles, func(r string) bool { return r == service.EveryNode || slices.Contains(n.Roles, r) })
}

// depends tells whether a node works with an authority. Whoever issues for it does.
func depends(l *services.List, a service.AuthorityRow, n *facts.Node) bool {
	if plays(a.Issuers, n) {
		return true
	}
	if len(a.Users) > 0 {
		return plays(a.Users, n)
	}
	return a.Service == "" || slices.ContainsFunc(n.Roles, func(name string) bool {
		r, ok := l.Lookup(name)
		return ok && r.Service == a.Service
	})
}

// ShareOf returns what the tables give to a node.
func ShareOf(c *facts.Cluster, n *facts.Node) (Share, error) {
	var s Share
	l := services.Of(c)
	for _, a := range Authorities(l) {
		if !enabled(c, a.Service) || !depends(l, a, n) {
			continue
		}
		s.Authorities = append(s.Authorities, a)
		if plays(a.Issuers, n) {
			s.Issues = append(s.Issues, a)
		}
	}
	for _, row := range Leaves(l) {
		if !plays(row.Roles, n) || !enabled(c, row.With) || !slices.ContainsFunc(s.Authorities, func(a service.AuthorityRow) bool { return a.Name == row.Authority }) {
			continue
		}
		s.Leaves = append(s.Leaves, fill(row, c, n))
	}
	for _, row := range Secrets(l) {
		if plays(row.Roles, n) && enabled(c, row.Service) {
			s.add(entries(row, c, n))
		}
	}
	return s, s.unique(n)
}

// ShareOfOperator returns what the tables keep for the operator alone.
func ShareOfOperator(c *facts.Cluster) Share {
	var s Share
	l := services.Of(c)
	for _, a := range Authorities(l) {
		if enabled(c, a.Service) {
			s.Authorities = append(s.Authorities, a)
		}
	}
	for _, row := range Leaves(l) {
		if slices.Contains(row.Roles, service.OperatorOnly) && slices.ContainsFunc(s.Authorities, func(a service.AuthorityRow) bool { return a.Name == row.Authority }) {
			s.Leaves = append(s.Leaves, fill(row, c, &facts.Node{}))
		}
	}
	for _, row := range Secrets(l) {
		if slices.Contains(row.Roles, service.OperatorOnly) && enabled(c, row.Service) {
			s.add(entries(row, c, &facts.Node{}))
		}
	}
	return s
}

// add adds secrets, of which one that several services name is there once.
func (s *Share) add(list []Entry) {
	for _, e := range list {
		if !slices.ContainsFunc(s.Secrets, func(o Entry) bool { return o.ID == e.ID }) {
			s.Secrets = append(s.Secrets, e)
		}
	}
}

func fill(row service.LeafRow, c *facts.Cluster, n *facts.Node) Leaf {
	l := Leaf{Row: row, ID: row.Name, Node: n.Name, CommonName: expandOne(row.CommonName, c, n), Organization: row.Organization}
	if n.Name != "" {
		l.ID += "/" + n.Name
	}
	l.DNS, l.IPs = sans(row.SANs, c, n)
	if row.Made == service.Operator {
		l.Certificate, l.Key = expandOne(row.Certificate, c, n), expandOne(row.Key, c, n)
	}
	return l
}

func entries(row service.SecretRow, c *facts.Cluster, n *facts.Node) []Entry {
	switch row.Each {
	case service.OneNode:
		return []Entry{{Row: row, ID: row.Name + "/" + n.Name, Name: row.Entry, From: row.From, Node: n.Name}}
	case service.OneUser:
		var out []Entry
		for _, ref := range userSecrets(row.Service, c) {
			maker := maker(row, ref, c)
			e := Entry{Row: maker, ID: maker.Name + "/" + ref, Name: ref}
			if row.From != "" {
				e.From = row.From + "/" + ref
			}
			out = append(out, e)
		}
		return out
	}
	return []Entry{{Row: row, ID: row.Name, Name: row.Entry, From: row.From}}
}

// maker is the row that makes the entry that a user's row names. Where the settings of a role of the configuration's
// own name what those of another service name too, it is the first of their rows: a password that one checks and the
// other says, such as that of a gateway, is one secret for both.
func maker(row service.SecretRow, ref string, c *facts.Cluster) service.SecretRow {
	l := services.Of(c)
	if !slices.Contains(l.OwnNames(), row.Service) {
		return row
	}
	all := Secrets(l)
	i := slices.IndexFunc(all, func(other service.SecretRow) bool {
		return other.Each == service.OneUser && other.Form == row.Form && enabled(c, other.Service) &&
			slices.Contains(userSecrets(other.Service, c), ref)
	})
	if i < 0 {
		return row
	}
	return all[i]
}

// userSecrets lists the entries that the users of a service name, each once, in their order.
func userSecrets(name string, c *facts.Cluster) []string {
	s, _ := services.Of(c).Find(name)
	if s.UserSecrets == nil {
		return nil
	}
	var out []string
	for _, ref := range s.UserSecrets(c.Services) {
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}

// unique refuses names of the configuration that are names of the table too.
func (s *Share) unique(n *facts.Node) error {
	seen := map[string]string{}
	add := func(name, what string) error {
		if other, twice := seen[name]; twice {
			return fmt.Errorf("node %s: the bundle entry %q would hold both %s and %s; choose another name for it in services/", n.Name, name, other, what)
		}
		seen[name] = what
		return nil
	}
	for _, a := range s.Issues {
		if err := add(a.Key, "the key of "+a.Name); err != nil {
			return err
		}
	}
	for _, l := range s.Leaves {
		if l.Row.Made != service.Operator {
			continue
		}
		if err := add(l.Certificate, "the certificate "+l.Row.Name); err != nil {
			return err
		}
		if err := add(l.Key, "the key of "+l.Row.Name); err != nil {
			return err
		}
	}
	for _, e := range s.Secrets {
		if err := add(e.Name, "the secret "+e.ID); err != nil {
			return err
		}
	}
	return nil
}
