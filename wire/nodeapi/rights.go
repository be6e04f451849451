package nodeapi

import "slices"

// Lookers may look at a node: its status, health, journal, processes and disks.
func Lookers() []Role { return []Role{Reader, Operator, Admin} }

// isPerson tells whether a certificate is that of a person, and not of a program or a node, too.
func (c Caller) isPerson() bool { return c.Is(Lookers()...) && !c.Is(Node, Scraper, Sender) }

// Scrapers may ask for metrics.
func Scrapers() []Role { return []Role{Scraper, Reader, Operator, Admin} }

// Senders may bring what nodes log.
func Senders() []Role { return []Role{Sender} }

// Hands may also do what is undone by itself or by another call: restart, drain, capture, collect.
func Hands() []Role { return []Role{Operator, Admin} }

// Owners may do everything: give nodes another configuration, reset, restore, remove.
func Owners() []Role { return []Role{Admin} }

// Covers tells whether a certificate of the role may do what asks for another one: an administrator may do what an
// operator may, and an operator what a reader may. A node's certificate covers its own role alone.
func (r Role) Covers(need Role) bool {
	if r == need {
		return true
	}
	switch need {
	case Scraper:
		return r == Reader || r == Operator || r == Admin
	case Reader:
		return r == Operator || r == Admin
	case Operator:
		return r == Admin
	}
	return false
}

// RoleOf is the role that a word of cluster.yaml stands for: reader, operator or admin.
func RoleOf(word string) (role Role, found bool) {
	for _, r := range Lookers() {
		if string(r) == "spore:"+word {
			return r, true
		}
	}
	return "", false
}

// IsPerson tells whether a text can stand in a certificate as a person's name.
func IsPerson(name string) bool {
	return name != "" && len(name) <= 64 && made(name, "@._-") && made(name[:1], "")
}

// Listed tells whether a list of cluster.yaml names a caller: by the word for a role (RoleOf), which others may cover,
// or by a person's name. An administrator is named by each.
func (c Caller) Listed(list []string) bool {
	if c.Is(Admin) {
		return true
	}
	for _, who := range list {
		role, isRole := RoleOf(who)
		switch {
		case !isRole && c.Name == who && c.isPerson():
			return true
		case isRole && slices.ContainsFunc(c.Roles, func(r Role) bool { return r.Covers(role) }):
			return true
		}
	}
	return false
}

// Least is the role of the least right among some of people's; it is what a message asks for. It is empty where no
// person may.
func Least(who []Role) Role {
	for _, r := range []Role{Scraper, Reader, Operator, Admin} {
		for _, may := range who {
			if may == r {
				return r
			}
		}
	}
	return ""
}

// Widest is the role of the most rights among some; a node's where there is no other.
func Widest(roles []Role) Role {
	for _, r := range []Role{Admin, Operator, Reader, Scraper, Node, Sender} {
		for _, has := range roles {
			if has == r {
				return r
			}
		}
	}
	return ""
}
