package pki

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/service"
)

// valkey is a role of a configuration's own with keys of its own.
type valkey struct{ change func(*service.Service) }

func (d valkey) Service() service.Service {
	s := service.Service{
		Name:        "valkey",
		Roles:       []service.Role{{Name: "valkey", Target: "valkey.target", Programs: []string{"valkey"}}},
		Programs:    []service.Program{{Name: "valkey", Unit: "valkey.service", User: "valkey", Secrets: []string{"valkey-password"}}},
		Settings:    func() spec.Settings { return new(valkeySettings) },
		Authorities: []service.AuthorityRow{{Name: "valkey", Kind: service.CA, Title: "valkey CA", Usage: service.Server}},
		Leaves: []service.LeafRow{{
			Name: "valkey-server", Authority: "valkey", Roles: []string{"valkey"}, CommonName: "{node}",
			SANs: []string{"valkey.{domain}", "{shard}"}, Usage: service.Server,
		}},
		Secrets: []service.SecretRow{{Name: "valkey-password", Roles: []string{"valkey"}, Form: service.FormPassword}},
		Words:   map[string]service.Word{"{shard}": func(_ *facts.Cluster, n *facts.Node) []string { return []string{"shard-" + n.Name} }},
	}
	if d.change != nil {
		d.change(&s)
	}
	return s
}

type valkeySettings struct{}

func (*valkeySettings) Service() string { return "valkey" }

// withValkey is the six-node cluster with the role on edge-01.
func withValkey(t *testing.T) (*facts.Cluster, []facts.Node) {
	t.Helper()
	c, nodes := sixNodes(t)
	l, err := services.With([]services.Definition{valkey{}})
	require.NoError(t, err)
	c.Roles = l.Facts()
	c.Services.Set(new(valkeySettings))
	c.Members["valkey"] = []string{"edge-01"}
	edge := node(t, nodes, "edge-01")
	edge.Roles = append(edge.Roles, "valkey")
	return c, nodes
}

func TestARoleOfItsOwnHasItsOwnKeys(t *testing.T) {
	c, nodes := withValkey(t)
	tree := New(c)
	update(t, tree, c, nodes, begin)
	edge, err := ShareOf(c, node(t, nodes, "edge-01"))
	require.NoError(t, err)
	i := slices.IndexFunc(edge.Leaves, func(l Leaf) bool { return l.Row.Name == "valkey-server" })
	require.Equal(t, []string{"valkey.plant.example", "shard-edge-01"}, edge.Leaves[i].DNS)
	require.Contains(t, edge.Authorities, service.AuthorityRow{
		Name: "valkey", Kind: service.CA, Title: "valkey CA", Service: "valkey", Usage: service.Server,
		Issuers: []string{"control-plane"}, Key: "valkey-ca-key",
	})
	require.True(t, slices.ContainsFunc(edge.Secrets, func(e Entry) bool { return e.Name == "valkey-password" }))
	require.Contains(t, tree.Public().Trust(), "valkey.crt")
	other, err := ShareOf(c, node(t, nodes, "kafka-01"))
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(other.Authorities, func(a service.AuthorityRow) bool { return a.Name == "valkey" }))

	require.NoError(t, tree.Introduce("valkey", c, options(begin)))
	require.NoError(t, tree.Switch("valkey"))
	update(t, tree, c, nodes, begin)
	require.NoError(t, tree.Finish("valkey", c, nodes))
}

func TestAnAuthorityOutlivesTheRoleThatItIsOf(t *testing.T) {
	c, nodes := withValkey(t)
	tree := New(c)
	update(t, tree, c, nodes, begin)
	c, nodes = sixNodes(t)
	require.Equal(t, []Change{{"valkey-server/edge-01", "dropped", "it is no longer needed"}}, update(t, tree, c, nodes, begin))
	names := []string{}
	for _, a := range tree.Public().Authorities {
		names = append(names, a.Name)
	}
	require.Equal(t, "valkey", names[len(names)-1], "behind those of the table")
	require.Len(t, names, len(tree.Authorities))
	lines, err := tree.Show(c, nodes, begin)
	require.NoError(t, err)
	i := slices.IndexFunc(lines, func(l Line) bool { return l.Kind == "authority" && l.Name == "valkey" })
	require.Equal(t, "unused", lines[i].State)
	require.ErrorContains(t, tree.Introduce("valkey", c, options(begin)), "no role of the configuration has the authority valkey any more")
}

// The list of services refuses rows that would take what every cluster has; it knows that by name alone.
func TestWhatEveryClusterHasIsNotForARoleOfItsOwn(t *testing.T) {
	refused := func(what string, change func(*service.Service)) {
		t.Helper()
		_, err := services.With([]services.Definition{valkey{change}})
		require.ErrorContains(t, err, "the role valkey has the "+what+", which is that of every machine")
	}
	for _, a := range Authorities(services.Ours()) {
		if a.Service == "" {
			refused("authority "+a.Name, func(s *service.Service) { s.Authorities[0].Name = a.Name })
		}
	}
	of := map[string]bool{}
	for _, s := range services.Ours().All() {
		for _, l := range s.Leaves {
			of[l.Name] = true
		}
	}
	for _, l := range Leaves(services.Ours()) {
		if !of[l.Name] {
			refused("certificate "+l.Name, func(s *service.Service) { s.Leaves[0].Name = l.Name })
			refused("bundle entry "+l.Certificate, func(s *service.Service) { s.Secrets[0].Entry = l.Certificate })
			refused("bundle entry "+l.Key, func(s *service.Service) { s.Secrets[0].Entry = l.Key })
		}
	}
	for _, e := range Secrets(services.Ours()) {
		if e.Service == "" {
			refused("secret "+e.Name, func(s *service.Service) { s.Secrets[0].Name = e.Name })
			refused("bundle entry "+e.Entry, func(s *service.Service) { s.Secrets[0].Entry = e.Entry })
		}
	}
	for _, word := range slices.Sorted(maps.Keys(everyWord)) {
		refused("word "+word, func(s *service.Service) { s.Words = map[string]service.Word{word: nil} })
	}
}
