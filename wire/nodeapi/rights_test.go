package nodeapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAListNamesPeopleAndRoles(t *testing.T) {
	person := func(name string, roles ...Role) Caller { return Caller{Name: name, Roles: roles} }
	for name, c := range map[string]struct {
		caller Caller
		list   []string
		want   bool
	}{
		"a reader among readers":          {person("anna", Reader), []string{"reader"}, true},
		"an operator among readers":       {person("anna", Operator), []string{"reader"}, true},
		"a reader among operators":        {person("anna", Reader), []string{"operator"}, false},
		"a reader by name":                {person("anna", Reader), []string{"operator", "anna"}, true},
		"another by name":                 {person("otto", Operator), []string{"anna"}, false},
		"an admin, whoever is named":      {person("otto", Admin), []string{"anna"}, true},
		"an admin, nobody is named":       {person("otto", Admin), nil, true},
		"an operator, nobody is named":    {person("otto", Operator), nil, false},
		"a person called as a role":       {person("admin", Reader), []string{"admin"}, false},
		"a node with the name of someone": {person("anna", Node), []string{"anna"}, false},
		"a node that is a reader, too":    {person("anna", Node, Reader), []string{"anna"}, false},
		"a program that asks for metrics": {person("anna", Scraper), []string{"reader", "anna"}, false},
		"nobody":                          {Caller{}, []string{"reader", ""}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.caller.Listed(c.list)) })
	}
}

func TestWhatNamesAPerson(t *testing.T) {
	for name, want := range map[string]bool{
		"anna": true, "a.b@plant-1_x": true, "": false, "-a": false, "@a": false, "a b": false, "é": false, "spore:admin": false,
	} {
		require.Equal(t, want, IsPerson(name), name)
	}
}
