package rules

import (
	"maps"
	"slices"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/role/setting"
)

func (c *checker) ports() {
	c.list(c.in("ports"), "ports", len(c.d.Ports))
	for i, port := range c.d.Ports {
		p := c.in("ports", i)
		c.line(p.Then("for"), "what is to be had at the port", port.For)
		ok := c.Between(p.Then("port"), "the port", port.Port, 1, 65535)
		if port.To != 0 {
			ok = c.Between(p.Then("to"), "the last port", port.To, port.Port+1, 65535) && ok
		}
		if port.Protocol != "" {
			ok = c.OneOf(p.Then("protocol"), "the protocol", port.Protocol, protocols) && ok
		}
		if port.At != "" {
			ok = c.OneOf(p.Then("at"), "where the port is", port.At, scopes) && ok
		}
		if port.Setting != "" {
			ok = c.portSetting(p, port) && ok
		}
		if ok {
			c.free(p, i)
		}
	}
}

// portSetting checks that the number is the default of the setting that it comes from.
func (c *checker) portSetting(p check.Place, port role.Port) bool {
	t, is := c.d.Settings[port.Setting]
	switch n, isNumber := t.Default.(int64); {
	case !is:
		c.unknownSetting(p.Then("setting"), port.Setting)
	case t.Type != setting.Port:
		c.Errorf(p.Then("setting"), "the setting %s is of the type %s; declare it with type: port", port.Setting,
			t.Type)
	case t.Default == nil:
		c.Errorf(c.in("settings", port.Setting), "the setting %s gives a port; add default: %d", port.Setting,
			port.Port)
	case isNumber && n != int64(port.Port):
		c.Errorf(p.Then("port"), "the port is %d, and the default of the setting %s is %d; write the same number",
			port.Port, port.Setting, n)
	case port.To != 0:
		c.Errorf(p.Then("setting"), "a range of ports does not come from a setting; remove setting or to")
	default:
		return true
	}
	return false
}

func (c *checker) unknownSetting(p check.Place, name string) {
	known := slices.Sorted(maps.Keys(c.d.Settings))
	hint := check.Suggest(name, known)
	switch {
	case hint == "" && len(known) > 0:
		hint = "; write " + check.OrWords(known)
	case hint == "":
		hint = "; declare it under settings"
	}
	c.Errorf(p, "the role has no setting %q%s", check.Clip(name), hint)
}

// listener is one of the role's ports.
func listener(d *role.Definition, p role.Port) Listener {
	l := Listener{Protocol: p.Protocol, First: p.Port, Last: max(p.Port, p.To), At: p.At, Whose: "the role " + d.Name,
		Roles: []string{d.Name}}
	if l.Protocol == "" {
		l.Protocol = role.TCP
	}
	if l.At == "" {
		l.At = role.Everywhere
	}
	return l
}

// free refuses a port that something else has on a node with the role. What a setting gives is held to all others by
// package cluster, which knows the number that it gives.
func (c *checker) free(p check.Place, i int) {
	own := listener(c.d, c.d.Ports[i])
	for j := range i {
		if o := listener(c.d, c.d.Ports[j]); own.meets(o) {
			c.Errorf(p.Then("port"), "the port %d/%s is here twice, first at %s; remove one", own.First, own.Protocol,
				c.in("ports", j).Where())
			return
		}
	}
	if c.d.Ports[i].Setting != "" {
		return
	}
	for _, o := range c.rest.Ports {
		if !own.meets(o) {
			continue
		}
		if node, both := c.together(o.Roles); both {
			c.Errorf(p.Then("port"), "port %d/%s is not free on node %s: %s has it; write another port, or give "+
				"node %s one of the two roles", own.First, own.Protocol, c.NodeName(node), o.Whose, c.NodeName(node))
			return
		}
	}
}

// together finds a node with this role and one of others; any node with this role has what is on every node.
func (c *checker) together(roles []string) (int, bool) {
	if c.Cluster == nil || c.Role == nil {
		return 0, false
	}
	for _, node := range c.MembersOf(c.d.Name) {
		if len(roles) == 0 || slices.ContainsFunc(roles, func(r string) bool { return c.HasRole(node, r) }) {
			return node, true
		}
	}
	return 0, false
}
