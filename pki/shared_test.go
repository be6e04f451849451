package pki

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/service"
)

// guest is a role of a configuration's own whose settings name one password.
type guest struct{ name, password string }

func (g guest) Service() service.Service {
	return service.Service{
		Name:     g.name,
		Roles:    []service.Role{{Name: g.name, Target: g.name + ".target", Programs: []string{g.name}}},
		Programs: []service.Program{{Name: g.name, Unit: g.name + ".service", User: g.name, NeedsSecrets: true}},
		Settings: func() spec.Settings { return &guestSettings{g.name} },
		Secrets: []service.SecretRow{{
			Name: g.name + "-settings", Roles: []string{g.name}, Each: service.OneUser, Entry: "{user-secret}",
			Form: service.FormPassword, Given: true,
		}},
		UserSecrets: func(s spec.Services) []string {
			if !s.Has(g.name) {
				return nil
			}
			return []string{g.password}
		},
	}
}

type guestSettings struct{ name string }

func (s *guestSettings) Service() string { return s.name }

// withGuests is the six-node cluster with roles of its own on edge-01.
func withGuests(t *testing.T, guests ...guest) (*facts.Cluster, []facts.Node) {
	t.Helper()
	c, nodes := sixNodes(t)
	var all []services.Definition
	for _, g := range guests {
		all = append(all, g)
	}
	l, err := services.With(all)
	require.NoError(t, err)
	c.Roles = l.Facts()
	edge := node(t, nodes, "edge-01")
	for _, g := range guests {
		c.Services.Set(&guestSettings{g.name})
		c.Members[g.name] = []string{"edge-01"}
		edge.Roles = append(edge.Roles, g.name)
	}
	return c, nodes
}

// entry is what edge-01 is given under a name, and its ID.
func entry(t *testing.T, tree *Tree, c *facts.Cluster, nodes []facts.Node, name string) (string, Secret) {
	t.Helper()
	s, err := ShareOf(c, node(t, nodes, "edge-01"))
	require.NoError(t, err)
	for _, e := range s.Secrets {
		if e.Name == name {
			require.NotNil(t, tree.Secrets[e.ID], e.ID)
			return e.ID, *tree.Secrets[e.ID]
		}
	}
	require.Fail(t, "edge-01 is given no "+name)
	return "", Secret{}
}

func TestASharedPasswordStaysWhenRolesComeAndGo(t *testing.T) {
	gateway, alarm := guest{"gateway", "line"}, guest{"alarm", "line"}
	c, nodes := withGuests(t, gateway)
	tree := New(c)
	brought := options(begin)
	brought.Given = map[string]Hidden{"line": "of the operator"}
	_, err := tree.Update(c, nodes, brought)
	require.NoError(t, err)
	id, first := entry(t, tree, c, nodes, "line")
	require.Equal(t, "gateway-settings/line", id)

	c, nodes = withGuests(t, alarm, gateway)
	require.Equal(t, []Change{{"alarm-settings/line", "kept", "it was gateway-settings/line"}},
		update(t, tree, c, nodes, begin.Add(day)))
	id, is := entry(t, tree, c, nodes, "line")
	require.Equal(t, "alarm-settings/line", id)
	require.Equal(t, first, is, "the value, that it was brought, and when it was made")
	require.Empty(t, update(t, tree, c, nodes, begin.Add(day)))

	brought = options(begin.Add(2 * day))
	brought.Given = map[string]Hidden{"line": "another one"}
	_, err = tree.Update(c, nodes, brought)
	require.NoError(t, err)
	c, nodes = withGuests(t, gateway)
	update(t, tree, c, nodes, begin.Add(3*day))
	id, is = entry(t, tree, c, nodes, "line")
	require.Equal(t, "gateway-settings/line", id)
	require.Equal(t, Hidden("another one"), is.Value, "the last that was brought, not that of the first tree")
	require.True(t, is.Given)
	require.NotContains(t, tree.Secrets, "alarm-settings/line")
}

func TestAPasswordStaysWhenAServiceOfOursNamesItToo(t *testing.T) {
	bridge := guest{"bridge", "mqtt-password-sensor"}
	c, nodes := withGuests(t, bridge)
	c.Services.Remove("mqtt")
	tree := New(c)
	brought := options(begin)
	brought.Given = map[string]Hidden{"mqtt-password-sensor": "of the operator"}
	_, err := tree.Update(c, nodes, brought)
	require.NoError(t, err)
	c, nodes = withGuests(t, bridge)
	update(t, tree, c, nodes, begin)
	id, is := entry(t, tree, c, nodes, "mqtt-password-sensor")
	require.Equal(t, "mqtt-password/mqtt-password-sensor", id)
	require.Equal(t, Hidden("of the operator"), is.Value)
	require.True(t, is.Given)
}

func TestAnotherPasswordIsNotTakenForAShared(t *testing.T) {
	c, nodes := withGuests(t, guest{"gateway", "edge-01"})
	tree := New(c)
	update(t, tree, c, nodes, begin)
	key, password := tree.Secrets["state-recovery-key/edge-01"], tree.Secrets["gateway-settings/edge-01"]
	require.NotEqual(t, key.Value, password.Value, "what each node has is no password of users")

	c, nodes = withGuests(t, guest{"alarm", "line"}, guest{"gateway", "edge-01"})
	require.Equal(t, "made: it is needed", changed(update(t, tree, c, nodes, begin), "alarm-settings/line"))

	// Two services of ours never share, and what a row has that is wanted stays with it.
	delete(tree.Secrets, "mqtt-password/mqtt-password-sensor")
	tree.Secrets["kafka-password/mqtt-password-sensor"] = &Secret{Value: "x", Made: begin}
	changes := update(t, tree, c, nodes, begin)
	require.Equal(t, "made: it is needed", changed(changes, "mqtt-password/mqtt-password-sensor"))
	require.Contains(t, tree.Secrets, "kafka-password/mqtt-password-sensor")
}
